"""`assay catalog`: what Assay knows, each number with its source and date."""

from __future__ import annotations

import dataclasses
import io
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from assay.app.groups import Commands, LazyGroup
from assay.app.options import json_option, lang_option
from assay.app.say import say, say_json
from assay.report.plain import WIDTH

if TYPE_CHECKING:
    from assay.domain.criterion import Criterion
    from assay.domain.device import Device, Source

COMMANDS: Commands = {
    "devices": ("assay.app.catalog", "devices", "GPUs, NICs, switches and links; one with every number."),
    "clusters": ("assay.app.catalog", "clusters", "Systems that --cluster knows."),
    "models": ("assay.app.catalog", "models", "Language models that --workload knows."),
    "jobs": ("assay.app.catalog", "jobs", "Other jobs that --workload knows, with their parameters."),
    "offers": ("assay.app.catalog", "offers", "Prices, each with its source and date."),
    "profiles": ("assay.app.catalog", "profiles", "Profiles; one with its bounds, sources and its lint."),
    "quantities": ("assay.app.catalog", "quantities", "What can be known, in which unit, by which recipe."),
    "benchmarks": ("assay.app.catalog", "benchmarks", "What is measured, and what each benchmark yields."),
    "findings": ("assay.app.catalog", "findings", "Finding codes; one with what it means and the fix."),
}


@click.group(cls=LazyGroup, lazily=COMMANDS)
def catalog() -> None:
    """What Assay knows, each number with its source. A name after the list's shows one entry."""


@click.command()
@click.argument("name", required=False)
@json_option
def devices(name: str | None, as_json: bool) -> int:
    """List the hardware, or show every number of one device with its source."""
    from assay.catalog import devices as known

    if name is None:
        every = known.devices()
        rows = [(d.id, _KINDS[type(d).__name__], d.name, ", ".join(d.aliases)) for d in every]
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
    say(f"{device.id}: {device.name}\n")
    shown = [(n.field, n.value, reference) for n, reference in zip(numbers, references, strict=True)]
    _table(("field", "value", "source"), shown, as_json, "")
    for at, (title, date, url) in enumerate(documents, start=1):
        say(f"[{at}] {title}, {date}\n    {url}")
    return 0


@click.command()
@json_option
def clusters(as_json: bool) -> int:
    """List the shipped systems; nodes is the size that their document describes, and --nodes another one."""
    from assay.catalog.clusters import cluster, cluster_ids

    rows = [
        (
            c.id,
            str(c.count),
            str(len(c.node.gpus)),
            c.node.gpu.id if c.node.gpu else "–",
            c.name,
            c.source,
        )
        for c in map(cluster, cluster_ids())
    ]
    head = ("id", "nodes", "GPUs a node", "GPU", "name", "source")
    return _entries(head, rows, as_json, "catalog clusters", short=3)


@click.command()
@json_option
def models(as_json: bool) -> int:
    """List the shipped language models with the document of each shape."""
    from assay.catalog.models import model_sources
    from assay.catalog.models import models as known

    sources = model_sources()
    rows = [
        (
            m.id,
            f"{m.parameters / 1e9:.3g}",
            str(m.seq_len),
            ", ".join(m.aliases),
            _title(sources, m.source),
        )
        for m in known()
    ]
    head = ("id", "billion weights", "sequence", "also called", "source")
    return _entries(head, rows, as_json, "catalog models", short=2)


@click.command()
@json_option
def jobs(as_json: bool) -> int:
    """List the shipped jobs that are not language models, with the parameters that --set takes."""
    from assay.catalog.jobs import job, job_ids

    rows = [
        (j.id, j.name, ", ".join(f"{p.name}={p.value:g}" for p in j.parameters), j.source)
        for j in map(job, job_ids())
    ]
    return _entries(("id", "name", "parameters", "source"), rows, as_json, "catalog jobs", short=1)


