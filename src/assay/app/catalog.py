"""`assay catalog`: what Assay knows, each number with its source and date."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from assay import __version__
from assay.app.options import json_option

if TYPE_CHECKING:
    from assay.domain.criterion import Criterion
    from assay.domain.device import Device

lang_option = click.option("--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True)


@click.group()
def catalog() -> None:
    """Devices, profiles, quantities, findings and benchmarks, each with its source."""


@catalog.command()
@click.argument("name", required=False)
@json_option
def devices(name: str | None, as_json: bool) -> int:
    """List the hardware, or show every number of one device with its source."""
    from assay.catalog import devices as known

    if name is None:
        every = known.devices()
        rows = [(d.id, type(d).__name__, d.name, ", ".join(d.aliases)) for d in every]
        return _table(("id", "kind", "name", "also called"), rows, as_json, "catalog devices")
    device = known.device(name)
    numbers = [_number(device, path) for path in _paths(device)]
    if as_json:
        rows = [dataclasses.astuple(number) for number in numbers]
        return _table(
            ("field", "value", "source", "date", "url"), rows, as_json, f"catalog devices {device.id}"
        )
    documents = list(dict.fromkeys((n.source, n.date, n.url) for n in numbers if n.date))
    references = [
        f"[{documents.index((n.source, n.date, n.url)) + 1}]" if n.date else n.source for n in numbers
    ]
    click.echo(f"{device.id}: {device.name}\n")
    shown = [(n.field, n.value, reference) for n, reference in zip(numbers, references, strict=True)]
    _table(("field", "value", "source"), shown, as_json, "")
    for at, (title, date, url) in enumerate(documents, start=1):
        click.echo(_wrapped(f"[{at}] {title}, {date}") + f"\n    {url}")
    return 0


@catalog.command()
@click.argument("name", required=False)
@lang_option
@json_option
def profiles(name: str | None, lang: str, as_json: bool) -> int:
    """List the shipped profiles, or show one with its bounds, sources and what its lint says."""
    from assay.catalog.messages import Texts
    from assay.catalog.profiles import find_profile
    from assay.catalog.profiles import profiles as known

    if name is None:
        listed = [(p.name, p.title, str(len(p.criteria)), ", ".join(p.applies_to)) for p in known().values()]
        return _table(("profile", "title", "criteria", "for"), listed, as_json, "catalog profiles")
    from assay.catalog.devices import gpu
    from assay.catalog.quantities import quantity
    from assay.judge.lint import lint_profile

    profile = find_profile(name)
    texts = Texts(lang)
    complaints = lint_profile(profile, quantity, [gpu(device) for device in profile.applies_to])
    if as_json:
        rows = [
            (
                c.id,
                c.quantity,
                _bound(c),
                str(c.recipe),
                "yes" if c.required else "no",
                c.clause,
                c.source,
                c.note,
            )
            for c in profile.criteria
        ]
        head = ("criterion", "quantity", "bound", "recipe", "required", "clause", "source", "note")
        return _table(head, rows, as_json, f"catalog profiles {name}")
    click.echo(_wrapped(f"{profile.name}: {profile.title}") + "\n\n" + _wrapped(profile.description) + "\n")
    for c in profile.criteria:
        optional = "" if c.required else " (not required)"
        click.echo(_wrapped(f"{c.id}{optional}: {texts.quantity(c.quantity)}, {_bound(c)}"))
        for line in (c.clause, f"recipe: {c.recipe}", f"source: {c.source}", c.note):
            if line:
                click.echo(_wrapped(line, indent="    "))
    for complaint in complaints:
        if complaint.message.code != "lint.recipe_unstated":
            click.echo("\n" + _wrapped(f"lint: {texts.say(complaint.message)}"))
    return 0


@catalog.command()
@json_option
def quantities(as_json: bool) -> int:
    """List every quantity with its unit, scope and the recipe that it needs."""
    from assay.catalog.quantities import quantities as known

    rows = [(q.id, q.unit, q.better.value, q.scope.value, ", ".join(q.defining), q.summary) for q in known()]
    return _table(
        ("quantity", "unit", "better", "about", "recipe", "meaning"), rows, as_json, "catalog quantities"
    )


@catalog.command()
@click.argument("code", required=False)
@lang_option
@json_option
def findings(code: str | None, lang: str, as_json: bool) -> int:
    """List the finding codes, or explain one: what it means and what to do."""
    from assay.catalog.findings import finding
    from assay.catalog.findings import findings as known
    from assay.catalog.messages import Texts

    texts = Texts(lang)
    if code is None:
        rows = [(c, kind.severity.value, texts.finding(c).title) for c, kind in known().items()]
        return _table(("code", "severity", "title"), rows, as_json, "catalog findings")
    kind, text = finding(code.upper()), texts.finding(code.upper())
    if as_json:
        explained = (kind.code, kind.severity.value, text.title, text.why, "\n".join(text.fixes), kind.source)
        head = ("code", "severity", "title", "why", "fix", "evidence")
        return _table(head, [explained], as_json, f"catalog findings {kind.code}")
    click.echo(
        _wrapped(f"{kind.code} ({kind.severity.value}): {text.title}") + "\n\n" + _wrapped(text.why) + "\n"
    )
    for fix in text.fixes:
        click.echo(_wrapped(f"- {fix}"))
    click.echo("\n" + _wrapped(f"evidence: {kind.source}"))
    return 0


@catalog.command()
@json_option
def benchmarks(as_json: bool) -> int:
    """List the benchmarks and the quantities that each yields."""
    from assay.measure.registry import benchmarks as known

    rows = [(b.name, b.summary, ", ".join(b.yields), ", ".join(b.needs)) for b in known().values()]
    return _table(("benchmark", "measures", "yields", "needs"), rows, as_json, "catalog benchmarks")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], as_json: bool, command: str) -> int:
    """Print rows as a table, or as one JSON object with a list of records."""
    if as_json:
        records = [dict(zip(head, row, strict=True)) for row in rows]
        answer: dict[str, Any] = {"schema_version": 1, "command": command, "assay_version": __version__}
        click.echo(json.dumps(answer | {"rows": records}, indent=1, ensure_ascii=False))
        return 0
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in head:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)
    return 0


def _wrapped(text: str, *, indent: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        79,
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_on_hyphens=False,
    )


def _paths(device: Device) -> list[str]:
    """The fields of a device that carry numbers, with each peak on its own."""
    skip = {"id", "name", "vendor", "source", "sources", "missing", "aliases"}
    paths: list[str] = []
    for field in dataclasses.fields(device):
        value = getattr(device, field.name)
        if isinstance(value, Mapping) and field.name not in skip:
            paths += [f"{field.name}.{key}" for key in value]
        elif field.name not in skip:
            paths.append(field.name)
    return paths


@dataclasses.dataclass(frozen=True)
class _Number:
    """One field of a device as text, with the document it comes from, or the reason why it has no value."""

    field: str
    value: str
    source: str
    date: str = ""
    url: str = ""


def _number(device: Device, path: str) -> _Number:
    from assay.catalog.devices import source_of

    value = device.value(path)
    if value is None:
        reason = device.missing.get(path) or device.missing.get(path.partition(".")[0], "")
        return _Number(path, "–", reason)
    source = source_of(device, path)
    title = source.title if source.verified else f"{source.title} (unverified)"
    return _Number(path, _shown(path, value), title, source.date, source.url)


def _shown(path: str, value: object) -> str:
    from assay.units import show, unit_of_name

    unit = unit_of_name(path.partition(".")[0])
    if isinstance(value, int | float) and unit:
        return show(value, unit)
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _bound(criterion: Criterion) -> str:
    from assay.units import show

    if criterion.bound is None:
        return criterion.op.value.replace("_", " ")
    bound = show(criterion.bound, criterion.unit)
    high = f" … {show(criterion.high, criterion.unit)}" if criterion.high is not None else ""
    of = f" of {criterion.of.value}" if criterion.of else ""
    return f"{criterion.op.value.replace('_', ' ')} {bound}{high}{of}"
