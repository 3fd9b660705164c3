"""Real faults on the wires, processors and clocks of four hosts: the right subject is named, or none."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from pathlib import Path

import pytest
from cluster_job import findings

PAIRS = ("--suite", "quick", "--restarts", 2, "--only", "pairs", "--json")
#: What accuses a link or a host. LINK_CONTENTION says that it is sound: hosts here share two processors.
LINKS = ("LINK_SLOW", "LINK_SLOW_ONE_WAY", "LINK_LOSS", "NODE_SLOW")


@pytest.fixture
def qualify(job):
    """Waits until the wires know their faults, runs the job, and gives its answer."""

    def run(*words, **how):
        time.sleep(0.25)
        job.start(*words, **how)
        assert set(job.wait().values()) == {0}, job.errors()
        return job.answer

    return run


def test_nothing_is_named_on_a_clean_cluster(qualify):
    answer = qualify("--suite", "quick", "--only", "pairs", "--json")
    assert findings(answer, *LINKS) == []
    (attested,) = [one for one in answer["attestations"] if one["benchmark"] == "pairs"]
    assert set(attested["standings"]) == {"attested"}
    ways = {way["over"]: way for way in attested["ways"]}
    assert 1 <= ways["netdev"]["share_frac"] < 1.1
    assert ways["rdma"]["reason"] == "the node has no active RDMA port"
    links = [r for r in answer["readings"] if r["quantity"] == "peer.bandwidth"]
    assert {r["attestation"] for r in links} == {"pairs"}


def test_one_host_behind_half_a_millisecond_and_a_pair_of_others_at_500_Mbps(
    qualify, namespace_cluster, victim
):
    """Two faults at once, each named where it is and the rest left in peace."""
    host, near, far = victim(list(itertools.permutations(range(4), 3)))
    namespace_cluster.shape(f"h{host}", delay_s=0.0005)
    namespace_cluster.pair_rate(f"h{near}", f"h{far}", 500)
    found = set(findings(qualify(*PAIRS), *LINKS))
    planted = {("LINK_SLOW", f"link:h{host}>*"), ("LINK_SLOW_ONE_WAY", f"link:h{near}>h{far}")}
    assert found >= planted
    assert all(f"h{host}" in subject for _, subject in found - planted)


@pytest.mark.cluster
@pytest.mark.parametrize("delay_s", [0.0005, 0.002])
def test_one_host_behind_a_delay(qualify, namespace_cluster, victim, delay_s):
    host = f"h{victim(range(4))}"
    namespace_cluster.shape(host, delay_s=delay_s)
    assert ("LINK_SLOW", f"link:{host}>*") in findings(qualify(*PAIRS), *LINKS)


def test_one_host_at_500_Mbps(qualify, namespace_cluster, victim):
    host = f"h{victim(range(4))}"
    namespace_cluster.shape(host, rate_Mbps=500)
    found = findings(qualify(*PAIRS), *LINKS)
    assert ("LINK_SLOW", f"link:{host}>*") in found
    assert all(host in subject for _, subject in found)


@pytest.mark.parametrize(
    ("direction", "form"),
    [("out", "link:{}>*"), pytest.param("in", "link:*>{}", marks=pytest.mark.cluster)],
)
def test_one_host_at_500_Mbps_in_one_direction(qualify, namespace_cluster, victim, direction, form):
    host = f"h{victim(range(4))}"
    namespace_cluster.shape(host, rate_Mbps=500, direction=direction)
    found = findings(qualify(*PAIRS), *LINKS)
    assert ("LINK_SLOW_ONE_WAY", form.format(host)) in found
    assert all(host in subject for _, subject in found)


@pytest.mark.cluster
def test_one_pair_at_500_Mbps(qualify, namespace_cluster, victim):
    near, far = victim([(a, b) for a in range(4) for b in range(4) if a != b])
    namespace_cluster.pair_rate(f"h{near}", f"h{far}", 500)
    assert findings(qualify(*PAIRS), *LINKS) == [("LINK_SLOW_ONE_WAY", f"link:h{near}>h{far}")]


def test_one_host_that_loses_one_segment_in_500(qualify, namespace_cluster, victim):
    host = f"h{victim(range(4))}"
    namespace_cluster.shape(host, loss_frac=0.002)
    found = findings(qualify(*PAIRS), *LINKS)
    assert ("LINK_LOSS", f"link:{host}>*") in found
    assert all(host in subject for _, subject in found)


@pytest.mark.cluster
def test_a_clock_250_ms_off(qualify, victim):
    library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    if shutil.which("faketime") is None:
        message = "faketime is not installed: apt-get install faketime"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    rank = victim([1, 2, 3])
    fake = ["env", f"LD_PRELOAD={library}", "FAKETIME=+0.25s"]
    answer = qualify("--suite", "quick", "--only", "clock", "--json", before={rank: fake})
    assert findings(answer, "CLOCK_OFFSET") == [("CLOCK_OFFSET", f"rank:{rank}")]


def test_a_rank_starved_of_its_processor(job, victim, quota):
    rank = victim(range(4))
    job.start("--suite", "quick", "--restarts", 2, "--only", "gemm", "--json")
    job.wait_for("worker_started", rank)
    quota(job.processes[rank].pid, 0.15)
    assert set(job.wait().values()) == {0}, job.errors()
    assert findings(job.answer, "RANK_STARVED") == [("RANK_STARVED", f"rank:{rank}")]


def family(pid: int) -> list[int]:
    """A process and what it has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [pid, *(one for child in children for one in family(child))]


@pytest.fixture
def quota():
    """Lets a process, and what it has started and will, have a part of one processor."""
    root = Path("/sys/fs/cgroup")
    first = (root / "cpu").is_dir()
    group = (root / "cpu" if first else root) / f"assay-test-{os.getpid()}"
    try:
        group.mkdir()
        limit = group / ("cpu.cfs_quota_us" if first else "cpu.max")
        limit.write_text("-1" if first else "max 100000")
    except OSError as fault:
        message = f"no control group of processors can be made here: {fault.strerror}"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)

    def hold(pid: int, share: float) -> None:
        limit.write_text(f"{round(share * 100_000)}" if first else f"{round(share * 100_000)} 100000")
        for one in family(pid):
            (group / "cgroup.procs").write_text(str(one))

    yield hold
    limit.write_text("-1" if first else "max 100000")
    end = time.monotonic() + 10
    while (group / "cgroup.procs").read_text() and time.monotonic() < end:
        time.sleep(0.05)
    group.rmdir()