@click.command()
@json_option
def offers(as_json: bool) -> int:
    """List the shipped prices of one GPU and hour, each with its source and date."""
    from assay.catalog.offers import offers as known

    rows = [
        (o.id, "quote" if o.price is None else f"{o.price} {o.currency}", o.term, o.date, o.source)
        for o in known()
    ]
    return _entries(("id", "price", "term", "date", "source"), rows, as_json, "catalog offers", short=3)


@click.command()
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
    say(f"{profile.name}: {profile.title}\n\n{' '.join(profile.description.split())}\n")
    for c in profile.criteria:
        optional = "" if c.required else " (not required)"
        say(f"{c.id}{optional}: {texts.quantity(c.quantity)}, {_bound(c)}")
        for line in (c.clause, f"recipe: {c.recipe}", f"source: {c.source}", c.note):
            if line:
                say(f"    {line}", hang=4)
    for complaint in complaints:
        if complaint.message.code != "lint.recipe_unstated":
            say(f"\nlint: {texts.say(complaint.message)}")
    return 0


@click.command()
@json_option
def quantities(as_json: bool) -> int:
    """List every quantity with its unit, scope and the recipe that it needs."""
    from assay.catalog.quantities import quantities as known

    rows = [(q.id, q.unit, q.better.value, q.scope.value, ", ".join(q.defining), q.summary) for q in known()]
    return _entries(
        ("quantity", "unit", "better", "about", "recipe", "meaning"),
        rows,
        as_json,
        "catalog quantities",
        short=3,
    )


@click.command()
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
    say(f"{kind.code} ({kind.severity.value}): {text.title}\n\n{text.why}\n")
    for fix in text.fixes:
        say(f"- {fix}")
    say(f"\nevidence: {kind.source}")
    return 0


@click.command()
@json_option
def benchmarks(as_json: bool) -> int:
    """List the benchmarks and the quantities that each yields."""
    from assay.measure.registry import benchmarks as known

    apart = ", " if as_json else "\n"
    rows = [(b.name, b.summary, apart.join(b.yields), ", ".join(b.needs)) for b in known().values()]
    return _table(("benchmark", "measures", "yields", "needs"), rows, as_json, "catalog benchmarks")


#: Columns of ids: what one must be able to copy is not broken.
_WHOLE = ("id", "code", "profile", "benchmark", "quantity", "field")


def _entries(
    head: Sequence[str], rows: Iterable[Sequence[str]], as_json: bool, command: str, *, short: int
) -> int:
    """Print rows that a table has no room for: the id, a line of `short` columns, then each other one."""
    if as_json:
        return _table(head, rows, as_json, command)
    for first, *cells in rows:
        said = list(zip(head[1:], cells, strict=True))
        say(first)
        say("    " + " · ".join(f"{name} {cell}" for name, cell in said[:short] if cell), hang=4)
        for name, cell in said[short:]:
            if cell:
                say(f"    {name}: {cell}", hang=6)
    return 0


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], as_json: bool, command: str) -> int:
    """Print rows as a table, or as one JSON object with a list of records."""
    if as_json:
        records = [dict(zip(head, row, strict=True)) for row in rows]
        from assay.codec.answer import headed

        say_json(headed(command) | {"rows": records})
        return 0
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in head:
        table.add_column(title, overflow="fold", no_wrap=title in _WHOLE)
    for row in rows:
        table.add_row(*row)
    text = io.StringIO()
    Console(file=text, width=shutil.get_terminal_size((WIDTH, 24)).columns).print(table)
    say("\n".join(line.rstrip() for line in text.getvalue().splitlines()))
    return 0


_KINDS = {
    "Gpu": "GPU",
    "NvlinkGeneration": "NVLink",
    "PcieGeneration": "PCIe",
    "Nic": "NIC",
    "Switch": "switch",
}


def _title(sources: Mapping[str, Source], name: str) -> str:
    found = sources.get(name)
    return f"{found.title}, {found.date}" if found else name


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
