"""When a job is to be restarted without a node, and what happens in which order: a machine of phases.

It is told of changes, events and processes, and says what to do next; it starts and stops nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from assay.codec.watching import RecoveryPlan
from assay.domain.event import Event
from assay.domain.finding import Severity
from assay.domain.incident import Change, Step
from assay.domain.ledger import Recovery
from assay.watch.detectors.pace import number

#: Findings after which a job cannot save any more, so that it is not asked to.
_TOO_LATE = frozenset({"NODE_DOWN", "RANK_LOST", "RANK_STOPPED", "JOB_HUNG", "GPU_LOST", "GPU_XID_79"})
#: Findings that call for a restart, unless the plan names others.
CALLING = (*sorted(_TOO_LATE), "GPU_ECC_UNCORRECTABLE", "GPU_ROW_REMAP_FAILURE", "GPU_GSP_TIMEOUT")


class Phase(str, Enum):
    """What a recovery is doing; the names of its times in the ledger."""

    RUNNING = "running"
    NOTICE = "notice"
    SAVE = "save"
    STOP = "stop"
    START = "start"
    DONE = "done"


class Do(str, Enum):
    """What is to be done now."""

    NOTHING = "nothing"
    ASK = "ask"
    STOP = "stop"
    KILL = "kill"
    START = "start"
    GIVE_UP = "give up"


@dataclass(slots=True)
class Recoverer:
    """Follows one job. `nodes` are those that it runs on now; `excluded` those that it was taken from."""

    plan: RecoveryPlan
    nodes: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    phase: Phase = Phase.RUNNING
    restarts: int = 0
    done: list[Recovery] = field(default_factory=list)
    _step: int | None = None
    _saved_s: float = 0.0
    _since_s: float = 0.0
    _begin_s: float = 0.0
    _cause: str = ""
    _from_step: int | None = None
    _out: tuple[str, ...] = ()
    _times: dict[str, float] = field(default_factory=dict)
    _killed: bool = False

    def __post_init__(self) -> None:
        self.nodes = self.nodes or self.plan.nodes

    def change(self, change: Change, now_s: float) -> Do:
        """An incident changed: does it call for a restart?"""
        incident = change.incident
        calling = self.plan.codes or CALLING
        called = [f for f in incident.findings if f.code in calling]
        severe = incident.severity.rank <= Severity.HIGH.rank
        steps = (Step.OPENED, Step.JOINED, Step.ESCALATED, Step.RELAPSED)
        if self.phase is not Phase.RUNNING or change.step not in steps or not called or not severe:
            return Do.NOTHING
        self._out = tuple(node for node in incident.nodes if node in self.nodes)
        self._begin_s, self._cause = incident.opened_s, called[0].code
        self._times, self._killed = {"notice": max(now_s - incident.opened_s, 0.0)}, False
        if (
            len(self.nodes) - len(self._out) < self.plan.least_nodes
            or self.restarts >= self.plan.most_restarts
        ):
            self.phase = Phase.DONE
            return Do.GIVE_UP
        if self.plan.ask and not any(f.code in _TOO_LATE for f in incident.findings):
            self._enter(Phase.SAVE, now_s)
            return Do.ASK
        self._enter(Phase.STOP, now_s)
        return Do.STOP

    def hear(self, events: Sequence[Event]) -> None:
        """Steps and checkpoints of the job, from its logs."""
        for event in events:
            if event.kind == "checkpoint_saved":
                self._saved_s = event.time_s
            elif event.kind == "step" and (step := number(event, "step")) is not None:
                self._step = int(step)
                if self.phase is Phase.START and event.time_s >= self._since_s:
                    self._finish(event.time_s, int(step))

    def look(self, now_s: float, *, running: int) -> Do:
        """Time has passed; `running` processes of the job are left."""
        waited_s = now_s - self._since_s
        if self.phase is Phase.SAVE and (self._saved_s > self._since_s or waited_s > self.plan.ask_s):
            self._times["save"] = waited_s
            self._enter(Phase.STOP, now_s)
            return Do.STOP
        if self.phase is Phase.STOP:
            if running == 0:
                self._times["stop"], self._from_step = waited_s, self._step
                self.nodes = tuple(node for node in self.nodes if node not in self._out)
                self.excluded = (*self.excluded, *self._out)
                self.restarts += 1
                self._enter(Phase.START, now_s)
                return Do.START
            if waited_s > self.plan.grace_s and not self._killed:
                self._killed = True
                return Do.KILL
        return Do.NOTHING

    def _enter(self, phase: Phase, now_s: float) -> None:
        self.phase, self._since_s = phase, now_s

    def _finish(self, now_s: float, step: int) -> None:
        self._times["start"] = now_s - self._since_s
        self.done.append(
            Recovery(
                job=self.plan.name,
                time_s=self._begin_s,
                cause=self._cause,
                excluded=self._out,
                phases=dict(self._times),
                from_step=self._from_step,
                to_step=step,
            )
        )
        self.phase = Phase.RUNNING
