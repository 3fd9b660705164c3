"""`plan growth`: each stage with its fabric, what is bought and what is re-cabled, and the scaling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from assay.catalog.messages import Texts
from assay.catalog.reference_fabrics import reference
from assay.codec.answer import headed
from assay.domain.message import Message
from assay.plan.answers import Growth
from assay.plan.growth import Stage
from assay.report.answer_page import Page, Section, Table
from assay.report.charts import Point, Words, scaling
from assay.report.plan.common import job_lines, job_object, work_object, work_words
from assay.report.plan.figures import fabric_growth
from assay.units import show


def answer(done: Growth, texts: Texts) -> dict[str, object]:
    """The JSON object of `plan growth`; each stage has the keys of `predict fabric`."""
    return {
        **headed("plan growth"),
        "cluster": done.cluster.id,
        **job_object(done.job, texts),
        "stages": [_stage(done, one, texts) for one in done.stages],
    }


def _stage(done: Growth, one: Stage, texts: Texts) -> dict[str, object]:
    m = one.materials
    return {
        "nodes": one.nodes,
        "gpus": one.gpus,
        "topology": one.topology,
        "generation": one.generation,
        "domain_gpus": one.domain_gpus,
        "switches": {"leaf": m.leaf, "spine": m.spine, "core": m.core},
        "cables": {
            "node_leaf": m.node_leaf_cables,
            "leaf_spine": m.leaf_spine_cables,
            "spine_core": m.spine_core_cables,
        },
        "bisection_Bps": one.bisection_Bps,
        "materials": asdict(m),
        "moved_cables": one.moved_cables,
        "added_switches": one.added_switches,
        "tokens_per_s": None if one.candidate is None else one.rate_per_s,
        "steps_per_s": None if one.candidate is not None else one.rate_per_s,
        "speedup_frac": one.linear_frac,
        **work_object(one.work, texts),
        "reason": one.why_not,
        "findings": list(_remarks(done, one, texts)),
    }


def _remarks(done: Growth, one: Stage, texts: Texts) -> tuple[str, ...]:
    """What a buyer of this stage should know."""
    found = []
    if one.materials.nodes_too_many:
        found.append(texts.say(Message.of("plan.growth.ufm", nodes=one.nodes, ports=one.materials.ufm_ports)))
    if one.moved_cables:
        found.append(texts.say(Message.of("plan.growth.moved", count=one.moved_cables)))
    radix = done.cluster.fabric.radix if done.cluster.fabric else 0
    for row in reference(nodes=one.nodes, radix=radix):
        found.append(texts.say(Message.of("plan.growth.reference", text=row.name)))
        if row.misprint:
            found.append(texts.say(Message.of("plan.growth.misprint", text=row.misprint)))
    return tuple(found)


def page(done: Growth, texts: Texts) -> Page:
    """The path in a sentence, the fabric as it grows, what is bought and moved, and what the job gains."""
    label, say = texts.label, texts.say
    first, last = done.stages[0], done.stages[-1]
    lead = [
        say(
            Message.of(
                "plan.growth.path",
                first=first.nodes,
                last=last.nodes,
                gpus=last.gpus,
                text=label(f"plan.topology.{last.topology}"),
                generation=last.generation,
            )
        )
    ]
    if last.linear_frac is not None and first.linear_frac is not None:
        lead.append(say(Message.of("plan.growth.scaling", speedup_frac=last.linear_frac)))
    lead.append(say(Message.of("plan.growth.moves", count=sum(one.moved_cables for one in done.stages))))
    sections = [
        Section(
            title=label("plan.growth.fabric"),
            table=_fabric(done, texts),
            figures=(lambda: _diagram(done, texts),),
        ),
        Section(
            title=label("plan.growth.kept"), lines=(label("plan.growth.kept_text"),), table=_kept(done, texts)
        ),
        Section(
            title=label("plan.growth.gain"),
            lines=(label("plan.growth.gain_text"),),
            table=_gain(done, texts),
            figures=_curve(done, texts),
        ),
        Section(
            title=label("plan.growth.remarks"),
            lines=tuple(f"{one.nodes}: {line}" for one in done.stages for line in _remarks(done, one, texts)),
        ),
    ]
    title = say(Message.of("plan.growth.title", text=done.cluster.name, workload=done.job.name))
    return Page(
        title=title,
        lead=tuple(lead),
        sections=tuple(s for s in sections if s.table or s.lines),
        notes=(label("plan.growth.ports_note"), *job_lines(done.job, texts)),
    )


def _fabric(done: Growth, texts: Texts) -> Table:
    names = ("nodes", "topology", "leaf", "spine", "core", "cables", "optics", "moved")
    rows = tuple(
        (
            f"{one.nodes:,}",
            texts.label(f"plan.topology.{one.topology}"),
            f"{one.materials.leaf:,}",
            f"{one.materials.spine:,}",
            f"{one.materials.core:,}",
            f"{one.materials.cables:,}",
            f"{one.materials.transceivers:,}",
            f"{one.moved_cables:,}",
        )
        for one in done.stages
    )
    return Table(headers=tuple(texts.label(f"plan.head.{n}") for n in names), rows=rows, words=frozenset({1}))


def _kept(done: Growth, texts: Texts) -> Table:
    names = ("nodes", "ufm", "free_ports", "storage_net", "in_band", "out_of_band")
    rows = tuple(
        (
            f"{one.nodes:,}",
            f"{one.materials.ufm_ports}",
            f"{one.materials.free_leaf_ports:,}",
            f"{one.materials.storage_ports:,} / {one.materials.storage_switches}",
            f"{one.materials.in_band_ports:,} / {one.materials.in_band_switches}",
            f"{one.materials.out_of_band_ports:,} / {one.materials.out_of_band_switches}",
        )
        for one in done.stages
    )
    return Table(headers=tuple(texts.label(f"plan.head.{n}") for n in names), rows=rows, words=frozenset())


def _gain(done: Growth, texts: Texts) -> Table:
    names = ("nodes", "gpus", "cluster_tokens", "speedup", "layout")
    rows = tuple(
        (
            f"{one.nodes:,}",
            f"{one.gpus:,}",
            _rate(one.rate_per_s),
            show(one.linear_frac, "1"),
            work_words(one.work, texts) if one.work else one.why_not or "–",
        )
        for one in done.stages
    )
    return Table(headers=tuple(texts.label(f"plan.head.{n}") for n in names), rows=rows, words=frozenset({4}))


def _rate(value: float | None) -> str:
    """Tokens a second, or steps a second of which there are few."""
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _curve(done: Growth, texts: Texts) -> tuple[Callable[[], str], ...]:
    points = [
        Point(line="", x=float(one.gpus), y=one.rate_per_s / base.rate_per_s * base.gpus)
        for base in [next((s for s in done.stages if s.rate_per_s), None)]
        if base is not None and base.rate_per_s
        for one in done.stages
        if one.rate_per_s
    ]
    words = Words(
        name="scaling",
        title=texts.label("plan.growth.gain"),
        description=texts.label("plan.growth.gain_text"),
        x=texts.label("plan.head.gpus"),
        y=texts.label("plan.axis.speedup"),
    )
    return (
        (lambda: scaling(points, words=words, ideal=texts.label("plan.axis.linear")),)
        if len(points) > 1
        else ()
    )


def _diagram(done: Growth, texts: Texts) -> str:
    words = Words(
        name="fabric",
        title=texts.label("plan.growth.fabric"),
        description=texts.label("plan.growth.fabric_text"),
    )
    names = [texts.label(f"plan.head.{name}") for name in ("core", "spine", "leaf", "nodes")]
    return fabric_growth(done.stages, words=words, names=names)
