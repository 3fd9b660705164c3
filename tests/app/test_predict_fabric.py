"""`assay predict fabric`, `memory-pool` and jobs: JSON, pictures, exit codes, bad input."""

import json
import re

import click
import pytest
from click.testing import CliRunner

from assay.app.predict import predict
from assay.errors import AssayError
from assay.fabric.sizing import size_fabric
from assay.fabric.topology.fat_tree import fat_tree


def run(*words):
    return CliRunner().invoke(predict, [str(word) for word in words], standalone_mode=False)


def answer(*words):
    done = run(*words, "--json")
    assert done.exception is None, done.exception
    return json.loads(done.output)


def refused(*words):
    fault = run(*words).exception
    assert isinstance(fault, AssayError), fault
    return str(fault)


DESIGN = fat_tree(size_fabric(8, radix=16, port_Bps=25e9), rate="4xHDR")


def as_csv(network):
    rows = [f"{c.a},{c.a_port},{c.b},{c.b_port},{c.rate}" for c in network.cables]
    return "\n".join(["device,port,remote,remote_port,rate", *rows]) + "\n"


@pytest.fixture
def found(tmp_path):
    """A cabling list with one uplink pulled and two adapters exchanged, and the design file beside it."""
    lines = as_csv(DESIGN).splitlines()
    first, second = (
        next(i for i, line in enumerate(lines) if line.startswith(f"node000{n}/mlx5_{n}")) for n in (1, 2)
    )
    ends = [lines[i].split(",") for i in (first, second)]
    ends[0][2:4], ends[1][2:4] = ends[1][2:4], ends[0][2:4]
    lines[first], lines[second] = (",".join(end) for end in ends)
    lines = [line for line in lines if not line.startswith("leaf003,9,")]
    file = tmp_path / "cables.csv"
    file.write_text("\n".join(lines) + "\n")
    design = tmp_path / "design.yaml"
    design.write_text("schema: 1\nid: su\nnodes: 8\nrails: 8\nradix: 16\nrate: 4xHDR\n")
    return file, design


def test_counts_come_as_the_keys_that_others_rely_on():
    one = answer("fabric", "--cluster", "dgx-b200", "--nodes", 512)
    assert one["command"] == "predict fabric"
    assert one["switches"] == {"leaf": 128, "spine": 128, "core": 64}
    cables = one["cables"]
    assert (cables["node_leaf"], cables["leaf_spine"], cables["spine_core"]) == (4096, 4096, 4096)
    assert one["bisection_Bps"] == pytest.approx(512 * 8 * 50e9 / 2)
    assert one["findings"] == []
    assert one["most_hops"] == 5


@pytest.mark.parametrize("nodes", [4, 72, 600, 4096])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_picture_folds_what_is_alike_and_stays_small(tmp_path, nodes, lang):
    svg, html = tmp_path / "f.svg", tmp_path / "f.html"
    done = run(
        "fabric", "--cluster", "dgx-b300", "--nodes", nodes, "--svg", svg, "--html", html, "--lang", lang
    )
    assert done.exception is None
    text = svg.read_text()
    assert len(text) < 40_000
    assert 10 < len(re.findall("<rect", text)) < 80
    assert f"{nodes:,}" in text
    assert ("交换机" if lang == "zh" else "switches") in text
    assert "<svg" in html.read_text()
    assert "http" not in html.read_text().replace("http://www.w3.org", "")


def test_a_failure_is_marked_in_the_picture(tmp_path):
    svg = tmp_path / "f.svg"
    run("fabric", "--cluster", "dgx-h100", "--nodes", 32, "--svg", svg, "--fail", "switch:spine2")
    assert svg.read_text().count('class="box bad"') == 1


def test_a_fabric_as_found_is_held_against_its_design(found):
    file, design = found
    one = answer("fabric", "--from", file, "--against", design)
    assert one["switches"] == {"leaf": 8, "spine": 4, "core": 0}
    subjects = {finding["code"]: finding["subject"] for finding in one["findings"]}
    assert {f["code"] for f in one["findings"]} == {"CABLE_MISSING", "CABLE_CROSS_RAIL"}
    assert subjects["CABLE_MISSING"] == "pair:leaf003[9]|spine000[7]"
    assert all(f["fix"] and f["because"] for f in one["findings"])
    assert all("{" not in f["because"] for f in one["findings"])
    assert {load["pattern"] for load in one["loads"]} == {"ring", "tree", "all_to_all"}
    assert run("fabric", "--from", file, "--against", design).return_value == 1


