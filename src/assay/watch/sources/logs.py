"""Lines of training logs, launchers and kernel logs → events. Takes lines and times; reads nothing itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from assay.domain.event import Event
from assay.domain.subject import CLUSTER, Subject
from assay.errors import InputError
from assay.formats import kernel_log, slurm_state, torch_text, training_log
from assay.formats.sentences import Vocabulary
from assay.formats.time_stamp import stamp_s

_VOCABULARY = Vocabulary((*torch_text.SENTENCES, *kernel_log.SENTENCES, *slurm_state.SENTENCES))
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_RANK_IN_LINE = re.compile(r"^\[(?:rank ?|default)?(\d+)\]:? ?|^(\d+): ")
_RANK_IN_NAME = re.compile(r"rank[_-]?(\d+)|/(\d+)/std(?:out|err)\.log$", re.IGNORECASE)
#: Facts of a line that are events of the watch as they are.
_EVENTS = {
    "ckpt.saving": "checkpoint_started",
    "ckpt.saved": "checkpoint_saved",
    "gpu.off_bus": "gpu_off_bus",
    "nic.link_down": "link_down",
    "gpu.sxid": "nvswitch_error",
}
#: What Slurm says of nodes in its logs and in those of a job.
_NODES = {
    "slurm.node_failure": "node_down",
    "slurm.node_drained": "node_drained",
    "slurm.node_back": "node_back",
}
#: What the names of a user's own pattern may be.
PATTERN_NAMES = ("step", "step_s", "step_ms", "busy_s", "busy_ms", "loss", "tokens_per_s")


@dataclass(slots=True)
class LogReader:
    """Turns lines into events of one job. `hosts` gives the node of an address that a peer is named by.

    A line has the time that stands in it, when `stamped`, else the time that it is read at.
    """

    job: str = ""
    host: str = ""
    pattern: re.Pattern[str] | None = None
    stamped: bool = False
    hosts: Mapping[str, str] = field(default_factory=dict)
    unnumbered: dict[str, int] = field(default_factory=dict)
    last_s: float = 0.0

    def read(self, text: str, *, file: str, number: int, now_s: float) -> Iterator[Event]:
        """The events of one line."""
        text = _ANSI.sub("", text)
        rank = self._rank(text, file)
        time_s = (stamp_s(text) or self.last_s or now_s) if self.stamped else now_s
        self.last_s = max(self.last_s, time_s)
        source = f"{file}:{number}"
        step = self._step(text, file, number)
        if step:
            subject = CLUSTER if rank is None else Subject("rank", str(rank))
            yield self._event("step", time_s, subject, text, source, step)
            return
        for fact, fields in _VOCABULARY.find(text):
            yield from self._fact(fact, fields, rank, time_s, text, source)

    def _step(self, text: str, file: str, number: int) -> dict[str, float]:
        if self.pattern is not None:
            return _by_pattern(self.pattern, text)
        found = training_log.read_line(text, number, file)
        if found is None:
            loss = training_log.trainer_loss(text)
            if loss is None:
                return {}
            step = self.unnumbered[file] = self.unnumbered.get(file, 0) + 1
            return {"step": step, "loss": loss}
        told = {
            "step": found.step,
            "step_s": found.step_s,
            "busy_s": found.busy_s,
            "loss": found.loss,
            "tokens_per_s": found.tokens_per_s,
        }
        return {name: value for name, value in told.items() if value is not None}

    def _fact(
        self, fact: str, fields: Mapping[str, str], rank: int | None, time_s: float, text: str, source: str
    ) -> Iterator[Event]:
        speaker = CLUSTER if rank is None else Subject("rank", str(rank))
        if fact in _EVENTS:
            kernel = fact.startswith(("gpu.", "nic."))
            subject = self._device(fields) if kernel else CLUSTER
            yield self._event(_EVENTS[fact], time_s, subject, text, source, {})
        elif fact == "gpu.xid" and fields["xid"].isdigit():
            yield self._event("xid", time_s, self._device(fields), text, source, {"xid": int(fields["xid"])})
        elif fact == "gloo.closed":
            peer = self._peer(fields.get("peer", ""))
            yield self._event("peer_closed", time_s, speaker, text, source, {"peer": str(peer)})
        elif fact in _NODES:
            for name in _hosts(fields.get("host", "")):
                yield self._event(_NODES[fact], time_s, Subject("node", name), text, source, {})
        elif fact == "slurm.requeued":
            yield self._event("job_requeued", time_s, CLUSTER, text, source, {})
        elif fact == "elastic.failed":
            gone = Subject("rank", fields["rank"])
            yield self._event("rank_exited", time_s, gone, text, source, {"code": int(fields["code"])})

    def _peer(self, text: str) -> Subject:
        address = text.rpartition(":")[0].strip("[]") or text
        rank = self.hosts.get(address)
        return Subject("rank", rank) if rank is not None else Subject("node", address or "unknown")

    def _device(self, fields: Mapping[str, str]) -> Subject:
        host = self.host or "localhost"
        busid = fields.get("busid")
        return Subject("gpu", f"{host}/{busid.lower()}") if busid else Subject("node", host)

    @staticmethod
    def _rank(text: str, file: str) -> int | None:
        found = _RANK_IN_LINE.match(text) or _RANK_IN_NAME.search(file)
        return int(next(group for group in found.groups() if group)) if found else None

    def _event(
        self,
        kind: str,
        time_s: float,
        subject: Subject,
        text: str,
        source: str,
        details: Mapping[str, str | int | float],
    ) -> Event:
        own = {"job": self.job} if self.job else {}
        return Event(
            kind=kind,
            time_s=time_s,
            subject=subject,
            text=text[:400],
            source=source,
            details={**own, **details},
        )


def _hosts(text: str) -> tuple[str, ...]:
    """The nodes of a host list in a line; none where it is cut off."""
    try:
        return slurm_state.hosts(text, "a log")
    except InputError:
        return ()


def own_pattern(text: str, *, where: str | None = None) -> re.Pattern[str]:
    """A user's regular expression for steps; it must name `step` and one more of `PATTERN_NAMES`."""
    try:
        pattern = re.compile(text)
    except re.error as fault:
        raise InputError(f"the pattern {text!r} cannot be read: {fault}", where=where) from None
    names = set(pattern.groupindex)
    if "step" not in names or not names <= set(PATTERN_NAMES):
        raise InputError(
            f"the pattern names {', '.join(sorted(names)) or 'nothing'}",
            where=where,
            fix=f"name (?P<step>…) and what else there is of {', '.join(PATTERN_NAMES[1:])}",
        )
    return pattern


def _by_pattern(pattern: re.Pattern[str], text: str) -> dict[str, float]:
    found = pattern.search(text)
    if found is None:
        return {}
    told: dict[str, float] = {}
    for name, word in found.groupdict().items():
        try:
            value = float(word)
        except (TypeError, ValueError):
            continue
        told[name.removesuffix("_ms") + "_s" if name.endswith("_ms") else name] = (
            value / 1e3 if name.endswith("_ms") else value
        )
    return told if "step" in told else {}
