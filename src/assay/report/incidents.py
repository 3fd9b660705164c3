"""Incidents and the books of a service for people and for programs."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assay.catalog.messages import Texts
from assay.codec.answer import finding_object, headed
from assay.domain.contract import Terms
from assay.domain.incident import Change, Incident
from assay.domain.ledger import SPENT, Spent
from assay.domain.message import Message
from assay.units import show
from assay.watch.interval import Habit, best_s, goodput_frac, young_s
from assay.watch.service import Service

WIDTH = 80
_EVIDENCE_SHOWN = 3


def when(time_s: float | None) -> str:
    """A time for people, in UTC."""
    return "–" if time_s is None else datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def incident_object(incident: Incident, texts: Texts) -> dict[str, object]:
    """One incident; `findings[0]` is the likeliest cause, the others follow from it."""

    def words(code: str) -> tuple[str, Sequence[str]]:
        found = texts.finding(code)
        return found.title, found.fixes

    return {
        "id": incident.id,
        "code": incident.code,
        "title": texts.finding(incident.code).title,
        "severity": incident.severity.value,
        "subject": str(incident.subject),
        "nodes": list(incident.nodes),
        "because": texts.say(incident.lead.because),
        "opened_s": incident.opened_s,
        "acknowledged_s": incident.acknowledged_s,
        "recovered_s": incident.recovered_s,
        "closed_s": incident.closed_s,
        "level": incident.level,
        "coincides": list(incident.coincides),
        "findings": [finding_object(f, texts.say, words) for f in incident.findings],
    }


def answer(command: str, *, assay_version: str, **rest: object) -> dict[str, object]:
    """The head of every JSON answer, with what the command adds."""
    return headed(command, assay_version=assay_version) | rest


def spent_object(spent: Spent) -> dict[str, object]:
    """Seconds of jobs by what they went into, and the productive share."""
    return {name: round(getattr(spent, name), 3) for name in SPENT} | {"goodput_frac": spent.goodput_frac}


def change_line(change: Change, texts: Texts) -> str:
    """One line for a running watch: when, what happened, to whom, why."""
    incident = change.incident
    clock = datetime.fromtimestamp(change.time_s, UTC).strftime("%H:%M:%S")
    step = texts.label(f"watch.step.{change.step.value}")
    return (
        f"{clock} {step} {incident.id[:6]} {incident.severity.value} {incident.code} {incident.subject}: "
        f"{texts.say(incident.lead.because)}"
    )


def plain_incidents(incidents: Sequence[Incident], texts: Texts, *, spent: Spent | None = None) -> str:
    """80 columns: what to do and to what first, then why, then the proof."""
    lines = list(incident_lines(incidents, texts))
    if spent is not None and spent.total_s > 0:
        lines += [(0, ""), *spent_lines(spent, texts)]
    return _printed(lines)


def incident_lines(incidents: Sequence[Incident], texts: Texts) -> Iterator[tuple[int, str]]:
    """Incidents with their causes and fixes: indent and line."""
    if not incidents:
        yield 0, texts.label("watch.no_incident")
    for number, incident in enumerate(incidents, 1):
        words = texts.finding(incident.code)
        if number > 1:
            yield 0, ""
        yield 0, f"{number}. {words.title} → {incident.subject} [{incident.severity.value}]"
        yield 3, _times(incident, texts)
        yield 3, texts.say(incident.lead.because)
        for proof in incident.lead.evidence[:_EVIDENCE_SHOWN]:
            at = f"{proof.file}:{proof.line}" if proof.line else proof.file
            yield 3, f"{at}: {proof.text[:120]}"
        for follow in incident.findings[1:]:
            yield 3, f"+ {follow.code} {follow.subject}: {texts.say(follow.because)}"
        if incident.coincides:
            yield (
                3,
                texts.say(Message.of("watch.coincides", ids=", ".join(i[:6] for i in incident.coincides))),
            )
        for fix in words.fixes:
            yield 3, f"• {fix}"


def _times(incident: Incident, texts: Texts) -> str:
    until = incident.recovered_s
    state = (
        texts.say(Message.of("watch.lasted", lasted_s=until - incident.opened_s))
        if until is not None
        else texts.label("watch.still_open")
    )
    taken = "" if incident.acknowledged_s is None else f", {texts.label('watch.step.acknowledged')}"
    return f"{incident.id[:6]}  {when(incident.opened_s)} UTC, {state}{taken}  ({incident.code})"


def service_object(service: Service, terms: Terms, texts: Texts, habit: Habit | None) -> dict[str, object]:
    """The books of a window; a share that nothing was watched for is null."""
    names = [
        n for n in service.__dataclass_fields__ if n not in ("incidents", "spent", "recoveries", "actions")
    ]
    return {name: getattr(service, name) for name in names} | {
        "terms": {
            "available_frac": terms.available_frac,
            "basis": terms.basis,
            "tiers": [{"below_frac": t.below_frac, "credit_frac": t.credit_frac} for t in terms.tiers],
            "fee": terms.fee,
            "currency": terms.currency,
        },
        "reason": None if service.watched_s else "nothing was watched in this window",
        "spent": spent_object(service.spent),
        "checkpoint": habit_object(habit),
        "incidents": [incident_object(i, texts) for i in service.incidents],
        "recoveries": [
            {
                "job": r.job,
                "time_s": r.time_s,
                "cause": r.cause,
                "excluded": list(r.excluded),
                "phases": dict(r.phases),
                "from_step": r.from_step,
                "to_step": r.to_step,
            }
            for r in service.recoveries
        ],
        "actions": [
            {
                "action": a.action,
                "incident": a.incident,
                "time_s": a.time_s,
                "target": a.target,
                "dry_run": a.dry_run,
                "done": a.done,
                "text": a.text,
            }
            for a in service.actions
        ],
    }


def habit_object(habit: Habit | None) -> dict[str, object] | None:
    """Measured times, and the intervals between checkpoints that follow; None where nothing is measured."""
    if habit is None:
        return None
    return {
        "mtbf_s": habit.mtbf_s,
        "save_s": habit.save_s,
        "restart_s": habit.restart_s,
        "best_interval_s": best_s(habit),
        "young_interval_s": young_s(habit),
        "goodput_frac": goodput_frac(habit, best_s(habit)),
    }


def habit_line(habit: Habit, texts: Texts) -> str:
    """How often to save, and the measured times that say so."""
    values = {"mtbf_s": habit.mtbf_s, "save_s": habit.save_s, "restart_s": habit.restart_s}
    return texts.say(Message.of("watch.interval", best_s=best_s(habit), **values))


def plain_service(service: Service, terms: Terms, texts: Texts, habit: Habit | None) -> str:
    """80 columns: was the promise kept, then how long what was down, then where the time went."""
    out = io.StringIO()
    console = _console(out)
    for line in verdict_lines(service, terms, texts):
        console.print(line)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for code, value in service_rows(service, terms):
        table.add_row(texts.label(f"watch.sla.{code}"), value)
    console.print(table)
    if service.spent.total_s > 0:
        console.print("")
        for indent, line in spent_lines(service.spent, texts):
            console.print(Padding(Text(line), (0, 0, 0, indent)))
    if habit is not None:
        console.print("")
        console.print(habit_line(habit, texts))
    if service.incidents:
        console.print("")
        for indent, line in incident_lines(service.incidents, texts):
            console.print(Padding(Text(line), (0, 0, 0, indent)))
    return _trimmed(out)


def verdict_lines(service: Service, terms: Terms, texts: Texts) -> Iterator[str]:
    """Whether the promise was kept."""
    counted = service.node_frac if terms.basis == "node" else service.job_frac
    if counted is None:
        yield texts.label("watch.sla.unwatched")
        return
    kept = counted >= terms.available_frac
    yield texts.say(
        Message.of(
            "watch.sla.kept" if kept else "watch.sla.missed",
            promised_frac=terms.available_frac,
            window_s=service.to_s - service.from_s,
            allowed_s=service.allowed_down_s,
        )
    )


def service_rows(service: Service, terms: Terms) -> Iterator[tuple[str, str]]:
    """Figures of the books: the code of a name, and the value."""

    def share(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.3f} %"

    yield "window", f"{when(service.from_s)} … {when(service.to_s)} UTC"
    yield "watched", f"{show(service.watched_s, 's')} × {service.nodes}"
    yield "node", share(service.node_frac)
    yield "job", share(service.job_frac)
    yield "expected", share(service.expected_job_frac)
    yield "down", show(service.down_s, "s")
    yield "by_session", f"{share(service.by_session_frac)} ({service.sessions})"
    yield "by_node", share(service.by_node_frac)
    yield "acknowledged", show(service.acknowledged_s, "s")
    yield "recovered", show(service.recovered_s, "s")
    credit = "" if service.credit is None else f" = {service.credit:,.2f} {terms.currency}".rstrip()
    yield "credit", share(service.credit_frac) + credit


def spent_lines(spent: Spent, texts: Texts) -> Iterator[tuple[int, str]]:
    """Where the time of a job went: indent and line."""
    yield 0, texts.say(Message.of("watch.goodput", goodput_frac=spent.goodput_frac, total_s=spent.total_s))
    for name in SPENT:
        value = getattr(spent, name)
        if value:
            label = texts.label(f"watch.spent.{name.removesuffix('_s')}")
            yield 3, f"{show(value / spent.total_s, '1'):>8}  {show(value, 's'):>9}  {label}"


def _printed(lines: Sequence[tuple[int, str]]) -> str:
    out = io.StringIO()
    console = _console(out)
    for indent, line in lines:
        console.print(Padding(Text(line), (0, 0, 0, indent)))
    return _trimmed(out)


def _console(out: io.StringIO) -> Console:
    return Console(file=out, width=WIDTH, color_system=None, force_terminal=False, highlight=False)


def _trimmed(out: io.StringIO) -> str:
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
