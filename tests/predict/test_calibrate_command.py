"""`assay calibrate`, and predictions on every kind of cluster and workload, as people call them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner
from predict_fixtures import VALIDATION

from assay.app.calibrate import calibrate
from assay.app.predict import predict
from assay.errors import AssayError
from assay.store.generate import Wish, generate
from assay.store.invented import Layout

TWO_CORES = VALIDATION.parent / "examples" / "runs" / "two-cores"
XML = VALIDATION / "nccl_choices" / "dgxh100.xml"

CLUSTER = """\
schema: 1
id: mine
name: Mine
nodes: 2
node:
  gpu: h100-sxm
  gpus: 8
  interconnect: switch
  cpu: intel-sapphire-rapids
  nic_rate: 400 Gbit/s
  nics: 8
fabric:
  transport: infiniband
  wiring: rail-optimised
"""
CONFIG = {
    "model_type": "llama", "num_hidden_layers": 4, "hidden_size": 1024, "intermediate_size": 2816,
    "num_attention_heads": 16, "vocab_size": 32000, "max_position_embeddings": 1024,
}  # fmt: skip
MEGATRON = (
    "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16 "
    "--seq-length 1024 --padded-vocab-size 32000 --swiglu\n"
)
SHAPE = (
    "layers: 4\nhidden: 1024\nheads: 16\nkv_heads: 4\nhead_dim: 64\nffn: 2816\nvocab: 32000\nseq_len: 1024\n"
)


def answer(command, *words: object) -> dict[str, object]:
    result = CliRunner().invoke(command, [*map(str, words), "--json"])
    assert result.exit_code == 0, result.output or result.exception
    return json.loads(result.stdout)


def refused(*words: object) -> AssayError:
    result = CliRunner().invoke(predict, list(map(str, words)))
    assert isinstance(result.exception, AssayError), result.output
    return result.exception


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "run"
    generate(folder, Wish(layout=Layout(nodes=2, gpus=8)))
    return folder


def test_the_answer_says_parameters_fit_and_what_was_not_fitted(run, tmp_path):
    file = tmp_path / "measured.yaml"
    got = answer(calibrate, run, "--out", file)
    assert got["base"] == "dgx-h100"
    for parameter in got["parameters"]:
        assert parameter["low"] < parameter["value"] < parameter["high"]
        assert parameter["meaning"]
    for line in got["fit"]:
        assert line["median_abs_error_frac"] < line["before_median_abs_error_frac"]
    assert [one["name"] for one in got["not_fitted"]] == ["node.bandwidth", "host.launch"]
    assert got["not_fitted"][0]["reason"] == "no collective inside nodes"
    assert answer(
        predict, "--cluster", file, "--workload", "llama-3.1-8b", "--global-batch", 64, "--layout", "tp=2"
    )


def test_a_run_without_a_datasheet_says_so_with_null_and_a_reason():
    got = answer(calibrate, TWO_CORES)
    assert got["base"] is None
    assert "no datasheet" in got["base_reason"]
    assert {line["quantity"] for line in got["fit"] if not line["fitted"]} >= {"training.step_time"}
    assert all(line["before_median_abs_error_frac"] is None for line in got["fit"])


def test_tables_fit_eighty_columns(run):
    for command, words in (
        (calibrate, [run]),
        (predict, ["--cluster", run, "--workload", "llama-3.1-8b", "--global-batch", 64, "--layout", "tp=2",
                   "--explain", "--sensitivity", "--tokens", "1e12"]),
    ):  # fmt: skip
        lines = CliRunner().invoke(command, list(map(str, words))).stdout.splitlines()
        assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("workload", ["llama-3.1-8b", "config.json", "run.sh", "shape.yaml"])
@pytest.mark.parametrize("cluster", ["dgx-h100", "cluster.yaml", "xml", "run", "two-cores"])
def test_every_kind_of_cluster_takes_every_kind_of_workload(cluster, workload, run, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "run.sh").write_text(MEGATRON)
    (tmp_path / "shape.yaml").write_text(SHAPE)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    said = {"run": [run], "two-cores": [TWO_CORES], "cluster.yaml": [tmp_path / "cluster.yaml"]}
    said |= {"xml": [XML, "--gpu", "h100-sxm", "--nodes", 2], "dgx-h100": ["dgx-h100", "--nodes", 2]}
    shape = workload if workload.startswith("llama") else tmp_path / workload
    words = ["--cluster", *said[cluster], "--workload", shape, "--global-batch", 64, "--layout", "tp=2"]
    words += ["--tokens", 1e12, "--json"]
    result = CliRunner().invoke(predict, list(map(str, words)), standalone_mode=False)
    got = json.loads(result.stdout)
    assert result.return_value == (0 if got["fits"] else 1)
    assert math.isclose(sum(got["breakdown"].values()), got["step_time_s"]["value"], rel_tol=1e-9)
    assert got["days"] > 0
    assert (got["mfu_frac"] is None) == (got["mfu_reason"] is not None) == (cluster == "two-cores")
    assert got["speedup"][-1]["gpus"] == got["gpus"]
    origins = {one["origin"] for one in got["inputs"]}
    assert origins == {"run": {"measured", "datasheet"}, "two-cores": {"measured"}}.get(
        cluster, {"datasheet"}
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("400 Gbit/s", "400 Gb"), "unknown unit 'Gb'"),
        (("400 Gbit/s", "400 gb/s"), "unknown unit 'gb/s'"),
        (("400 Gbit/s", "400 GB/s"), "moves 400.0 GB/s, but its slot PCIe 5 x16"),
        (("nics: 8", "nics: 8\n  nic_pcie_generation: 3"), "its slot PCIe 3 x16 \\(15.8 GB/s\\) is slower"),
        (("gpu: h100-sxm", "gpu: h100-smx"), "unknown GPU 'h100-smx'"),
        (("nodes: 2", "node_count: 2"), "unknown key 'node_count'"),
        (
            ("name: Mine", "name: Mine\nbase: dgx-h100"),
            "keep one of the two|described by 'node', or by 'base'",
        ),
    ],
)
def test_a_cluster_file_that_cannot_be_is_told_at_its_line(change, words, tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(CLUSTER.replace(*change))
    with pytest.raises(AssayError, match=words) as caught:
        raise refused("--cluster", file, "--workload", "llama-3.1-8b", "--global-batch", 64)
    assert caught.value.where.startswith(f"{file}:")


def test_what_is_missing_is_named(tmp_path):
    call = ["--workload", "llama-3.1-8b", "--global-batch", 64]
    assert "how many nodes" in str(refused("--cluster", "dgx-h100", *call))
    # Its PCI ids contradict its compute capability.
    assert "does not say which GPU" in str(refused("--cluster", XML.with_name("dgxa100.xml"), *call))
    assert "compute capability 80" in str(refused("--cluster", XML, "--gpu", "a100-sxm-80gb", *call))
    assert "--workload is missing" in str(refused("--cluster", "dgx-h100", "--nodes", 1))
    assert "is none" in str(refused("--cluster", "dgx-h100", "--nodes", 1, "--base", "dgx-h100", *call))
    silent = tmp_path / "t.xml"
    silent.write_text(XML.read_text().replace('link_width="16"', "", 1))
    assert "lacks 'link_width'" in str(refused("--cluster", silent, "--gpu", "h100-sxm", *call))
    for gone in ("num_hidden_layers", "intermediate_size", "vocab_size"):
        file = tmp_path / "config.json"
        file.write_text(json.dumps({key: value for key, value in CONFIG.items() if key != gone}))
        fault = refused("--cluster", "dgx-h100", "--nodes", 1, "--workload", file, "--global-batch", 8)
        assert f"'{gone}' is missing" in str(fault)


def test_a_layout_that_does_not_multiply_out_shows_its_product():
    call = ["--cluster", "dgx-h100", "--nodes", 4, "--workload", "llama-3.1-8b", "--global-batch", 64]
    assert "2 × 1 × 1 × 3 = 6, but the cluster has 32" in str(refused(*call, "--layout", "tp=2,dp=3"))


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (
            "--nodes 2 --workload llama-3.1-70b --layout tp=8 --global-batch 32",
            "recompute=full and sharding=zero3",
        ),
        ("--nodes 1 --workload llama-3.1-8b --global-batch 64", "recompute=full"),
        ("--nodes 1 --workload llama-3.1-405b --layout tp=8 --global-batch 32", "more GPUs"),
    ],
)
def test_a_model_that_does_not_fit_says_the_term_and_the_smallest_change(words, fix):
    call = ["--cluster", "dgx-h100", *words.split()]
    result = CliRunner().invoke(predict, [*call, "--json"], standalone_mode=False)
    assert result.return_value == 1
    got = json.loads(result.stdout)
    assert fix in got["smallest_change_that_fits"]
    text = CliRunner().invoke(predict, call).stdout
    largest = max(got["memory_bytes"], key=got["memory_bytes"].get)
    assert f"the largest term is {largest}" in text
    if "=" in fix:
        layout = ",".join(
            filter(None, [words.partition("--layout ")[2].partition(" ")[0], *fix.split(" and ")])
        )
        changed = words.replace("--layout tp=8", "").split()
        again = CliRunner().invoke(predict, ["--cluster", "dgx-h100", *changed, "--layout", layout, "--json"])
        assert json.loads(again.stdout)["fits"]


def test_a_measured_curve_stands_beside_the_prediction():
    file = VALIDATION.parent / "tests" / "formats" / "data" / "nccl_allreduce.log"
    got = answer(predict, "collective", "--cluster", "dgx-a100", "--measured", file)
    large = got["points"][-1]
    assert large["bytes"] == 2**33
    assert large["error_frac"] == pytest.approx(large["time_s"]["value"] / large["measured_s"] - 1)
    assert abs(large["error_frac"]) < 0.2
    fault = refused("collective", "--cluster", "dgx-a100", "--nodes", 2, "--measured", file)
    assert "8 ranks, the prediction is for 16" in str(fault)
    fault = refused("collective", "--cluster", "dgx-a100", "--op", "all_gather", "--measured", file)
    assert "all_gather" in str(fault)


def test_a_measured_cluster_predicts_its_own_collectives(run):
    points = answer(predict, "collective", "--cluster", run, "--nodes", 2, "--bytes", "1Ki:4Gi")["points"]
    sheet = answer(predict, "collective", "--cluster", "dgx-h100", "--nodes", 2, "--bytes", "1Ki:4Gi")[
        "points"
    ]
    # What the run was generated of: 45 µs and 340 GB/s of bus bandwidth between two nodes.
    assert points[0]["time_s"]["value"] == pytest.approx(45e-6, rel=0.03)
    assert points[-1]["busbw_Bps"] == pytest.approx(340e9, rel=0.03)
    assert [p["algorithm"] for p in points] == [p["algorithm"] for p in sheet]
