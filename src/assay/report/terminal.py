"""The report on a terminal: verdict first, then why, the three values side by side, and where it all lies."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assay.domain.attestation import Standing
from assay.domain.finding import Finding, Severity
from assay.domain.message import Message
from assay.domain.verdict import Judgement, Verdict
from assay.report import view
from assay.report.data import ReportData
from assay.report.transport import by_benchmark
from assay.units import show

WIDTH = 80
#: More findings than this are counted here and listed in the report.
_FINDINGS_SHOWN = 6

#: Shape and colour of each verdict; the word stands beside it, so that neither is needed to read it.
_MARK = {
    Verdict.PASS: ("✓", "green"),
    Verdict.FAIL: ("✗", "red"),
    Verdict.UNDECIDED: ("◆", "yellow"),
    Verdict.NOT_MEASURED: ("○", "cyan"),
}
_STANDING_MARK = {
    Standing.ATTESTED: ("✓", "green"),
    Standing.WITHIN: ("✓", "green"),
    Standing.SOCKETS: ("✗", "red"),
    Standing.UNATTESTED: ("✗", "red"),
    Standing.TOO_LITTLE: ("○", "cyan"),
}
_SEVERITY_STYLE = {Severity.CRITICAL: "bold red", Severity.HIGH: "red", Severity.MEDIUM: "yellow"}
#: A criterion with more subjects than this shows its worst ones and a count of the others.
_FOLD_ABOVE, _WORST_SHOWN = 8, 5


def render(data: ReportData) -> RenderableType:
    """The whole report, to be printed by any rich console."""
    return Group(*_blocks(data))


def plain_text(data: ReportData, *, width: int = WIDTH) -> str:
    """The report as text without colour."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, highlight=False)
    console.print(render(data))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def print_report(data: ReportData, console: Console | None = None) -> None:
    """Print to stdout: in colour on a terminal, else plain and 80 columns wide."""
    console = console or Console(highlight=False)
    if console.is_terminal:
        console.print(render(data))
    else:
        console.file.write(plain_text(data))


def _blocks(data: ReportData) -> Iterator[RenderableType]:
    yield _verdict(data)
    yield from _why(data)
    yield from _findings(data)
    yield from _section(data, "report.criteria", _table(data))
    yield from _unmeasured(data)
    yield from _odd_ones(data)
    yield from _transport(data)
    if data.assessment.notes:
        notes = [Text(data.texts.say(note)) for note in data.assessment.notes]
        yield from _section(data, "report.notes", *notes)
    yield from _section(data, "report.provenance", _where(data))


def _section(data: ReportData, code: str, *body: RenderableType) -> Iterator[RenderableType]:
    yield Text()
    yield Text(data.texts.label(code).upper(), style="bold")
    for block in body:
        yield Padding(block, (0, 0, 0, 2))


def _verdict(data: ReportData) -> RenderableType:
    texts, info, verdict = data.texts, data.info, data.assessment.verdict
    mark, colour = _MARK[verdict]
    head = Text.assemble(
        (f" {mark} {texts.label(f'verdict.{verdict.value}').upper()} ", f"bold reverse {colour}"),
        "  ",
        (texts.label(f"verdict.{verdict.value}.headline"), "bold"),
    )
    # Other tools' results do not say on which machines they were made.
    counted = Message.of("report.ranks_on_hosts", ranks=info.ranks, hosts=len(info.hosts))
    size = texts.say(counted) if info.hosts else ""
    about = [f"{texts.label('report.profile')} {data.assessment.profile}", size, info.backend, info.run]
    lines = [head, Text(), Text(" · ".join(part for part in about if part), style="dim")]
    counts = view.count_verdicts(data.assessment.judgements)
    lines.append(Text(view.counts_text(counts, texts)))
    if data.assessment.missing_ranks:
        missing = ", ".join(map(str, data.assessment.missing_ranks))
        lines.append(Text(texts.say(Message.of("report.missing_ranks", ranks=missing)), style="red"))
    return Group(*lines)


