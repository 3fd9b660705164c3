"""The environment benchmark, run for real."""

import os

import torch

from assay.measure.benchmarks import environment

SHORT = {"busy_s": 0.2}


def test_the_node_is_told_once_and_each_rank_by_itself(run_benchmark, monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("SLURM_TOPOLOGY_ADDR", "spine0.leaf3.node07")
    monkeypatch.setenv("SLURM_TOPOLOGY_ADDR_PATTERN", "switch.switch.node")
    measured = run_benchmark("environment", **SHORT)
    assert measured.outcome.whole
    (cores,) = measured.facts("cpu.threads")
    assert cores["subject"] == "node:h0"
    assert cores["value"] == os.cpu_count()
    (leaf,) = measured.facts("leaf")
    assert (leaf["subject"], leaf["value"]) == ("node:h0", "leaf3")
    (steal,) = measured.facts("cpu.steal_frac")
    assert 0 <= steal["value"] <= 1
    for key, value in (
        ("torch.version", torch.__version__),
        ("env.NCCL_ALGO", "Ring"),
        ("torch.device", "cpu"),
    ):
        facts = measured.facts(key)
        assert [f["subject"] for f in facts] == ["rank:0", "rank:1"]
        assert {f["value"] for f in facts} == {str(value)}
    assert [f["subject"] for f in measured.facts("cpu.affinity_list")] == ["rank:0", "rank:1"]
    missing = [line for line in measured.lines if line["type"] == "fact" and line["value"] is None]
    assert missing
    assert all(line["reason"] for line in missing)


def test_an_inventory_of_another_host_is_not_recorded(run_benchmark):
    measured = run_benchmark("environment", corrupt=True, **SHORT)
    assert not [line for line in measured.lines if line["type"] == "fact"]
    assert measured.reasons() == {"the inventory is not of this host (on rank 0)"}


def test_core_lists_are_short():
    assert environment._ranges([0, 1, 2, 3, 8]) == "0-3,8"
    assert environment._ranges([5]) == "5"


def test_the_leaf_is_the_switch_above_a_node_whose_name_may_have_dots():
    def told(addr, pattern):
        return environment.leaf_of({"SLURM_TOPOLOGY_ADDR": addr, "SLURM_TOPOLOGY_ADDR_PATTERN": pattern})

    assert told("s0.leaf1.n7.example.org", "switch.switch.node") == "leaf1"
    assert told("n7", "node") is None
    assert told("n7.example", "switch.switch.node") is None
    assert environment.leaf_of({}) is None
