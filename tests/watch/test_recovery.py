"""Restarting a job without the node that failed: in the right order, within the limits, and for real."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import threading

import pytest
from items import T0, changes, event
from servers import until

from assay.api.recovering import supervise
from assay.codec.watching import RecoveryPlan, load_recovery
from assay.domain.incident import Change
from assay.errors import InputError
from assay.store.ledger import read_ledger
from assay.watch.recovery import Do, Phase, Recoverer

PLAN = RecoveryPlan(
    name="j", nodes=("n1", "n2", "n3"), command=("x",), logs=("y",), ask=("save",), ask_s=30.0
)


def incident(kind: str, subject: str, **details) -> Change:
    return changes([event(kind, 1, subject, **details)])[0]


def test_a_job_that_still_runs_is_asked_to_save_first():
    job = Recoverer(plan=PLAN)
    job.hear([event("step", 0, step=41)])
    assert job.change(incident("xid", "gpu:n2/0", xid=48), T0 + 2) is Do.ASK
    assert job.look(T0 + 5, running=3) is Do.NOTHING
    job.hear([event("checkpoint_saved", 6, step=42)])
    assert job.look(T0 + 7, running=3) is Do.STOP
    assert job.look(T0 + 9, running=0) is Do.START
    assert (job.nodes, job.excluded) == (("n1", "n3"), ("n2",))
    job.hear([event("step", 15, step=42)])
    (done,) = job.done
    assert done.phases == pytest.approx({"notice": 1, "save": 5, "stop": 2, "start": 6})
    assert (done.cause, done.from_step, done.to_step) == ("GPU_ECC_UNCORRECTABLE", 41, 42)
    assert job.phase is Phase.RUNNING


def test_a_job_that_cannot_save_is_stopped_at_once_and_killed_if_it_must():
    job = Recoverer(plan=PLAN)
    assert job.change(incident("rank_exited", "node:n1", code=-9), T0 + 2) is Do.STOP
    assert job.look(T0 + 5, running=2) is Do.NOTHING
    assert job.look(T0 + 13, running=2) is Do.KILL
    assert job.look(T0 + 14, running=2) is Do.NOTHING
    assert job.look(T0 + 14, running=0) is Do.START
    assert job.nodes == ("n2", "n3")


def test_what_does_not_call_for_it_changes_nothing():
    job = Recoverer(plan=PLAN)
    assert job.change(incident("xid", "gpu:n2/0", xid=31), T0 + 2) is Do.NOTHING
    assert job.change(incident("source_failed", "node:n2"), T0 + 2) is Do.NOTHING
    named = Recoverer(plan=RecoveryPlan(**{f: getattr(PLAN, f) for f in PLAN.__slots__} | {"codes": ("X",)}))
    assert named.change(incident("rank_exited", "node:n1", code=-9), T0 + 2) is Do.NOTHING


def test_it_gives_up_below_the_least_nodes_and_after_the_most_restarts():
    few = Recoverer(plan=PLAN, nodes=("n1",))
    assert few.change(incident("rank_exited", "node:n1", code=-9), T0 + 2) is Do.GIVE_UP
    tired = Recoverer(plan=PLAN, restarts=10)
    assert tired.change(incident("rank_exited", "node:n1", code=-9), T0 + 2) is Do.GIVE_UP


JOB = """
import os, sys, time, pathlib
node, nnodes, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
kept = folder / "checkpoint"
first = int(kept.read_text()) if kept.exists() else 0
(folder / f"pid-{node}").write_text(str(os.getpid()))
for step in range(first, 60 if nnodes == 2 else 10**9):
    time.sleep(0.02)
    if node == "n3":
        with (folder / "train.log").open("a") as log:
            log.write(f"step {step} loss 2.0 step_time 0.02 s\\n")
        kept.with_suffix(".new").write_text(str(step + 1))
        kept.with_suffix(".new").replace(kept)
"""


def test_a_killed_node_is_left_out_and_the_job_goes_on_to_its_end(tmp_path):
    """Three real processes stand for nodes; one is killed, the other two go on from the checkpoint."""
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    plan = load_recovery(
        f"""\
schema: 1
nodes: [n1, n2, n3]
command: ["{sys.executable}", "{tmp_path}/job.py", "{{node}}", "{{nnodes}}", "{tmp_path}"]
logs: ["{tmp_path}/train.log"]
ledger: {tmp_path}/ledger.jsonl
grace: 2 s
""",
        "r.yaml",
    )
    told, said, ended = list[Change](), list[str](), list[bool]()
    runner = threading.Thread(
        target=lambda: ended.append(supervise(plan, told.append, said.append, for_s=60))
    )
    runner.start()
    log = tmp_path / "train.log"
    until(lambda: log.exists() and "step 8 " in log.read_text())
    os.kill(int((tmp_path / "pid-n1").read_text()), signal.SIGKILL)
    runner.join(timeout=90)
    assert ended == [True], said
    assert (told[0].incident.code, str(told[0].incident.subject)) == ("RANK_LOST", "node:n1")
    (recovery,) = [e for e in read_ledger(tmp_path / "ledger.jsonl") if type(e).__name__ == "Recovery"]
    assert recovery.excluded == ("n1",)
    assert set(recovery.phases) == {"notice", "stop", "start"}
    assert recovery.to_step <= recovery.from_step + 1
    assert "without n1" in said[-1]


def test_a_bad_file_is_refused_with_its_line():
    with pytest.raises(InputError, match=r"unknown key 'node'") as caught:
        load_recovery("schema: 1\nnode: [a]\ncommand: [x]\nlogs: [y]\n", "r.yaml")
    assert caught.value.where == "r.yaml:2"
