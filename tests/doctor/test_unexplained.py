"""A failure without a known cause is undecided, never "nothing is wrong"."""

# ruff: noqa: E501  (lines of other programs stay whole)

from __future__ import annotations

import pytest
from case_files import diagnosed

from assay.doctor.diagnose import Outcome

WAITS = "[rank2]:[E ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=_ALLGATHER_BASE, NumelIn=16384000, NumelOut=131072000, Timeout(ms)=1800000) ran for 1800065 milliseconds before timing out.\n"
STUCK = "[rank4]:[E ProcessGroupNCCL.cpp:1484] [PG ID 2 PG GUID 9 Rank 4] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.\n"


@pytest.mark.parametrize("text", [WAITS, STUCK, STUCK + WAITS], ids=["timeout", "stuck", "both"])
def test_a_wait_that_ran_out_names_no_rank_as_its_cause(text: str) -> None:
    diagnosis = diagnosed([("x", text)])
    (finding,) = diagnosis.findings
    assert (finding.code, str(finding.subject)) == ("JOB_HANG_UNEXPLAINED", "cluster")
    assert diagnosis.verdict is Outcome.UNDECIDED


@pytest.mark.parametrize(
    "text",
    [
        "[rank3]: Traceback (most recent call last):\n[rank3]: AttributeError: 'Linear' object has no attribute 'fooo'\n",
        "[rank3]: RuntimeError: CUDA error: an illegal memory access was encountered\n",
        "[rank3]: terminate called after throwing an instance of 'c10::Error'\n",
    ],
    ids=["python", "cuda", "c++"],
)
def test_the_rank_that_alone_tells_of_a_failure_is_named(text: str) -> None:
    (finding,) = diagnosed([("x", text)]).findings
    assert (finding.code, str(finding.subject)) == ("JOB_FAILURE_UNEXPLAINED", "rank:3")


@pytest.mark.parametrize(
    "line",
    [
        "h:1:2 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x7f6f18cb7f40",
        "srun: error: gpu07: task 12: Exited with exit code 1",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "python: Segmentation fault (core dumped)",
        "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD",
    ],
)
def test_other_words_for_a_failure(line: str) -> None:
    assert [f.code for f in diagnosed([("x", line + "\n")]).findings] == ["JOB_FAILURE_UNEXPLAINED"]


def test_text_that_no_reader_knows_is_no_proof_of_health() -> None:
    unknown = diagnosed(
        [("x", "Warning  FailedScheduling  4m  default-scheduler  0/12 nodes are available\n")]
    )
    assert (unknown.findings, unknown.verdict) == ((), Outcome.UNDECIDED)
    assert diagnosed([("x", "")]).verdict is Outcome.NONE


def test_a_known_cause_leaves_nothing_unexplained() -> None:
    text = WAITS + "[ 812.1] Memory cgroup out of memory: Killed process 4242 (python) total-vm:8kB\n"
    assert [f.code for f in diagnosed([("x", text)]).findings] == ["RANK_LOST"]


def test_a_folder_named_after_a_job_is_no_host() -> None:
    text = "NVRM: Xid (PCI:0000:cb:00): 109, pid=1, name=python, Ch 00000008\n"
    for folder, subject in (("job-17", "gpu:0000:cb:00"), ("gpu-17", "gpu:gpu-17/0000:cb:00")):
        (finding,) = diagnosed([(f"{folder}/dmesg", text)]).findings
        assert str(finding.subject) == subject
