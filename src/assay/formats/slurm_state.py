"""What Slurm says of a job and its nodes: `scontrol show job|node -o`, `sacct -P`, lines of its logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from assay.errors import InputError
from assay.formats.sentences import Sentence
from assay.formats.slurm_topology import expanded

#: slurmctld and slurmstepd; nodes are host lists as `n[3-4]`.
SENTENCES = (
    Sentence("slurm.node_failure", "failure", r"Node failure on (?P<host>[\w.-]+)"),
    Sentence(
        "slurm.node_failure", "responding", r"Nodes? (?P<host>[\w.,\[\]-]+) not responding, setting DOWN"
    ),
    Sentence("slurm.node_failure", "failed", r"Killing (?:job )?\S+ on failed node (?P<host>[\w.-]+)"),
    Sentence("slurm.node_failure", "state", r"update_node: node (?P<host>\S+) state set to DOWN"),
    Sentence(
        "slurm.node_failure", "NodeNotReady", r"NodeNotReady .*[Nn]ode (?:(?P<host>[\w.-]+) )?is not ready"
    ),
    Sentence(
        "slurm.ended",
        "CANCELLED",
        r"(?:JOB|STEP) (?P<job>\S+) ON (?P<host>\S+) CANCELLED AT \S+"
        r"(?: DUE TO (?P<reason>TIME LIMIT|PREEMPTION))? \*",
    ),
    Sentence("slurm.node_failure", "FAILURE", r"CANCELLED AT \S+ DUE TO NODE FAILURE"),
    Sentence("slurm.node_failure", "State", r"^\s*State=(?:DOWN|FAIL)"),
    *(
        # A row of `sinfo -R`.
        Sentence(
            "slurm.node_failure",
            word,
            r"^(?P<reason>(?i:.*(?:respond|fallen|reboot|fail|error|xid|ecc|down)).*?)\s+\w+\s+\d{4}-\d\d-\d\dT[\d:]+\s+(?P<host>\S+)$",
        )
        for word in ("slurm", "root")
    ),
    Sentence("slurm.node_drained", "state", r"update_node: node (?P<host>\S+) state set to DRAIN"),
    Sentence("slurm.node_back", "responding", r"Node (?P<host>[\w.-]+) now responding"),
    Sentence("slurm.node_back", "state", r"update_node: node (?P<host>\S+) state set to (?:IDLE|RESUME)"),
    Sentence("slurm.node_back", "returned", r"[Nn]ode (?P<host>[\w.-]+) returned to service"),
    Sentence(
        "slurm.requeued", "requeue", r"requeue (?:job )?(?:JobId=)?(?P<job>\d+)\S* due to failure of node"
    ),
    Sentence("slurm.requeued", "REQUEUE", r"JOB (?P<job>\d+) ON \S+ CANCELLED AT \S+ DUE TO JOB REQUEUE"),
)
#: States of a job that runs, or will go on: `squeue(1)`, JOB STATE CODES.
RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
_FIELD = re.compile(r"(?:^|\s)([A-Z][\w:/]*)=")
#: Who set a reason and when: `Not responding [slurm@2024-05-01T10:00:00]`.
_SETTER = re.compile(r"\s*\[[^\]]*\]$")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job: its state in Slurm's words, how often it was requeued, its exit code, and its nodes."""

    job: str
    state: str
    restarts: int = 0
    exit_code: int | None = None
    nodes: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Whether its processes are there."""
        return self.state in RUNNING

    @property
    def is_over(self) -> bool:
        """Whether it will not run again by itself."""
        return self.state not in RUNNING and self.state not in WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node: its states without marks, whether it answers, and the reason that somebody gave."""

    node: str
    states: frozenset[str]
    responds: bool
    reason: str = ""

    @property
    def is_down(self) -> bool:
        """Out of service by failure; a node that was only drained still runs its jobs."""
        return bool(self.states & {"DOWN", "FAIL"}) or not self.responds

    @property
    def is_drained(self) -> bool:
        """Kept from new jobs."""
        return bool(self.states & {"DRAIN", "DRAINED", "DRAINING"})


def read_jobs(lines: Iterable[str], where: str = "scontrol show job -o") -> Iterator[JobState]:
    """Jobs of `scontrol show job -o`, a line each. Raises `InputError` for a line that is none."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            said = _fields(line)
            if "JobId" not in said or "JobState" not in said:
                raise InputError(f"no job is in {line.strip()[:80]!r}", where=f"{where}:{number}")
            restarts = said.get("Restarts", "0")
            yield JobState(
                job=said["JobId"],
                state=said["JobState"],
                restarts=int(restarts) if restarts.isdigit() else 0,
                exit_code=_exit_code(said.get("ExitCode", "")),
                nodes=hosts(said.get("NodeList", ""), f"{where}:{number}"),
            )


def read_sacct(lines: Iterable[str], where: str = "sacct -P") -> Iterator[JobState]:
    """Jobs of `sacct -P -o JobID,State,ExitCode,NodeList,…`, in any order of columns, without steps."""
    rows = (line.rstrip("\n").split("|") for line in lines if line.strip())
    head = next(rows, [])
    if not {"JobID", "State"} <= set(head):
        raise InputError(f"no heading JobID|State is in {'|'.join(head)!r}", where=f"{where}:1")
    for number, row in enumerate(rows, start=2):
        said = dict(zip(head, row, strict=False))
        if "." not in said["JobID"] and len(row) == len(head):
            restarts = said.get("Restarts", "0")
            yield JobState(
                job=said["JobID"],
                state=said["State"].partition(" ")[0],  # CANCELLED by 1000
                restarts=int(restarts) if restarts.isdigit() else 0,
                exit_code=_exit_code(said.get("ExitCode", "")),
                nodes=hosts(said.get("NodeList", ""), f"{where}:{number}"),
            )


def read_nodes(lines: Iterable[str], where: str = "scontrol show node -o") -> Iterator[NodeState]:
    """Nodes of `scontrol show node -o`, a line each. Raises `InputError` for a line that is none."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            said = _fields(line)
            if "NodeName" not in said or "State" not in said:
                raise InputError(f"no node is in {line.strip()[:80]!r}", where=f"{where}:{number}")
            state = said["State"]
            yield NodeState(
                node=said["NodeName"],
                # A star says that it does not answer; other marks are of power saving and maintenance.
                states=frozenset(word.rstrip("*~#!%$@^-") for word in state.split("+")),
                responds="*" not in state and "NOT_RESPONDING" not in state,
                reason=_SETTER.sub("", said.get("Reason", "").strip()),
            )


def hosts(text: str, where: str) -> tuple[str, ...]:
    """The names of a host list; none for Slurm's words for nothing."""
    return () if text in ("", "(null)", "None assigned") else tuple(expanded(text, where))


def _fields(line: str) -> dict[str, str]:
    """`A=1 B=two words C=` → its fields; a value ends where the next name begins."""
    heads = list(_FIELD.finditer(line))
    ends = [head.start() for head in heads[1:]] + [len(line)]
    found: dict[str, str] = {}
    for head, end in zip(heads, ends, strict=False):
        found.setdefault(head[1], line[head.end() : end].strip())
    return found


def _exit_code(text: str) -> int | None:
    code, _, signal = text.partition(":")
    if not code.isdigit():
        return None
    return int(code) or (128 + int(signal) if signal.isdigit() and int(signal) else 0)
