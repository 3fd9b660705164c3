"""Ranks seen from outside: the one that waits for nobody is named, dead, stopped or elsewhere."""

# ruff: noqa: E501  (lines of other programs stay whole)

from __future__ import annotations

import pytest
from case_files import diagnosed

WAITS = ("all_reduce (torch/distributed/distributed_c10d.py:3252)", "<module> (train.py:18)")


def rank(
    number: int, *frames: str, state: str = "S", world: int = 4, parent: int = 1, pid: int | None = None
) -> str:
    head = f"## rank {number} of {world} pid {pid or 100 + number} parent {parent} state {state} wait futex_do_wait\n"
    if not frames:
        return head
    stack = "".join(f"    {frame}\n" for frame in frames)
    return f'{head}Process 7: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\nThread 7 (idle): "MainThread"\n{stack}'


def test_a_job_whose_ranks_all_wait_in_one_collective_has_no_root() -> None:
    assert diagnosed([("live", "".join(rank(n, *WAITS) for n in range(4)))]).findings == ()


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("DataLoader.__next__ (loader.py:11)", "APP_DATALOADER_STARVED"),
        ("save_checkpoint (checkpointing.py:90)", "APP_CHECKPOINT_STALL"),
        ("forward (model.py:5)", "APP_STRAGGLER"),
    ],
)
def test_the_rank_that_is_elsewhere_is_the_root(frame: str, code: str) -> None:
    text = "".join(rank(n, *((frame, "<module> (train.py:9)") if n == 2 else WAITS)) for n in range(4))
    (finding,) = diagnosed([("live", text)]).findings
    assert (finding.code, str(finding.subject)) == (code, "rank:2")


def test_a_stopped_rank_is_named_even_without_stacks() -> None:
    text = "".join(rank(n, state="T" if n == 1 else "S") for n in range(4))
    (finding,) = diagnosed([("live", text)]).findings
    assert (finding.code, str(finding.subject)) == ("RANK_STOPPED", "rank:1")


def test_a_rank_that_is_not_there_is_named() -> None:
    text = "".join(rank(n, *WAITS) for n in (0, 1, 3))
    (finding,) = diagnosed([("live", text)]).findings
    assert (finding.code, str(finding.subject)) == ("RANK_LOST", "rank:2")


def test_the_rank_in_another_collective_is_odd() -> None:
    other = ("broadcast (torch/distributed/distributed_c10d.py:2900)", "<module> (train.py:18)")
    text = "".join(rank(n, *(other if n == 3 else WAITS)) for n in range(4))
    (finding,) = diagnosed([("live", text)]).findings
    assert (finding.code, str(finding.subject)) == ("APP_COLLECTIVE_DESYNC", "rank:3")


def test_loader_workers_of_a_rank_are_not_the_rank() -> None:
    worker = rank(1, "_worker_loop (worker.py:3)", parent=101, pid=999, state="S")
    text = "".join(rank(n, *WAITS) for n in range(4)) + worker
    assert diagnosed([("live", text)]).findings == ()