def _why(data: ReportData) -> Iterator[RenderableType]:
    body: list[RenderableType] = []
    verdict = data.assessment.verdict
    for each in view.deciding(data):
        wanted = [j for j in each.judgements if j.verdict is verdict]
        for judgement in wanted[:3]:
            body.append(_subject_line(judgement, _named(data, each)))
            body.append(Padding(Text(data.texts.say(judgement.reason)), (0, 0, 0, 2)))
        if len(wanted) > 3:
            body.append(Padding(Text(_more(data, tuple(wanted[3:])), style="dim"), (0, 0, 0, 2)))
    if not body:
        body.append(Text(data.texts.label("report.nothing_decides")))
    yield from _section(data, "report.why", *body)


def _named(data: ReportData, each: view.CriterionView) -> str:
    name = view.title(each.criterion, data.texts)
    return f"{name} ({each.apart})" if each.apart else name


def _subject_line(judgement: Judgement, name: str) -> Text:
    mark, colour = _MARK[judgement.verdict]
    return Text.assemble(
        (f"{mark} ", colour),
        (name, "bold"),
        (f" · {judgement.subject}" if judgement.subject.kind != "cluster" else "", ""),
    )


def _findings(data: ReportData) -> Iterator[RenderableType]:
    found = view.findings(data)
    shown: list[RenderableType] = [_finding(data, finding) for finding in found[:_FINDINGS_SHOWN]]
    if len(found) > _FINDINGS_SHOWN:
        more = Message.of("report.more_findings", more=len(found) - _FINDINGS_SHOWN)
        shown.append(Text(data.texts.say(more), style="dim"))
    if shown:
        yield from _section(data, "report.findings", *shown)


def _finding(data: ReportData, finding: Finding) -> RenderableType:
    texts = data.texts
    words = texts.finding(finding.code)
    severity = texts.label(f"severity.{finding.severity.value}")
    head = Text.assemble(
        (f"▲ {severity}", _SEVERITY_STYLE.get(finding.severity, "dim")),
        "  ",
        (words.title, "bold"),
        f" · {finding.subject} ",
        (f"[{finding.code}]", "dim"),
    )
    body: list[RenderableType] = [Text(texts.say(finding.because))]
    body += [Text(f"→ {fix}", style="dim") for fix in words.fixes[:2]]
    return Group(head, Padding(Group(*body), (0, 0, 0, 2)))


def _table(data: ReportData) -> Table:
    label = data.texts.label
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, expand=False)
    table.add_column(label("report.criterion"), max_width=29, overflow="fold")
    table.add_column(label("report.bound"), justify="right", max_width=14)
    for name in ("claimed", "predicted"):
        table.add_column(label(f"report.{name}"), justify="right", max_width=12)
    table.add_column(label("report.measured"), justify="right", max_width=20)
    for each in view.criteria(data):
        _rows(data, table, each)
    return table


def _rows(data: ReportData, table: Table, each: view.CriterionView) -> None:
    """One criterion: a single row, or a head row and one per subject, folded where they are many."""
    name, judgements = _named(data, each), each.judgements
    if len(judgements) == 1:
        subject = judgements[0].subject
        # One subject needs no line of its own unless it is a particular one.
        suffix = "" if subject.kind == "cluster" else f"\n  {subject}"
        table.add_row(*_cells(data, judgements[0], name + suffix))
        return
    mark, colour = _MARK[each.verdict]
    head = Text.assemble((f"{mark} ", colour), name)
    table.add_row(head, "", "", "", "")
    fold = len(judgements) > _FOLD_ABOVE
    for judgement in judgements[: _WORST_SHOWN if fold else None]:
        table.add_row(*_cells(data, judgement, str(judgement.subject), indent="  "))
    if fold:
        table.add_row(Text(f"  {_more(data, judgements[_WORST_SHOWN:])}", style="dim"))