def test_the_same_in_words_and_in_chinese(found):
    file, design = found
    assert "缺少线缆" in run("fabric", "--from", file, "--against", design, "--lang", "zh").output
    text = run("fabric", "--from", file, "--against", design).output
    assert "leaf003[9]" in text
    assert "spine000[7]" in text


def test_a_whole_fabric_has_no_finding_and_ends_with_0(tmp_path, found):
    file = tmp_path / "whole.csv"
    file.write_text(as_csv(DESIGN))
    done = run("fabric", "--from", file, "--against", found[1])
    assert done.return_value == 0
    assert "no fault" in done.output


def test_a_design_of_another_size_is_told(found):
    file, design = found
    design.write_text(design.read_text().replace("nodes: 8", "nodes: 6"))
    text = refused("fabric", "--from", file, "--against", design)
    assert "cables.csv:" in text
    assert "correct nodes" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nodes: 8", "nods: 8", "did you mean 'nodes'"),
        ("radix: 16", "radix: 15", "no equal halves"),
        ("rate: 4xHDR", "rate: fast", "for example 4xNDR"),
        ("rails: 8", "rails: 8\nnames: {leaf: 'l{x}'}", "write {i}"),
        ("rails: 8", "rails: 8\nwiring: ring", "unknown wiring"),
        ("nodes: 8\nrails: 8\nradix: 16", "nodes: 3000\nrails: 8\nradix: 16", "fourth tier"),
        ("nodes: 8\nrails: 8\nradix: 16", "nodes: 150\nrails: 6\nradix: 16", "do not divide into pods"),
    ],
)
def test_a_faulty_design_is_told_with_its_line(found, old, new, words):
    file, design = found
    design.write_text(design.read_text().replace(old, new))
    text = refused("fabric", "--from", file, "--against", design)
    assert words in text
    assert "design.yaml:" in text


def test_routes_of_a_switch_that_is_not_there_are_told(tmp_path, found):
    routes = tmp_path / "fts.txt"
    head = "Unicast lids [0x0-0x4c] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000100070 (leaf077):"
    row = "0x0001 001 : (Channel Adapter portguid 0x0000000000200441: 'node0000/mlx5_0')"
    routes.write_text("\n".join([head, row, "1 valid lids dumped", ""]))
    assert "switch leaf077, which is not in" in refused("fabric", "--from", found[0], "--from", routes)
    assert "routes without cabling" in refused("fabric", "--from", routes)
    assert "a second cabling file" in refused("fabric", "--from", found[0], "--from", found[0])
    assert "unknown node" in refused("fabric", "--from", found[0], "--placement", "node[0-77]")


def test_what_is_no_cabling_is_told(tmp_path):
    file = tmp_path / "x.txt"
    file.write_text("hello\n")
    assert "x.txt:1: no cabling" in refused("fabric", "--from", file)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--cluster", "dgx-h10"], "did you mean"),
        ([], "which fabric?"),
        (["--cluster", "dgx-h100", "--fail", "switch:spin2"], "did you mean"),
        (["--cluster", "dgx-h100", "--loss", "2"], "a loss of 2"),
        (["--cluster", "hgx-h100-roce", "--nodes", "16", "--sharp"], "SHARP needs InfiniBand"),
        (["--cluster", "dgx-h100", "--wiring", "star"], "unknown wiring"),
    ],
)
def test_bad_input_is_told_with_its_fix(words, told):
    text = refused("fabric", *words)
    assert told in text
    assert "fix:" in text


def test_failures_come_with_what_is_left_and_the_timeline():
    one = answer(
        "fabric",
        "--cluster",
        "dgx-h100",
        "--nodes",
        32,
        "--fail",
        "rail:4",
        "--sweep",
        "--sharp",
        "--no-adaptive",
    )
    assert one["remaining_frac"]["ring"] == 7 / 8
    assert [moment["at_s"] for moment in one["recovery"]["moments"]] == sorted(
        m["at_s"] for m in one["recovery"]["moments"]
    )
    assert one["recovery"]["job_survives"]
    assert {row["class"] for row in one["sweep"]} >= {"nic – leaf", "leaf – spine", "spine switch"}
    assert len(one["sharp"]["trees"]) == 8
    assert one["sharp"]["trees"][0]["switches"] == 1


