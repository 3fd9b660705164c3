"""`assay predict collective` and `assay validate collectives|choices` from the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from assay.api.clusters import read_cluster
from assay.app.predict_collective import collective
from assay.app.validate_fabric import choices, collectives
from assay.catalog.clusters import cluster, cluster_ids
from assay.errors import AssayError

VALIDATION = Path(__file__).parents[2] / "validation"


def run(command: object, *words: str) -> Result:
    return CliRunner().invoke(command, list(words), standalone_mode=False)  # type: ignore[arg-type]


def test_a_curve_is_one_json_object_with_the_promised_keys() -> None:
    answer = json.loads(run(collective, "--cluster", "dgx-h100", "--bytes", "1Mi:8Mi", "--json").output)
    assert answer["schema_version"] == 1
    assert [point["bytes"] for point in answer["points"]] == [2**20, 2**21, 2**22, 2**23]
    keys = [
        "op",
        "bytes",
        "nodes",
        "ranks",
        "time_s",
        "algbw_Bps",
        "busbw_Bps",
        "algorithm",
        "protocol",
        "bound_by",
    ]
    for point in answer["points"]:
        assert list(point) == keys
        assert point["time_s"]["low"] <= point["time_s"]["value"] <= point["time_s"]["high"]


def test_mpi_shows_its_algorithm_and_that_nothing_was_measured() -> None:
    words = ("--cluster", "dgx-h100", "--nodes", "4", "--library", "mpi", "--bytes", "8,1Mi", "--json")
    answer = json.loads(run(collective, *words).output)
    assert answer["library"] == "mpi"
    assert answer["extrapolated"] == ["mpi"]
    ways = [f"{point['algorithm']}/{point['protocol']}" for point in answer["points"]]
    assert ways == ["DOUBLING/SMP", "RABENSEIFNER/SMP"]


def test_a_topology_file_stands_for_the_node() -> None:
    file = str(VALIDATION / "nccl_choices" / "dgxa100.xml")
    shown = run(collective, "--cluster", file, "--nodes", "2", "--bytes", "1Gi").output
    assert "16 ranks" in shown
    assert "GB/s" in shown


@pytest.mark.parametrize(
    ("file", "named"),
    [("dgxh100.xml", "h100-sxm"), ("dgxa100.xml", None)],  # by hand: one PCI id for every GPU
)
def test_the_gpu_of_a_topology_is_known_by_its_pci_id(file: str, named: str | None) -> None:
    gpu = read_cluster(str(VALIDATION / "nccl_choices" / file)).node.gpu
    assert (gpu.id if gpu else None) == named


def test_a_nic_faster_than_its_slot_is_refused_with_the_arithmetic(tmp_path: Path) -> None:
    text = (VALIDATION / "nccl_choices" / "dgxh100.xml").read_text(encoding="utf-8")
    file = tmp_path / "node.xml"
    file.write_text(text.replace('speed="400000"', 'speed="800000"', 1), encoding="utf-8")
    told = str(run(collective, "--cluster", str(file)).exception)
    assert "node.xml:10: " in told
    assert "800 Gbit/s moves 100.0 GB/s, but its slot is PCIe 5 x16 (63.0 GB/s)" in told


@pytest.mark.parametrize("system", cluster_ids())
def test_every_switch_works_on_every_shipped_system(system: str) -> None:
    for words in ((), ("--nvls",), ("--no-nvls",), ("--adaptive",), ("--no-adaptive",), ("--no-sharp",)):
        answer = json.loads(
            run(collective, "--cluster", system, "--nodes", "2", "--bytes", "64Mi", *words, "--json").output
        )
        (point,) = answer["points"]
        assert point["time_s"]["value"] > 0
        assert point["bound_by"]
    result = run(collective, "--cluster", system, "--nodes", "2", "--bytes", "64Mi", "--sharp", "--json")
    fabric = cluster(system).fabric
    assert fabric is not None
    if fabric.sharp:
        assert json.loads(result.output)["points"]
    else:
        assert "no SHARP" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--cluster", "dgx-h10"), "dgx-h100"),
        (("--cluster", "dgx-h100", "--bytes", "16Gi:8"), "write the smaller first"),
        (("--cluster", "dgx-h100", "--nccl", "two"), "2.27"),
        (("--cluster", "dgx-h100", "--op", "allreduced"), "all_reduce"),
    ],
)
def test_mistakes_are_told_with_a_fix(words: tuple[str, ...], told: str) -> None:
    result = run(collective, *words)
    assert isinstance(result.exception, AssayError)
    assert told in str(result.exception)


def test_choices_are_scored_from_files() -> None:
    folder = VALIDATION / "nccl_choices"
    answer = json.loads(run(choices, str(folder / "nccl2.27.7_dgxh100_n2_c0.json"), "--json").output)
    assert answer["groups"]["all"]["agreement_frac"] == 1.0
    assert answer["rows"][0]["id"] == "dgxh100.xml:2.27.7:2:0:Broadcast:1024"


def test_collectives_are_scored_from_files(tmp_path: Path) -> None:
    lines = (VALIDATION / "collectives" / "measured.csv").read_text(encoding="utf-8").splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join([lines[0], *(x for x in lines if x.startswith("C001"))]), encoding="utf-8")
    answer = json.loads(run(collectives, str(few), "--json").output)
    assert answer["groups"]["in a node"]["n"] == 32
    assert answer["rows"][0]["error_frac"] is not None
    assert "median" in run(collectives, str(few)).output


def test_copies_from_point_to_point_are_scored_beside_them(tmp_path: Path) -> None:
    lines = (VALIDATION / "collectives" / "measured.csv").read_text(encoding="utf-8").splitlines()
    few = tmp_path / "few.csv"
    few.write_text("\n".join([lines[0], *(x for x in lines if x.startswith("C001"))]), encoding="utf-8")
    answer = json.loads(
        run(collectives, str(few), str(VALIDATION / "collectives" / "p2p.csv"), "--json").output
    )
    assert {"in a node", "point to point, bandwidth", "point to point, latency"} <= set(answer["groups"])
