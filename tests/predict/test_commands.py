"""`assay predict` and `assay validate` as people call them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from predict_fixtures import VALIDATION

from assay.app.predict import predict
from assay.app.validate_training import kernels, training
from assay.errors import InputError

CALL = ["--cluster", "dgx-h100", "--nodes", "16", "--workload", "llama-3.1-70b"]
CALL += ["--layout", "tp=4,pp=4,vpp=5,cp=2", "--global-batch", "256"]


def test_json_adds_up_and_names_its_formula() -> None:
    result = CliRunner().invoke(predict, [*CALL, "--json", "--sensitivity", "--tokens", "1e12"])
    assert result.exit_code == 0
    answer = json.loads(result.output)
    assert sum(answer["breakdown"].values()) == pytest.approx(answer["step_time_s"]["value"])
    assert answer["fits"] is True
    assert answer["days"] > 0
    assert "causal" in answer["mfu_formula"]
    assert any(not effect["changes"] for effect in answer["sensitivity"])


def test_text_explains_each_term_with_its_source() -> None:
    result = CliRunner().invoke(predict, [*CALL, "--explain"])
    assert "gemm" in result.output
    assert "Korthikanti" in result.output


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--layout", "tp=8,pp=4"],
        ["--layout", "sharding=fsdp", "--stack", "fsdp"],
        ["--layout", "tp=2,pp=2", "--task", "lora"],
        ["--workload", "deepseek-v3", "--layout", "ep=16,pp=4"],
    ],
)
def test_the_trace_file_follows_the_rules_of_the_format(more: list[str], tmp_path: Path) -> None:
    file = tmp_path / "step.json"
    result = CliRunner().invoke(predict, [*CALL, *more, "--trace", str(file), "--json", "--sensitivity"])
    answer = json.loads(result.stdout)
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    text = file.read_text(encoding="utf-8")
    assert "\\u" not in text
    for event in json.loads(text)["traceEvents"]:
        assert {"ph", "pid", "name"} <= event.keys()
        if event["ph"] != "X":
            assert event["ph"] in "Mstf"
            continue
        assert event["dur"] > 0
        tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert spans[0][0] >= 0
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    end_s = max(end for spans in tracks.values() for _, end in spans) / 1e6
    assert end_s == pytest.approx(answer["step_time_s"]["value"], rel=0.02)
    assert {effect["changes"] for effect in answer["sensitivity"]} == {True, False}


def test_a_model_that_does_not_fit_ends_with_1_and_the_change() -> None:
    call = ["--cluster", "dgx-h100", "--nodes", "2", "--workload", "llama-3.1-70b"]
    result = CliRunner().invoke(predict, [*call, "--layout", "tp=8", "--global-batch", "32"])
    assert "DOES NOT FIT" in result.output
    assert "fix:" in result.output


def test_a_config_json_is_a_workload(tmp_path: Path) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 8, "hidden_size": 1024, "intermediate_size": 2816}
    config |= {"num_attention_heads": 16, "vocab_size": 32000}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    call = [
        "--cluster",
        "dgx-a100",
        "--nodes",
        "1",
        "--workload",
        str(file),
        "--global-batch",
        "64",
        "--json",
    ]
    assert json.loads(CliRunner().invoke(predict, call).output)["gpus"] == 8


def test_a_layout_that_does_not_divide_is_refused() -> None:
    call = ["--cluster", "dgx-h100", "--nodes", "1", "--workload", "llama-3.1-8b"]
    result = CliRunner().invoke(predict, [*call, "--layout", "tp=3", "--global-batch", "8"])
    assert isinstance(result.exception, InputError)


def test_validation_of_training_as_json() -> None:
    file = str(VALIDATION / "training" / "a100_multi_node.csv.gz")
    answer = json.loads(CliRunner().invoke(training, [file, "--json"]).output)
    assert answer["groups"]["A100 multi-node table"]["n"] == 41
    assert {"id", "file", "line", "groups", "unit", "measured", "predicted", "low", "high"} <= set(
        answer["rows"][0]
    )


def test_validation_of_kernels_as_a_table() -> None:
    file = str(VALIDATION / "kernels" / "gemm_a100_sxm.csv.gz")
    output = CliRunner().invoke(kernels, [file]).output
    assert "gemm a100-sxm-80gb bf16" in output
