"""How wrong the collective model and NCCL's modelled choice are, against published rows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from assay.domain.cluster import Node
from assay.domain.score import ScoredRow, Validation, group_scores
from assay.errors import InputError
from assay.fabric.collective import collective_time, launched_s, launcher_floor_s
from assay.fabric.fit import Problem, Sample, alike, priced_s, ranges_of, samples_of
from assay.fabric.nccl.known import graphs_of
from assay.fabric.nccl.summary import Situation
from assay.fabric.nccl.tuning import costs, times_us
from assay.fabric.operations import operation
from assay.fabric.parameters import LARGE_BYTES, Parameters, place_of, shipped
from assay.fabric.placement import Placement
from assay.fabric.published import PublishedRow

#: Groups in the order of the report.
GROUPS = ("in a node", "across nodes, 64 MiB and more", "across nodes, all sizes", "not known to be healthy")

#: A row whose launcher takes a good part of its time says little of the links.
_LAUNCHER_PART = 0.2

#: Generations whose GPUs are joined directly, as parameters end in them.
_DIRECT = ("/volta", "/ampere", "/hopper", "/blackwell")

#: Rows from which a source is left out on its own when ranges are worked out.
_LARGE_SOURCE = 8


def validate_collectives(rows: Sequence[PublishedRow], *, cross: bool = False) -> Validation:
    """Predicted against measured seconds of every row; with `cross`, by fits without the row's source."""
    if not cross:
        return _scored(rows, _shipped_predictions(rows), None, None)
    samples = samples_of(rows)
    base = shipped()
    fixed = {name: value for name, value in base.values.items() if name.startswith("host/")}
    usable = [_is_usable(row, sample, base) for row, sample in zip(rows, samples, strict=True)]
    fitted: dict[str, dict[str, float]] = {}
    predictions: list[tuple[float, float, float] | None] = [None] * len(rows)
    if not any(usable):  # nothing here says anything of the links
        return _scored(rows, _shipped_predictions(rows), "source", None)
    used = [at for at, use in enumerate(usable) if use]
    problem = Problem.of([sample for at in used if (sample := samples[at]) is not None])
    origin = np.array([rows[at].source for at in used])
    whole = problem.solved(np.ones(len(used), dtype=bool), fixed)
    for source in sorted({row.source for row in rows}):
        others = origin != source
        values = problem.solved(others, fixed) if others.any() and not others.all() else whole
        fitted[source] = values
        parameters = Parameters(values=values, ranges=base.ranges)
        for at, (row, sample) in enumerate(zip(rows, samples, strict=True)):
            if row.source == source and sample is not None:
                predictions[at] = _with_range(row, sample, parameters)
    return _scored(rows, predictions, "source", fitted)


def with_rows(validation: Validation, rows: Sequence[ScoredRow]) -> Validation:
    """A validation with further scored rows, whose groups come last."""
    both = (*validation.rows, *rows)
    return replace(validation, rows=both, groups=group_scores(both, GROUPS))


def refit(rows: Sequence[PublishedRow], fixed: Mapping[str, float]) -> Parameters:
    """Parameters fitted to all healthy rows, with ranges from the errors of leaving each source out."""
    samples = samples_of(rows)
    start = Parameters(values=dict(fixed))
    usable = [_is_usable(row, sample, start) for row, sample in zip(rows, samples, strict=True)]
    used = [s for s, use in zip(samples, usable, strict=True) if s is not None and use]
    problem = Problem.of(used)
    origin = np.array([s.source for s in used])
    values = problem.solved(np.ones(len(used), dtype=bool), fixed)
    predictions = np.zeros(len(used))
    for fold in _folds(used):
        left_out = np.isin(origin, sorted(fold))
        parameters = Parameters(values=problem.solved(~left_out, fixed))
        for at in np.flatnonzero(left_out):
            predictions[at] = priced_s(used[at].counts, parameters)
    return Parameters(values=values, ranges=ranges_of(used, predictions.tolist()))


def _folds(samples: Sequence[Sample]) -> list[set[str]]:
    """Sources to leave out together: each large one alone, the small ones in five lots."""
    many = Counter(s.source for s in samples)
    large = [{source} for source, count in many.items() if count >= _LARGE_SOURCE]
    small = sorted(source for source, count in many.items() if count < _LARGE_SOURCE)
    return [*large, *(set(small[at::5]) for at in range(5) if small[at::5])]