def _cells(data: ReportData, judgement: Judgement, name: str, *, indent: str = "") -> list[RenderableType]:
    mark, colour = _MARK[judgement.verdict]
    measured = Text(view.value_text(judgement.measured), style="bold" if judgement.measured else "dim")
    interval = view.interval_text(judgement.measured)
    if judgement.measured is None:
        measured = Text(data.texts.label("verdict.not_measured").lower(), style="dim")
    if interval:
        measured.append(f"\n{interval}", style="dim not bold")
    return [
        Text.assemble(indent, (f"{mark} ", colour), name),
        view.bound_text(judgement, data.texts),
        Text(view.value_text(judgement.claimed)),
        Text(view.value_text(judgement.predicted)),
        measured,
    ]


def _more(data: ReportData, rest: tuple[Judgement, ...]) -> str:
    counts = view.counts_text(view.count_verdicts(rest), data.texts)
    return data.texts.say(Message.of("report.more_subjects", more=len(rest), counts=counts))


def _unmeasured(data: ReportData) -> Iterator[RenderableType]:
    """Why there is no value: the table above has no room for it."""
    every = view.unmeasured(data)
    body: list[RenderableType] = []
    for each, judgement in every[:_FOLD_ABOVE]:
        body.append(_subject_line(judgement, _named(data, each)))
        body.append(Padding(Text(data.texts.say(judgement.reason)), (0, 0, 0, 2)))
    if len(every) > _FOLD_ABOVE:
        body.append(Text(_more(data, tuple(judgement for _, judgement in every[_FOLD_ABOVE:])), style="dim"))
    if body:
        yield from _section(data, "report.not_measured", *body)


def _odd_ones(data: ReportData) -> Iterator[RenderableType]:
    odd = view.odd_ones(data)
    if not odd:
        return
    label = data.texts.label
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(label("report.subject"), overflow="fold", min_width=24)
    table.add_column(label("report.quantity"), overflow="fold")
    for name in ("measured", "median", "deviation"):
        table.add_column(label(f"report.{name}"), justify="right")
    for one in odd[:_FOLD_ABOVE]:
        deviation = Text(view.signed(one.deviation_frac), style="red")
        name = data.texts.quantity(one.quantity)
        value, median = show(one.value, one.unit), show(one.median, one.unit)
        table.add_row(str(one.subject), name, value, median, deviation)
    yield from _section(data, "report.odd_ones", table)


def _transport(data: ReportData) -> Iterator[RenderableType]:
    """Benchmark by benchmark, what carried the bytes that left a node, and how many were counted."""
    body: list[RenderableType] = []
    for one in by_benchmark(data.attested.values(), data.texts):
        mark, colour = _STANDING_MARK[one.standing]
        body.append(Text.assemble((f"{mark} ", colour), (one.title, "bold"), f"  {one.word}"))
        lines = [_transport_line(data, label, value) for label, value, _ in one.known]
        for way in one.ways:
            values = {"over": way.over, "expected": way.expected, "counted": way.counted, "share": way.share}
            code = "transport.way_unknown" if way.reason else "transport.way"
            lines.append(data.texts.say(Message.of(code, place=way.place, reason=way.reason, **values)))
        for label, reason in one.unknown:
            why = data.texts.say(Message.of("transport.unknown", reason=reason))
            lines.append(_transport_line(data, label, why))
        body += [Padding(Text(line, style="dim"), (0, 0, 0, 2)) for line in lines]
    if body:
        yield from _section(data, "report.transport", *body)


def _transport_line(data: ReportData, name: str, text: str) -> str:
    return data.texts.say(Message.of("transport.line", name=name, text=text))


def _where(data: ReportData) -> RenderableType:
    label = data.texts.label
    rows = (
        ("report.report_file", data.report_path),
        ("report.run_folder", data.info.folder),
        ("report.hash", data.run_hash),
        ("report.repeat", data.repeat_command),
    )
    # The label stands above, so that a path or command is seldom broken and can be copied.
    return Text("\n").join(
        Text.assemble((label(code), "dim"), f"\n  {value}") for code, value in rows if value
    )
