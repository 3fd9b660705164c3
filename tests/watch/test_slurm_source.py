"""What Slurm says of a job and its nodes, from its own words to incidents."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from items import T0, changes, event
from servers import until

from assay.errors import EnvironmentLackError, InputError
from assay.formats.slurm_state import JobState, NodeState, read_jobs, read_nodes, read_sacct
from assay.watch.sources.logs import LogReader
from assay.watch.sources.slurm import SlurmSource, SlurmStates, ask_slurm

#: As Slurm 23.11 prints them, with the fields that nobody reads here cut.
JOB = (
    "JobId=48 JobName=train the model UserId=ada(1000) GroupId=ada(1000) Priority=4294901757 Nice=0 "
    "JobState={state} Reason={reason} Dependency=(null) Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0 "
    "ExitCode={code} RunTime=00:06:51 TimeLimit=1-00:00:00 StartTime=2024-05-01T10:00:00 Partition=gpu "
    "ReqNodeList=(null) ExcNodeList=(null) NodeList={nodes} BatchHost=n3 NumNodes=2 NumCPUs=8 "
    "Command=/home/ada/train.sh --state=JobState WorkDir=/home/ada"
)
NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket=2 CPUAlloc=4 CPUTot=4 CPULoad=0.01 AvailableFeatures=(null) "
    "Gres=gpu:8 NodeAddr={name} OS=Linux 5.15.0 #1 SMP RealMemory=8000 State={state} ThreadsPerCore=1 "
    "Partitions=gpu BootTime=2024-05-01T08:00:00{reason}"
)
SACCT = """\
JobID|State|ExitCode|Restarts|NodeList
48|NODE_FAIL|1:0|0|n[3-4]
48.batch|CANCELLED|0:15||n3
49|CANCELLED by 1000|0:9|1|None assigned
"""


def job(state="RUNNING", *, restarts=0, code="0:0", nodes="n[3-4]", reason="None") -> JobState:
    line = JOB.format(state=state, restarts=restarts, code=code, nodes=nodes, reason=reason)
    return next(read_jobs([line]))


def node(name: str, state: str, reason: str = "") -> NodeState:
    text = f" Reason={reason} [slurm@2024-05-01T10:06:51]" if reason else ""
    return next(read_nodes([NODE.format(name=name, state=state, reason=text)]))


def test_a_job_and_its_nodes_are_read():
    assert job() == JobState(job="48", state="RUNNING", exit_code=0, nodes=("n3", "n4"))
    assert job("FAILED", code="0:9").exit_code == 137
    assert job("PENDING", nodes="(null)").nodes == ()
    failed, cancelled = read_sacct(SACCT.splitlines())
    assert (failed.state, failed.nodes, failed.is_over) == ("NODE_FAIL", ("n3", "n4"), True)
    assert (cancelled.state, cancelled.restarts, cancelled.exit_code) == ("CANCELLED", 1, 137)


@pytest.mark.parametrize(
    ("state", "down", "drained"),
    [
        ("IDLE", False, False),
        ("MIXED+PLANNED", False, False),
        ("ALLOCATED*", True, False),
        ("DOWN*", True, False),
        ("DOWN+DRAIN", True, True),
        ("IDLE+DRAIN", False, True),
        ("DOWN+NOT_RESPONDING", True, False),
        ("IDLE~", False, False),
    ],
)
def test_states_of_nodes(state, down, drained):
    found = node("n3", state, "Not responding")
    assert (found.is_down, found.is_drained, found.reason) == (down, drained, "Not responding")


def test_what_is_no_answer_of_slurm_is_refused_with_its_place():
    with pytest.raises(InputError, match="show job -o:2"):
        list(read_jobs(["", "slurm_load_jobs error: Unable to contact slurm controller"]))
    with pytest.raises(InputError, match="no node"):
        list(read_nodes(["Node n3 not found"]))
    with pytest.raises(InputError, match="no heading"):
        list(read_sacct(["48|FAILED"]))


def kinds(states: list[JobState]) -> list[str]:
    watch = SlurmStates()
    return [e.kind for at, now in enumerate(states) for e in watch.take_job(now, T0 + at)]


def test_a_job_from_its_start_through_a_requeue_to_its_end():
    lives = [job("PENDING", nodes=""), job(), job(), job("PENDING", restarts=1, nodes=""), job(restarts=1),
             job("COMPLETED", restarts=1), job("COMPLETED", restarts=1)]  # fmt: skip
    assert kinds(lives) == ["job_started", "job_ended", "job_requeued", "job_started", "job_ended"]
    # A requeue between two looks shows only in the count of restarts.
    assert kinds([job(), job(restarts=1)]) == ["job_started", "job_ended", "job_requeued", "job_started"]
    assert kinds([job(), job("COMPLETING"), job("FAILED", code="1:0")]) == ["job_started", "job_ended"]


def test_how_a_job_ended_is_told():
    watch = SlurmStates()
    list(watch.take_job(job(), T0))
    (ended,) = watch.take_job(job("NODE_FAIL", code="0:15"), T0 + 1)
    assert (ended.details["ok"], ended.details["state"], ended.details["code"]) == (0, "NODE_FAIL", 143)
    (done,) = SlurmStates(job=job()).take_job(job("COMPLETED"), T0)
    assert done.details["ok"] == 1


def test_a_node_that_slurm_sets_down_is_an_incident_until_it_is_back():
    watch, items = SlurmStates(), []
    for at, state in enumerate(["ALLOCATED", "DOWN*", "DOWN*", "IDLE"]):
        items += watch.take_nodes(
            [node("n3", state, "Not responding"), node("n4", "ALLOCATED")], T0 + 10 * at
        )
    story = [(c.step.value, c.incident.code, str(c.incident.subject)) for c in changes(items, until_s=200)]
    assert story[0] == ("opened", "NODE_DOWN", "node:n3")
    assert ("recovered", "NODE_DOWN", "node:n3") in story
    assert {subject for _, _, subject in story} == {"node:n3"}


def test_a_drained_node_is_told_with_the_reason_and_is_no_downtime():
    watch = SlurmStates()
    items = list(watch.take_nodes([node("n3", "MIXED+DRAIN", "bad cable")], T0))
    (opened, *_) = changes(items, until_s=5)
    assert (opened.incident.code, opened.incident.severity.value) == ("NODE_DRAINED", "low")
    assert dict(opened.incident.lead.because.values)["reason"] == "bad cable"
    items += watch.take_nodes([node("n3", "IDLE")], T0 + 10)
    assert [c.step.value for c in changes(items, until_s=200)][-1] == "recovered"


def test_exporter_and_scheduler_must_both_call_a_node_up():
    from items import samples

    down = [event("node_down", 0, "node:n3"), samples("node_up", 1, **{"node:n3": 1.0}), event("tick", 300)]
    assert [c.step.value for c in changes(down)] == ["opened"]


LOG = {
    "error: Nodes n[3-4] not responding, setting DOWN": [("node_down", "node:n3"), ("node_down", "node:n4")],
    "Killing JobId=48 on failed node n3": [("node_down", "node:n3")],
    "srun: error: Node failure on n3": [("node_down", "node:n3")],
    "Node n3 now responding": [("node_back", "node:n3")],
    "update_node: node n3 state set to DRAINED": [("node_drained", "node:n3")],
    "requeue JobId=48 due to failure of node n3": [("job_requeued", "cluster")],
    "slurmstepd: error: *** JOB 48 ON n3 CANCELLED AT 2024-05-01T10:06:51 DUE TO JOB REQUEUE ***": [
        ("job_requeued", "cluster")
    ],
    "the state of a node is of no interest here": [],
}


@pytest.mark.parametrize("line", LOG)
def test_lines_of_slurmctld(line):
    text = f"[2024-05-01T10:06:51.123] {line}"
    found = LogReader().read(text, file="slurmctld.log", number=7, now_s=T0)
    assert [(e.kind, str(e.subject)) for e in found] == LOG[line]


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`scontrol` and `sacct` that print what a test writes into files."""
    for name, script in {
        "scontrol": 'cat "$SAYS/$2" || exit 1; [ ! -e "$SAYS/$2.fails" ]',
        "sacct": 'cat "$SAYS/books"',
    }.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SAYS", str(tmp_path))
    return tmp_path