def test_a_collective_and_a_step_feel_a_lost_nic():
    plain = answer("collective", "--cluster", "dgx-h100", "--nodes", 8, "--bytes", "1Gi")
    worse = answer(
        "collective", "--cluster", "dgx-h100", "--nodes", 8, "--bytes", "1Gi", "--fail", "nic:node3/mlx5_1"
    )
    assert worse["points"][0]["time_s"]["value"] > 1.05 * plain["points"][0]["time_s"]["value"]
    words = [
        "--cluster",
        "dgx-h100",
        "--nodes",
        4,
        "--workload",
        "llama-3.1-8b",
        "--layout",
        "tp=2",
        "--global-batch",
        64,
    ]
    slow = answer(*words, "--fail", "gpu:node1/3@0.8")
    assert slow["step_time_s"]["value"] > 1.15 * slow["healthy_s"]
    assert slow["gpu_part"] == 0.8


def test_jobs_have_phases_scaling_and_published_figures():
    one = answer("--cluster", "dgx-h100", "--nodes", 4, "--workload", "halo3d", "--set", "nx=2048")
    assert one["parameters"]["nx"] == 2048
    assert sum(one["breakdown"].values()) == pytest.approx(one["step_time_s"]["value"])
    assert one["published"][0]["source"]
    assert [p["nodes"] for p in one["scaling"]["strong"]] == [1, 2, 4]
    text = run("--cluster", "dgx-h100", "--nodes", 4, "--workload", "volume", "--fail", "rail:1").output
    assert "Published runs" in text
    assert "what is wrong: rail:1" in text


def test_the_pool_of_a_rack_holds_what_a_node_does_not():
    rack = answer("memory-pool", "--cluster", "gb200-nvl72", "--workload", "deepseek-v3")
    assert rack["fits"]
    assert rack["remote_frac"] == pytest.approx(71 / 72)
    assert rack["best"] == "pooled"
    node = run("memory-pool", "--cluster", "dgx-h100", "--bytes", "2 TB")
    assert node.return_value == 1
    assert "DOES NOT FIT" in node.output
    assert "no direct links" in refused("memory-pool", "--cluster", "l40s-pcie", "--bytes", "1 GB")
    assert "an NVLink domain" in refused(
        "memory-pool", "--cluster", "dgx-h100", "--bytes", "1 GB", "--gpus", 9
    )
    assert "what is to be held" in refused("memory-pool", "--cluster", "dgx-h100")


def test_a_jittery_network_has_a_tail():
    words = ["collective", "--cluster", "hgx-h100-roce", "--nodes", 16, "--bytes", "1Mi"]
    (tail,) = answer(*words, "--jitter", "20 us")["tails"]
    assert 30 * 10e-6 < tail["median_s"] < tail["p99_s"]
    assert "tails" not in answer(*words)
    assert "20" in refused(*words, "--jitter", "20")


def test_jobs_share_and_vendors_do_not_talk():
    one = answer(
        "fabric", "--cluster", "dgx-h100", "--nodes", 16, "--job", "ring:node[0-15]", "--with", "hgx-mi300x"
    )
    assert one["jobs"][0]["alone_Bps"] == pytest.approx(50e9)
    assert {talk["way"] for talk in one["talks"]} == {"gpudirect", "none"}
    assert one["gpu_out_Bps"] == pytest.approx([50e9] * 8)
    assert one["nvlink_domain_limit_gpus"] == 256


def test_an_incast_drops_unless_something_holds_the_senders():
    words = ["fabric", "--cluster", "hgx-h100-roce", "--nodes", 8]
    found = answer(*words, "--incast", "128:1Mi:64Mi")["incast"]
    assert found["lossy"]["dropped_frac"] == pytest.approx(63 / 128)
    assert found["ecn"]["dropped_frac"] == found["lossless"]["dropped_frac"] == 0
    assert found["lossless"]["pauses"]
    assert "senders:burst:buffer" in refused(*words, "--incast", "128")


def test_failures_of_a_fabric_as_found(found):
    one = answer("fabric", "--from", found[0], "--fail", "nic:node3/mlx5_2")
    assert one["remaining_frac"]["ring"] == 7 / 8
    assert "did you mean" in refused("fabric", "--from", found[0], "--fail", "switch:spin2")
    with pytest.raises(click.UsageError, match="the rest is for designs"):
        raise run("fabric", "--from", found[0], "--sharp").exception
    with pytest.raises(click.UsageError, match="as found"):
        raise run("fabric", "--cluster", "dgx-h100", "--against", found[1]).exception
