"""The wave of groups on real hosts: slow leaves, a shared uplink, broken off and taken up, until decided."""

from __future__ import annotations

import json

import pytest
from cluster_job import HostsJob, findings

from cluster import UPLINK, Cluster

pytestmark = pytest.mark.cluster

BUSBW = "leaf.all_reduce.busbw"
ONLY = ("--only", "groups")
#: Not in the order of the hosts, so that blocks would be other groups.
LEAVES = {"h0": "leaf0", "h2": "leaf0", "h1": "leaf1", "h3": "leaf1"}


def groups_of(answer):
    """(group, load) -> restarts behind its reading."""
    rows = [r for r in answer["readings"] if r["quantity"] == BUSBW and r["value"] is not None]
    return {(r["subject"], r["recipe"]["load"]): r["n"] for r in rows}


def named(answer):
    return findings(answer, "LEAF_SLOW", "LINK_CONTENTION")


EVERY = {(f"group:{leaf}", load) for leaf in LEAVES.values() for load in ("alone", "side_by_side")}


def test_a_slow_leaf_of_two_is_named_below_the_hosts_file_s_leaves(hosts_job, victim):
    slow = victim(["leaf0", "leaf1"])
    for host in (h for h, leaf in LEAVES.items() if leaf == slow):
        hosts_job.cluster.shape(host, rate_Mbps=300)
    answer = hosts_job.measure(*ONLY, "--restarts", 2, leaves=LEAVES)
    assert named(answer) == [("LEAF_SLOW", f"group:{slow}")]
    assert groups_of(answer).keys() == EVERY


def test_without_leaves_on_record_clean_blocks_are_compared_and_none_is_named(hosts_job):
    answer = hosts_job.measure(*ONLY, "--restarts", 2)
    assert named(answer) == []
    assert {group for group, _ in groups_of(answer)} == {"group:block0", "group:block1"}
    lines = "".join(file.read_text() for file in hosts_job.run.glob("rank-*.jsonl"))
    assert lines.count('"group.block"') == 4
    assert "no leaf is on record" in lines


def test_groups_that_share_an_uplink_are_slow_only_side_by_side(tmp_path):
    """Each group has a host at either end of it: four at once get a quarter each, and one alone all."""
    with Cluster(hosts=8, wire=False, uplink=True) as cluster:
        cluster.shape(UPLINK, rate_Mbps=160)
        job = HostsJob(cluster, tmp_path)
        across = {f"h{at}": f"leaf{at % 4}" for at in range(8)}
        answer = job.measure(*ONLY, "--restarts", 2, leaves=across)
    assert sorted(named(answer)) == [("LINK_CONTENTION", f"group:leaf{at}") for at in range(4)]
    assert all(n == 2 for n in groups_of(answer).values())


def test_a_wave_that_was_broken_off_is_taken_up_with_the_same_leaves(hosts_job):
    """The lead is killed within a restart: what that measured stays, and whole restarts come after it."""
    hosts_job.start(*ONLY, "--restarts", 2, leaves=LEAVES)
    hosts_job.wait_for(BUSBW, 0)
    hosts_job.kill()
    files = sorted(hosts_job.run.glob("rank-*.jsonl"))
    before = [file.read_bytes() for file in files]
    answer = hosts_job.measure(resume=True)
    assert all(file.read_bytes().startswith(was) for file, was in zip(files, before, strict=True))
    assert answer["missing_ranks"] == []
    assert named(answer) == []
    assert groups_of(answer).keys() == EVERY
    assert all(n >= 2 for n in groups_of(answer).values())
    events = [json.loads(line) for line in (hosts_job.run / "agent.jsonl").read_text().splitlines()]
    assert sum(event.get("kind") == "task_done" for event in events) == 2


def test_groups_are_measured_until_their_criterion_is_decided(hosts_job, tmp_path):
    """One restart decides nothing, so that more are made, of the groups alone."""
    (tmp_path / "leaf.yaml").write_text(
        "schema: 1\nname: leaf\ntitle: leaf\ncriteria:\n"
        f"  - {{id: leaf, quantity: {BUSBW}, op: at_least, bound: 1 MB/s, recipe: {{load: alone}}}}\n"
    )
    words = (
        "--only",
        "groups,clock",
        "--restarts",
        1,
        "--until-decided",
        "--profile",
        tmp_path / "leaf.yaml",
    )
    answer = hosts_job.measure(*words, leaves=LEAVES)
    assert {(c["subject"], c["verdict"]) for c in answer["criteria"]} == {
        ("group:leaf0", "pass"),
        ("group:leaf1", "pass"),
    }
    assert min(groups_of(answer).values()) > 1
    events = [json.loads(line) for line in (hosts_job.run / "agent.jsonl").read_text().splitlines()]
    done = [event["details"]["benchmark"] for event in events if event.get("kind") == "task_done"]
    assert done.count("clock") == 1