def test_a_job_is_followed_through_the_programs_and_a_silent_slurm_is_an_event(slurm):
    (slurm / "job").write_text(JOB.format(state="RUNNING", reason="None", restarts=0, code="0:0", nodes="n3"))
    (slurm / "node").write_text(NODE.format(name="n3", state="ALLOCATED", reason=""))
    source, got = SlurmSource("48", every_s=0.05), []

    def heard(kind: str):
        got.extend(source.poll(0))
        return next((e for e in got if e.kind == kind), None)

    try:
        until(lambda: heard("job_started"))
        (slurm / "job").write_text(
            JOB.format(state="PENDING", reason="BeginTime", restarts=1, code="0:0", nodes="(null)")
        )
        until(lambda: heard("job_requeued"))
        (slurm / "node").write_text(NODE.format(name="n3", state="DOWN*", reason=" Reason=Not responding"))
        assert until(lambda: heard("node_down")).text == "Not responding"
        got.clear()
        (slurm / "job").write_text(
            JOB.format(state="RUNNING", reason="None", restarts=1, code="0:0", nodes="n[3-4]")
        )
        until(lambda: heard("job_started"))
        (slurm / "job").rename(slurm / "away")
        assert "scontrol" in until(lambda: heard("source_failed")).text
        (slurm / "away").rename(slurm / "job")
        until(lambda: heard("source_back"))
        # Some minutes after its end scontrol has forgotten the job, and sacct tells how it went.
        (slurm / "books").write_text(SACCT.splitlines()[0] + "\n48|NODE_FAIL|1:0|0|n3\n")
        (slurm / "job.fails").touch()
        (slurm / "job").write_text("slurm_load_jobs error: Invalid job id specified\n")
        assert until(lambda: heard("job_ended")).details["state"] == "NODE_FAIL"
    finally:
        source.close()


def test_a_program_that_is_not_there_says_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EnvironmentLackError, match="cannot ask Slurm") as raised:
        ask_slurm(("scontrol", "show", "job"))
    assert "scontrol ping" in str(raised.value)
