"""Over ssh, for which entering a namespace stands in: one command measures all hosts of a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_job import SOURCE, clocks, findings

GROUPS = "leaf.all_reduce.busbw"


def qualify(cluster, folder, hosts, *words, ssh=None, within_s=240, leaves=None):
    lines = [f"{host} {cluster.address(host)} {(leaves or {}).get(host, '')}\n" for host in hosts]
    (folder / "hosts").write_text("".join(lines))
    command = [sys.executable, "-m", "assay", "qualify", "--hosts", folder / "hosts", "--ssh"]
    words = [*command, ssh or cluster.ssh, "--ranks", 1, "--suite", "quick", "--out", folder / "run", *words]
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run(
        list(map(str, words)), capture_output=True, text=True, env=env, timeout=within_s, check=False
    )


def test_four_hosts_of_which_one_has_its_clock_250_ms_off(namespace_cluster, tmp_path, victim):
    wrong, fake = victim([1, 2, 3]), "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    if not Path(fake).exists():
        pytest.skip("faketime is not installed: apt-get install faketime")
    ahead = f"test {{host}} != h{wrong} || export LD_PRELOAD={fake} FAKETIME=+0.25s; "
    ssh = namespace_cluster.ssh.replace("sh -c '", f"sh -c '{ahead}", 1)
    words = ("--restarts", 1, "--only", "clock", "--json")
    done = qualify(namespace_cluster, tmp_path, namespace_cluster.names, *words, ssh=ssh)
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    assert answer["missing_ranks"] == []
    assert findings(answer, "CLOCK_OFFSET") == [("CLOCK_OFFSET", f"rank:{wrong}")]
    assert clocks(answer) == {f"rank:{rank}": "fail" if rank == wrong else "sound" for rank in (1, 2, 3)}


@pytest.mark.cluster
def test_a_host_that_does_not_answer_is_named_and_the_others_are_measured(namespace_cluster, tmp_path):
    hosts = ["h0", "h1", "h2"]
    broken = namespace_cluster.ssh.replace("sh -c '", "sh -c 'test {host} != h1 || exit 255; ", 1)
    done = qualify(namespace_cluster, tmp_path, hosts, "--only", "clock", "--json", ssh=broken)
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    (lost,) = [f for f in answer["findings"] if f["code"] == "RANK_LOST"]
    assert "host h1 did not answer" in lost["because"]
    assert findings(answer, "RANK_LOST") == [("RANK_LOST", "rank:2")]


def test_a_host_given_twice_is_refused(namespace_cluster, tmp_path):
    done = qualify(namespace_cluster, tmp_path, ["h0", "h1", "h0"])
    assert done.returncode == 2
    assert "hosts:3: host h0 is given twice" in done.stderr


@pytest.mark.cluster
def test_a_slow_leaf_of_two_is_named_below_the_hosts_file_s_leaves(namespace_cluster, tmp_path, victim):
    leaves = {"h0": "leaf0", "h2": "leaf0", "h1": "leaf1", "h3": "leaf1"}
    slow = victim(["leaf0", "leaf1"])
    for host in (h for h, leaf in leaves.items() if leaf == slow):
        namespace_cluster.shape(host, rate_Mbps=300)
    words = ("--only", "groups", "--restarts", 2, "--json")
    done = qualify(namespace_cluster, tmp_path, namespace_cluster.names, *words, leaves=leaves)
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    assert findings(answer, "LEAF_SLOW", "LINK_CONTENTION") == [("LEAF_SLOW", f"group:{slow}")]
    loads = {(r["subject"], r["recipe"]["load"]) for r in answer["readings"] if r["quantity"] == GROUPS}
    assert loads == {
        (f"group:{leaf}", load) for leaf in leaves.values() for load in ("alone", "side_by_side")
    }


@pytest.mark.cluster
def test_without_leaves_on_record_clean_blocks_are_compared_and_none_is_named(namespace_cluster, tmp_path):
    words = ("--only", "groups", "--restarts", 2, "--json")
    done = qualify(namespace_cluster, tmp_path, namespace_cluster.names, *words)
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    assert findings(answer, "LEAF_SLOW", "LINK_CONTENTION") == []
    assert {r["subject"] for r in answer["readings"] if r["quantity"] == GROUPS} == {
        "group:block0",
        "group:block1",
    }
    lines = "".join(file.read_text() for file in (tmp_path / "run").glob("rank-*.jsonl"))
    assert lines.count('"group.block"') == 4
    assert "no leaf is on record" in lines
