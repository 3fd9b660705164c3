"""Over ssh, for which entering a namespace stands in: one command measures all hosts of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_job import clocks, findings


def test_four_hosts_of_which_one_has_its_clock_250_ms_off(hosts_job, victim):
    wrong, fake = victim([1, 2, 3]), "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    if not Path(fake).exists():
        pytest.skip("faketime is not installed: apt-get install faketime")
    ahead = f"test {{host}} != h{wrong} || export LD_PRELOAD={fake} FAKETIME=+0.25s; "
    ssh = hosts_job.cluster.ssh.replace("sh -c '", f"sh -c '{ahead}", 1)
    answer = hosts_job.measure("--restarts", 1, "--only", "clock", ssh=ssh)
    assert answer["missing_ranks"] == []
    assert findings(answer, "CLOCK_OFFSET") == [("CLOCK_OFFSET", f"rank:{wrong}")]
    assert clocks(answer) == {f"rank:{rank}": "fail" if rank == wrong else "sound" for rank in (1, 2, 3)}


@pytest.mark.cluster
def test_a_host_that_is_gone_keeps_its_rank_and_the_run_goes_on_without_it(hosts_job):
    broken = hosts_job.cluster.ssh.replace("sh -c '", "sh -c 'test {host} != h1 || exit 255; ", 1)
    hosts_job.start("--restarts", 2, "--only", "clock")
    hosts_job.wait_for('"clock.offset"', 3)
    hosts_job.kill()
    before = [(hosts_job.run / f"rank-{rank:04d}.jsonl").read_bytes() for rank in range(4)]
    answer = hosts_job.measure(resume=True, ssh=broken)
    (lost,) = [f for f in answer["findings"] if f["code"] == "RANK_LOST"]
    assert lost["subject"] == "rank:1"
    assert "host h1 did not answer: ip ended with code 255" in lost["because"]
    after = [(hosts_job.run / f"rank-{rank:04d}.jsonl").read_bytes() for rank in range(4)]
    assert all(now.startswith(was) for now, was in zip(after, before, strict=True))
    assert [now == was for now, was in zip(after, before, strict=True)] == [False, True, False, False]
    hosts_job.start(resume=True, hosts=["h1", "h0", "h2", "h3"])
    assert hosts_job.wait() == 2
    assert "rank 0 of run" in hosts_job.errors()
    assert "was on h0, but now it is on h1" in hosts_job.errors()


def test_a_host_given_twice_is_refused(hosts_job):
    hosts_job.start(hosts=["h0", "h1", "h0"])
    assert hosts_job.wait() == 2
    assert "hosts:3: host h0 is given twice" in hosts_job.errors()