def _is_usable(row: PublishedRow, sample: Sample | None, parameters: Parameters) -> bool:
    if sample is None or row.health != "healthy":
        return False
    floor = launcher_floor_s(row.options, row.op, row.per_node, row.nodes, parameters)
    return floor < _LAUNCHER_PART * sample.measured_s and not _is_held_up(sample)


def _is_held_up(sample: Sample) -> bool:
    """Whether a small message over direct links took so long that a launcher the row does not name decided.

    Beyond twice NCCL's own figure for LL: 6.6 µs, its hops, and its 3.3 times the datasheet's time.
    """
    at = {name: count for name, count in sample.counts.items() if name.endswith(_DIRECT)}
    hops = sum(count for name, count in at.items() if name.startswith("hop/LL/"))
    wire = sum(count for name, count in at.items() if name.startswith("wire/LL/"))
    return hops > 0 and not sample.inter and sample.measured_s > 2 * (6.6e-6 + hops + 3.3 * wire)


def _with_range(row: PublishedRow, sample: Sample, parameters: Parameters) -> tuple[float, float, float]:
    floor = launcher_floor_s(row.options, row.op, row.per_node, row.nodes, parameters)
    whole = np.array(priced_s(sample.counts, parameters))
    time = float(launched_s(whole, priced_s(sample.least, parameters), floor))
    low, high = parameters.range_of(np.array([row.bytes]), place_of(sample.counts))
    return time, time * float(low[0]), time * float(high[0])


def _shipped_predictions(rows: Sequence[PublishedRow]) -> list[tuple[float, float, float] | None]:
    found: list[tuple[float, float, float] | None] = [None] * len(rows)
    for indices in alike(rows):
        first = rows[indices[0]]
        if first.cluster is None:
            continue
        sizes = [rows[at].bytes for at in indices]
        placement = Placement.of(first.per_node, first.nodes)
        times = collective_time(first.cluster, first.op, sizes, placement, options=first.options)
        for place, at in enumerate(indices):
            found[at] = (float(times.time_s[place]), float(times.low_s[place]), float(times.high_s[place]))
    return found


def _scored(
    rows: Sequence[PublishedRow],
    predictions: Sequence[tuple[float, float, float] | None],
    cross: str | None,
    fitted: dict[str, dict[str, float]] | None,
) -> Validation:
    scored = tuple(_row(row, prediction) for row, prediction in zip(rows, predictions, strict=True))
    return Validation(rows=scored, groups=group_scores(scored, GROUPS), cross=cross, fitted=fitted)


def _row(row: PublishedRow, prediction: tuple[float, float, float] | None) -> ScoredRow:
    time, low, high = (
        prediction if prediction is not None and row.measured_s is not None else (None, None, None)
    )
    return ScoredRow(
        id=row.id,
        file=row.file,
        line=row.line,
        groups=_groups(row),
        unit="s",
        measured=row.measured_s,
        predicted=time,
        low=low,
        high=high,
        skipped=row.why_not if time is None else None,
    )


