"""What to do on an incident: decided here as values, done in `api`. Nothing is done unless a plan says so."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from assay.codec.watching import ActionPlan
from assay.domain.finding import Severity
from assay.domain.incident import Change, Incident, Step
from assay.errors import InputError, did_you_mean
from assay.units import show

KINDS = ("webhook", "alertmanager", "command", "drain", "cordon")
#: These take nodes out of use, and are limited to a share of them.
_REMOVING = ("drain", "cordon")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One thing to do: a request to send (`url`, `body`), or words to run. `refusal` says why not."""

    kind: str
    incident: str
    target: str
    live: bool
    url: str = ""
    body: str = ""
    words: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def text(self) -> str:
        """What it is, in one line."""
        return self.refusal or (f"POST {self.url}" if self.url else " ".join(self.words))


@dataclass(slots=True)
class Decider:
    """Decides on changes in order of time. `nodes` is how many there are, for the limit."""

    plans: Sequence[ActionPlan]
    nodes: int
    say: Callable[[Incident], str]
    _taken: dict[int, deque[tuple[float, str]]] = field(default_factory=dict)
    _told: set[tuple[int, str, Step, Severity]] = field(default_factory=set)

    def __post_init__(self) -> None:
        for plan in self.plans:
            if plan.kind not in KINDS:
                raise InputError(f"unknown action {plan.kind!r}", fix=did_you_mean(plan.kind, KINDS))
            Severity(plan.severity)
            if plan.kind not in _REMOVING and not plan.target:
                raise InputError(f"the action {plan.kind} needs a target")

    def decide(self, change: Change) -> Iterator[Order]:
        """The orders that follow from one change."""
        for at, plan in enumerate(self.plans):
            if self._applies(plan, change):
                if plan.kind in _REMOVING:
                    yield from self._remove(at, plan, change)
                else:
                    yield from self._call(at, plan, change)

    def _applies(self, plan: ActionPlan, change: Change) -> bool:
        incident = change.incident
        if plan.kind == "alertmanager":
            steps: tuple[Step, ...] = (Step.OPENED, Step.ESCALATED, Step.RELAPSED, Step.RECOVERED)
        else:
            steps = (Step.OPENED, Step.ESCALATED)
        severe = incident.severity.rank <= Severity(plan.severity).rank
        return change.step in steps and severe and (not plan.codes or incident.code in plan.codes)

    def _call(self, at: int, plan: ActionPlan, change: Change) -> Iterator[Order]:
        """Tell of a change once, unless too much was told within `per_s`."""
        key = at, change.incident.id, change.step, change.incident.severity
        if key in self._told and plan.kind != "alertmanager":
            return  # Alertmanager is told as often as it changes: it knows an alert by its labels
        recent, order = self._recent(at, plan, change.time_s), self._tell(plan, change)
        if len(recent) >= plan.calls and plan.kind != "alertmanager":
            yield replace(
                order, refusal=f"{len(recent)} were sent within {show(plan.per_s, 's')}: {order.text}"
            )
            return
        self._told.add(key)
        recent.append((change.time_s, change.incident.id))
        yield order

    def _recent(self, at: int, plan: ActionPlan, now_s: float) -> deque[tuple[float, str]]:
        """What this action did within its `per_s`."""
        taken = self._taken.setdefault(at, deque())
        while taken and taken[0][0] <= now_s - plan.per_s:
            taken.popleft()
        return taken

    def _tell(self, plan: ActionPlan, change: Change) -> Order:
        incident = change.incident
        facts = {
            "id": incident.id,
            "step": change.step.value,
            "code": incident.code,
            "severity": incident.severity.value,
            "subject": str(incident.subject),
            "nodes": list(incident.nodes),
            "text": self.say(incident),
            "time_s": change.time_s,
        }
        if plan.kind == "command":
            words = tuple(word.format_map(_Words(facts)) for word in plan.target.split())
            return Order(kind=plan.kind, incident=incident.id, target=words[0], live=plan.live, words=words)
        if plan.kind == "webhook":
            url, body = plan.target, json.dumps(facts)
        else:
            url = plan.target.rstrip("/") + "/api/v2/alerts"
            body = json.dumps([_alert(incident, str(facts["text"]))])
        return Order(
            kind=plan.kind, incident=incident.id, target=plan.target, live=plan.live, url=url, body=body
        )

    def _remove(self, at: int, plan: ActionPlan, change: Change) -> Iterator[Order]:
        taken = self._recent(at, plan, change.time_s)
        most = int(plan.most_frac * self.nodes)
        for node in change.incident.nodes:
            if any(name == node for _, name in taken):
                continue
            refusal = ""
            if len(taken) >= most:
                refusal = (
                    f"{len(taken)} nodes were taken out within {show(plan.per_s, 's')}, at most "
                    f"{most} of {self.nodes} may be"
                )
            else:
                taken.append((change.time_s, node))
            yield Order(
                kind=plan.kind,
                incident=change.incident.id,
                target=node,
                live=plan.live,
                words=_removal(plan.kind, node, f"assay: {change.incident.code} {change.incident.id}"),
                refusal=refusal,
            )


def _removal(kind: str, node: str, reason: str) -> tuple[str, ...]:
    if kind == "drain":
        return ("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")
    return ("kubectl", "cordon", node)


def _alert(incident: Incident, text: str) -> dict[str, object]:
    """One alert of Alertmanager's API, version 2; it ends when the incident has recovered."""
    alert: dict[str, object] = {
        "labels": {
            "alertname": incident.code,
            "severity": incident.severity.value,
            "subject": str(incident.subject),
            "incident": incident.id,
        },
        "annotations": {"summary": text},
        "startsAt": _iso(incident.opened_s),
    }
    return alert if incident.recovered_s is None else alert | {"endsAt": _iso(incident.recovered_s)}


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat()


class _Words(dict[str, object]):
    """Names in braces of a command; an unknown one stays as it is."""

    def __missing__(self, key: str) -> str:
        return "{" + key + "}"
