"""What is killed, stopped or never started, on four hosts with disks of their own."""

from __future__ import annotations


import pytest

QUICK = ("--suite", "quick", "--only", "clock", "--json")


def test_four_hosts_are_measured_and_rank_0_has_everything(job):
    job.start(*QUICK)
    assert set(job.wait().values()) == {0}, job.errors()
    answer = job.answer
    assert answer["missing_ranks"] == []
    clocks = {c["subject"]: c["verdict"] for c in answer["criteria"] if c["id"] == "clocks-agree"}
    assert clocks == {"rank:1": "pass", "rank:2": "pass", "rank:3": "pass"}
    for rank in (1, 2, 3):
        name = f"rank-{rank:04d}.jsonl"
        assert (job.run_of(0) / name).read_bytes() == (job.run_of(rank) / name).read_bytes()


@pytest.mark.parametrize("rank", [2])
def test_a_killed_rank_is_named_and_the_others_get_verdicts(job, rank):
    job.start(*QUICK)
    job.wait_for("worker_started", 0)
    job.processes[rank].kill()
    codes = job.wait(but=(rank,))
    assert set(codes.values()) == {0}, job.errors()
    assert job.answer["missing_ranks"] == [rank]