def _groups(row: PublishedRow) -> tuple[str, ...]:
    if row.health != "healthy":
        return ("not known to be healthy",)
    domain = row.cluster.domain_nodes if row.cluster is not None else 1
    if row.nodes <= domain:
        model = (
            row.cluster.node.gpu.id if row.cluster is not None and row.cluster.node.gpu is not None else None
        )
        return ("in a node", *((f"in a node, {model}",) if model else ()))
    large = row.bytes >= LARGE_BYTES
    return ("across nodes, all sizes", *(("across nodes, 64 MiB and more",) if large else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceRow:
    """NCCL's choice at one point and ours, like `NVLS/SIMPLE`; `regret_frac` is what ours loses."""

    id: str
    file: str
    line: int
    groups: tuple[str, ...]
    measured: str
    predicted: str | None
    agree: bool
    regret_frac: float | None
    skipped: str | None = None
    unit: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceScore:
    """Agreement of one group, the median regret where it disagrees, and of graphs the part that is equal."""

    n: int
    skipped: int
    agreement_frac: float | None
    median_regret_frac: float | None
    graphs_equal_frac: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceValidation:
    """All points, and the scores by group."""

    rows: tuple[ChoiceRow, ...]
    groups: Mapping[str, ChoiceScore]


def validate_choices(
    files: Sequence[tuple[str, str]], topology_of: Callable[[str], Node]
) -> ChoiceValidation:
    """Compare with what NCCL itself chose: `files` are (name, JSON text), `topology_of` reads their XML."""
    if not files:
        raise InputError("no file of choices is given", fix="give the .json files of validation/nccl_choices")
    rows: list[ChoiceRow] = []
    equal: dict[str, list[bool]] = defaultdict(list)
    for name, text in files:
        made, same, group = _choices_of_file(name, text, topology_of)
        rows += made
        equal["all"] += same
        equal[group] += same
    named = ["all", *sorted({group for row in rows for group in row.groups} - {"all"})]
    return ChoiceValidation(
        rows=tuple(rows),
        groups={g: _choice_score([r for r in rows if g in r.groups], equal.get(g, [])) for g in named},
    )


def _choice_score(rows: Sequence[ChoiceRow], equal: Sequence[bool]) -> ChoiceScore:
    judged = [row for row in rows if row.skipped is None]
    regrets = [row.regret_frac for row in judged if not row.agree and row.regret_frac is not None]
    return ChoiceScore(
        n=len(judged),
        skipped=len(rows) - len(judged),
        agreement_frac=float(np.mean([row.agree for row in judged])) if judged else None,
        median_regret_frac=float(np.median(regrets)) if regrets else (0.0 if judged else None),
        graphs_equal_frac=float(np.mean(equal)) if equal else None,
    )


def _choices_of_file(
    name: str, text: str, topology_of: Callable[[str], Node]
) -> tuple[list[ChoiceRow], list[bool], str]:
    data = _read_choices(name, text)
    node = topology_of(data["xml"])
    version = (int(data["nccl"].split(".")[0]), int(data["nccl"].split(".")[1]))
    nodes, inter, collnet = int(data["nodes"]), int(data["nodes"]) > 1, bool(data["collnet"])
    graphs = graphs_of(node, tuple(range(len(node.gpus))), inter=inter, collnet=collnet, version=version)
    situation = Situation.of(
        node, graphs, per_node=len(node.gpus), inter=inter, version=version, nvls=True, collnet=collnet
    )
    group = f"NCCL {version[0]}.{version[1]}, {nodes} node{'s' if inter else ''}"
    same = [
        (mine.count, mine.bw_intra, mine.bw_inter)
        == (theirs["nChannels"], round(theirs["bwIntra"] * 1000), round(theirs["bwInter"] * 1000))
        for mine, theirs in ((graphs.ring, data["graphs"]["ring"]), (graphs.tree, data["graphs"]["tree"]))
    ]
    prefix = ":".join(str(data[k]) for k in ("xml", "nccl", "nodes", "collnet"))
    rows: list[ChoiceRow] = []
    for said, points in data["choice"].items():
        op = operation(said)
        sizes = np.array([float(point[0]) for point in points])
        ways = costs(op, situation, [nodes])
        times = np.array([times_us(op, way, situation, nodes, sizes) for way in ways])
        names = [f"{way.algorithm}/{way.protocol}" for way in ways]
        for at, (size, theirs, time, *_) in enumerate(points):
            ours = names[int(np.argmin(times[:, at]))]
            regret = 0.0 if ours == theirs else _regret(data["tuning"][said].get(ours), size, time)
            rows.append(
                ChoiceRow(
                    id=f"{prefix}:{said}:{size}",
                    file=name,
                    line=1,
                    groups=("all", group),
                    measured=theirs,
                    predicted=ours,
                    agree=ours == theirs,
                    regret_frac=regret,
                )
            )
    return rows, same, group


def _regret(way: Sequence[float] | None, size: float, best_us: float) -> float | None:
    """How much longer ours takes than NCCL's choice, by NCCL's own figures; None where it may not be used."""
    if way is None or way[1] <= 0:
        return None
    return max(0.0, (way[0] + size / (1000 * way[1])) / best_us - 1)


def _read_choices(name: str, text: str) -> Any:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as fault:
        raise InputError(f"not JSON: {fault.msg}", where=f"{name}:{fault.lineno}") from None
    missing = [k for k in ("nccl", "xml", "nodes", "collnet", "graphs", "tuning", "choice") if k not in data]
    if missing:
        raise InputError(
            f"lacks {', '.join(missing)}", where=f"{name}:1", fix="give a file of NCCL's choices"
        )
    return data
