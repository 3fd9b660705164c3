"""A Slurm job and its nodes: states → events when they change. Only `ask_slurm` runs a program."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from assay.domain.event import Event
from assay.domain.subject import CLUSTER, Subject
from assay.errors import EnvironmentLackError
from assay.formats.slurm_state import JobState, NodeState, read_jobs, read_nodes, read_sacct
from assay.watch.sources.asking import Asking

Run = Callable[[Sequence[str]], str]
_LONGEST_S = 20.0
#: scontrol forgets a job some minutes after its end; sacct keeps it.
_SACCT = ("sacct", "-P", "-X", "-o", "JobID,State,ExitCode,Restarts,NodeList", "-j")
_SOURCE = "slurm"


@dataclass(slots=True)
class SlurmStates:
    """Remembers the last states, and tells what has changed since. Events carry no name of a job: it is
    the one whose logs are read beside it.
    """

    job: JobState | None = None
    _down: set[str] = field(default_factory=set)
    _drained: set[str] = field(default_factory=set)

    def take_job(self, now: JobState, now_s: float) -> Iterator[Event]:
        """job_started, job_requeued, and job_ended with `ok`, `state` and `code`."""
        before, self.job = self.job, now
        ran = before is not None and before.runs
        again = before is not None and now.restarts > before.restarts
        if ran and (again or not now.runs):
            yield self._ended(now, now_s, requeued=again or not now.is_over)
        if again or (before is not None and not before.is_over and now.state.startswith("REQUEUE")):
            yield self._event("job_requeued", now_s, CLUSTER, f"{now.job} {now.state}", now.restarts)
        if now.runs and (again or not ran):
            yield self._event("job_started", now_s, CLUSTER, f"{now.job} on {len(now.nodes)} nodes")
        if not ran and before is None and now.is_over:
            yield self._ended(now, now_s, requeued=False)

    def take_nodes(self, nodes: Sequence[NodeState], now_s: float) -> Iterator[Event]:
        """node_down, node_drained, and node_back for either; a node that was never told of is healthy."""
        for node in nodes:
            subject, text = Subject("node", node.node), node.reason or "+".join(sorted(node.states))
            if node.is_down and node.node not in self._down:
                self._down.add(node.node)
                yield self._event("node_down", now_s, subject, text)
            elif not node.is_down and node.node in self._down:
                self._down.discard(node.node)
                yield self._event("node_back", now_s, subject, text)
            if node.is_drained and node.node not in self._drained:
                self._drained.add(node.node)
                yield self._event("node_drained", now_s, subject, text)
            elif not node.is_drained and node.node in self._drained:
                self._drained.discard(node.node)
                yield self._event("node_undrained", now_s, subject, text)

    def _ended(self, now: JobState, now_s: float, *, requeued: bool) -> Event:
        done = now.state == "COMPLETED" and not requeued
        details: dict[str, str | int | float | None] = {"ok": int(done), "state": now.state}
        if now.exit_code is not None:
            details["code"] = now.exit_code
        text = f"{now.job} {now.state}"
        return Event(
            kind="job_ended", time_s=now_s, subject=CLUSTER, text=text, source=_SOURCE, details=details
        )

    @staticmethod
    def _event(kind: str, now_s: float, subject: Subject, text: str, restarts: int | None = None) -> Event:
        details: dict[str, str | int | float | None] = {} if restarts is None else {"restarts": restarts}
        return Event(kind=kind, time_s=now_s, subject=subject, text=text, source=_SOURCE, details=details)


class SlurmSource(Asking):
    """One job and its nodes, asked for every `every_s`; Slurm that does not answer is an event."""

    def __init__(self, job: str, *, every_s: float = 5.0, run: Run | None = None) -> None:
        self._job, self._states, self._run_program = job, SlurmStates(), run or ask_slurm
        #: Those of its last run: a job that is requeued has none, and just then they matter.
        self._nodes: tuple[str, ...] = ()
        super().__init__(_SOURCE, self._ask, every_s=every_s)

    def _ask(self) -> Iterator[Event]:
        now = self._job_now()
        yield from self._states.take_job(now, time.time())
        self._nodes = now.nodes or self._nodes
        if self._nodes:
            text = self._run_program(("scontrol", "show", "node", "-o", ",".join(self._nodes)))
            yield from self._states.take_nodes(list(read_nodes(text.splitlines())), time.time())

    def _job_now(self) -> JobState:
        try:
            found = list(
                read_jobs(self._run_program(("scontrol", "show", "job", "-o", self._job)).splitlines())
            )
        except EnvironmentLackError as fault:
            if "Invalid job id" not in fault.what:
                raise
            found = list(read_sacct(self._run_program((*_SACCT, self._job)).splitlines()))
        if not found:
            raise EnvironmentLackError(f"Slurm knows no job {self._job}", fix="squeue --me lists yours")
        return found[-1]


def ask_slurm(words: Sequence[str]) -> str:
    """What a program of Slurm prints. Raises `EnvironmentLackError` with its words where it fails."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_LONGEST_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise EnvironmentLackError(
            f"cannot ask Slurm: {fault}", fix="is slurmctld up? scontrol ping"
        ) from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"ended with {done.returncode}")[:300]
        raise EnvironmentLackError(f"{words[0]}: {said}", fix="is slurmctld up? scontrol ping")
    return done.stdout
