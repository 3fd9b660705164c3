"""Write a whole run without any hardware: `python -m assay.store.generate OUT --seed 1 --nodes 2`.

The same arguments give the same bytes: nothing here asks for the time, the host or its randomness.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from assay import __version__
from assay.codec.lines import Header, LineRecord, to_line
from assay.domain.event import Event
from assay.domain.fact import Fact
from assay.domain.reading import Origin, Reading, SampleRef
from assay.domain.subject import CLUSTER, Subject
from assay.errors import AssayError, InputError, RunError, did_you_mean, unknown_name
from assay.store.figures import DEVICES
from assay.store.invented import Array, Layout, Noise, Series, all_series
from assay.store.plant import Plant, plant_in_facts, plant_in_series, refuse_unplanted
from assay.store.run import Manifest, create_run, line_file, sample_file
from assay.store.seal import seal
from assay.units import parse

_START_S = 1_796_000_000.0
_RESTART_S = 600.0
_SERIES_S = 5.0
_COHORT = re.compile(r"(?P<key>[\w.]+):(?P<value>.+)@(?P<first>\d+)(?:-(?P<last>\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to generate. `figures` overrides those of `device`; `lost` are ranks lost after restart 0."""

    layout: Layout
    seed: int = 1
    restarts: int = 5
    noise: Noise = field(default_factory=Noise)
    device: str = "h100-sxm-like"
    figures: Mapping[str, float] = field(default_factory=dict)
    plants: tuple[Plant, ...] = ()
    cohorts: tuple[str, ...] = ()
    lost: tuple[int, ...] = ()
    command: tuple[str, ...] = ("python", "-m", "assay.store.generate")


def generate(out: Path, wish: Wish) -> str:
    """Write the run into the empty or new folder `out`, and return its hash."""
    layout = wish.layout
    for rank in wish.lost:
        if not 0 <= rank < layout.ranks:
            raise InputError(f"rank {rank} to lose is not among 0 … {layout.ranks - 1}")
    series = all_series(layout, _figures(wish))
    facts = _facts(wish)
    found = plant_in_series(wish.plants, series)
    facts, also = plant_in_facts(wish.plants, facts)
    refuse_unplanted(wish.plants, found | also, series, facts)

    manifest = _manifest(wish)
    folder = create_run(out, manifest)
    files = _Files(layout.ranks, manifest.run)
    for fact in facts:
        files.add(_rank_of(fact.subject, layout), fact)
    _measure(files, series, wish)
    files.agent.extend(_events(series, wish))
    files.write(folder)
    return seal(folder)


class _Files:
    """The lines and samples of each rank, until they are written in one go."""

    def __init__(self, ranks: int, run: str) -> None:
        self.agent: list[LineRecord] = [Header(run=run)]
        self._lines = [[to_line(Header(run=run, rank=rank))] for rank in range(ranks)]
        self._samples: list[list[Array]] = [[] for _ in range(ranks)]
        self._counts = [0] * ranks

    def add(self, rank: int, record: LineRecord) -> None:
        self._lines[rank].append(to_line(record))

    def add_samples(self, rank: int, samples: Array, unit: str) -> SampleRef:
        offset = self._counts[rank]
        self._samples[rank].append(samples)
        self._counts[rank] += len(samples)
        return SampleRef(file=sample_file(rank), offset=offset, count=len(samples), unit=unit)

    def write(self, folder: Path) -> None:
        try:
            (folder / line_file(None)).write_text(_joined(to_line(r) for r in self.agent), encoding="utf-8")
            for rank, lines in enumerate(self._lines):
                (folder / line_file(rank)).write_text(_joined(lines), encoding="utf-8")
                if self._samples[rank]:
                    np.concatenate(self._samples[rank]).astype("<f8").tofile(folder / sample_file(rank))
        except OSError as fault:
            raise RunError(f"cannot write {folder}: {fault.strerror}", fix="free some space") from None


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _measure(files: _Files, series: Sequence[Series], wish: Wish) -> None:
    """Readings in the order in which they would have been made: restart by restart, series by series."""
    draws = [one.draw(wish.seed, wish.restarts, wish.noise) for one in series]
    for replicate in range(wish.restarts):
        for at, (one, draw) in enumerate(zip(series, draws, strict=True)):
            samples = next(draw)
            time_s = _START_S + replicate * _RESTART_S + at * _SERIES_S
            _record(files, one, samples, replicate, time_s, wish)


def _record(files: _Files, one: Series, samples: Array, replicate: int, time_s: float, wish: Wish) -> None:
    lost = set(wish.lost) if replicate else set()
    values = [(y, one.recipe_of(y.statistic), y.of(samples).tolist()) for y in one.yields]
    low = samples.min(axis=-1).tolist() if one.benchmark == "clock" else None
    high = samples.max(axis=-1).tolist() if one.benchmark == "clock" else None
    for at, (subject, rank) in enumerate(zip(one.subjects, one.ranks.tolist(), strict=True)):
        if rank in lost:
            continue
        absent = bool(one.missing[at])
        ref = None if absent else files.add_samples(rank, samples[at], one.unit)
        for made, recipe, every in values:
            files.add(
                rank,
                Reading(
                    quantity=made.quantity,
                    subject=subject,
                    origin=Origin.MEASURED,
                    value=None if absent else every[at],
                    unit=made.unit,
                    recipe=recipe,
                    low=None if absent or low is None else low[at],
                    high=None if absent or high is None else high[at],
                    n=None if absent else one.count,
                    replicate=replicate,
                    cpu_share_frac=round(float(one.share[at]), 4),
                    reason="planted: not measured" if absent else None,
                    samples=ref,
                    time_s=time_s,
                ),
            )


def _events(series: Sequence[Series], wish: Wish) -> list[Event]:
    """What an agent would have seen: each benchmark's start and end, and the ranks it lost."""
    first_of: dict[str, int] = {}
    for at, one in enumerate(series):
        first_of.setdefault(one.benchmark, at)
    events: list[Event] = []
    for replicate in range(wish.restarts):
        start_s = _START_S + replicate * _RESTART_S
        if replicate == 1:
            events += [_lost(rank, start_s, next(iter(first_of))) for rank in wish.lost]
        ends = [*list(first_of.values())[1:], len(series)]
        for (benchmark, first), end in zip(first_of.items(), ends, strict=True):
            details: dict[str, str | int | float | None] = {"benchmark": benchmark, "replicate": replicate}
            for kind, at in (("task_started", first), ("task_done", end)):
                events.append(
                    Event(kind=kind, time_s=start_s + at * _SERIES_S, subject=CLUSTER, details=details)
                )
    return events


def _lost(rank: int, time_s: float, benchmark: str) -> Event:
    return Event(
        kind="rank_lost",
        time_s=time_s,
        subject=Subject("rank", str(rank)),
        text="killed by signal 9",
        details={"benchmark": benchmark, "replicate": 1, "signal": 9},
    )


def _facts(wish: Wish) -> list[Fact]:
    """Identity of each GPU and node, and the cohorts asked for."""
    layout, facts = wish.layout, []
    for gpu in layout.gpu_subjects():
        uuid = hashlib.sha256(f"{wish.seed} {gpu}".encode()).hexdigest()
        facts += [
            _text(gpu, "gpu.name", f"Invented {wish.device}"),
            _text(gpu, "gpu.uuid", f"GPU-{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:32]}"),
            _text(gpu, "gpu.driver", "570.00.00"),
        ]
    for host in layout.hosts:
        node = Subject("node", host)
        facts.append(Fact(key="gpu.count", subject=node, value=layout.gpus, unit="count", source="generated"))
        facts += [
            _text(node, f"software.{name}.version", version)
            for name, version in (("torch", "2.7.0"), ("nccl", "2.26.2"), ("cuda", "12.8"))
        ]
        facts.append(_text(node, "interconnect.rdma", "active"))
    for cohort in wish.cohorts:
        facts += _cohort(cohort, layout)
    return facts


def _cohort(text: str, layout: Layout) -> list[Fact]:
    match = _COHORT.fullmatch(text)
    if match is None:
        raise InputError(
            f"cannot read {text!r} as a cohort",
            fix="write KEY:VALUE@FIRST-LAST, e.g. firmware:28.39.2048@0-63",
        )
    first, last = int(match["first"]), int(match["last"] or match["first"])
    if not first <= last < layout.nodes:
        raise InputError(f"cohort {text!r} names nodes beyond 0 … {layout.nodes - 1}")
    return [
        _text(Subject("node", host), match["key"], match["value"]) for host in layout.hosts[first : last + 1]
    ]


def _text(subject: Subject, key: str, value: str) -> Fact:
    return Fact(key=key, subject=subject, value=value, unit="text", source="generated")


def _rank_of(subject: Subject, layout: Layout) -> int:
    """The rank that tells of a GPU, or the first rank of a node."""
    host, _, gpu = subject.name.partition("/")
    return layout.hosts.index(host) * layout.gpus + int(gpu or 0)


def _figures(wish: Wish) -> dict[str, float]:
    if wish.device not in DEVICES:
        raise unknown_name("invented device", wish.device, DEVICES)
    figures = dict(DEVICES[wish.device])
    for name, value in wish.figures.items():
        if name not in figures:
            raise InputError(f"unknown figure {name!r}", fix=did_you_mean(name, figures))
        figures[name] = value
    return figures


def _manifest(wish: Wish) -> Manifest:
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(_START_S))
    return Manifest(
        run=f"{stamp}-{hashlib.sha256(repr(wish).encode()).hexdigest()[:6]}",
        created_s=_START_S,
        assay_version=__version__,
        command=wish.command,
        suite="generated",
        ranks=wish.layout.ranks,
        hosts=wish.layout.hosts,
        restarts=wish.restarts,
        seed=wish.seed,
        backend="generated",
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m assay.store.generate", description=__doc__)
    add = parser.add_argument
    add("out", type=Path, help="folder to make")
    add("--seed", type=int, default=1)
    add("--nodes", type=int, default=2)
    add("--gpus", type=int, default=8, help="per node")
    add("--restarts", type=int, default=5)
    add("--noise", default="1.5%", help="standard deviation between restarts")
    add("--within", default="0.4%", help="standard deviation within a restart")
    add("--spread", default="0.3%", help="standard deviation between healthy subjects")
    add(
        "--pairs",
        choices=("none", "node", "all", "rails"),
        default="node",
        help="pairs in a node, of nodes too, or by rails as well",
    )
    add("--device", default="h100-sxm-like", help=f"figures of an invented device: {', '.join(DEVICES)}")
    add("--figure", action="append", default=[], metavar="NAME=VALUE", help="override one, with its unit")
    add(
        "--plant",
        action="append",
        default=[],
        metavar="SUBJECT:QUANTITY:EFFECT",
        help="a fault: -5%%, '+5 ms', missing, or =text for a fact; *, node:NAME and nodes:0-63 match many",
    )
    add("--cohort", action="append", default=[], metavar="KEY:VALUE@FIRST-LAST", help="a fact of these nodes")
    add("--lose-rank", action="append", default=[], type=int, metavar="RANK", help="lost after restart 0")
    return parser


def _wish(arguments: argparse.Namespace, words: Sequence[str]) -> Wish:
    for name in ("nodes", "gpus", "restarts"):
        if getattr(arguments, name) < 1:
            raise InputError(f"--{name} {getattr(arguments, name)} must be 1 or more")
    if arguments.seed < 0:
        raise InputError(f"--seed {arguments.seed} must not be negative")
    noise, within, spread = (
        parse(getattr(arguments, name), unit="1", where=f"--{name}").value
        for name in ("noise", "within", "spread")
    )
    for name, value in (("noise", noise), ("within", within), ("spread", spread)):
        if not 0 <= value <= 0.5:
            raise InputError(f"--{name} {value:.0%} is not in 0 … 50 %")
    figures: dict[str, float] = {}
    for text in arguments.figure:
        name, _, stated = text.partition("=")
        figures[name] = parse(stated, where="--figure").value
    return Wish(
        layout=Layout(nodes=arguments.nodes, gpus=arguments.gpus, pairs=arguments.pairs),
        seed=arguments.seed,
        restarts=arguments.restarts,
        noise=Noise(restart_frac=noise, within_frac=within, subject_frac=spread),
        device=arguments.device,
        figures=figures,
        plants=tuple(Plant.parse(text) for text in arguments.plant),
        cohorts=tuple(arguments.cohort),
        lost=tuple(sorted(set(arguments.lose_rank))),
        # The folder is left out: the same run may be made in two places.
        command=("python", "-m", "assay.store.generate", *(w for w in words if w != str(arguments.out))),
    )


def main(words: Sequence[str] | None = None) -> int:
    """The command line; faults of the user are told in a line, with exit code 2."""
    words = sys.argv[1:] if words is None else list(words)
    arguments = _parser().parse_args(words)
    try:
        whole = generate(arguments.out, _wish(arguments, words))
    except AssayError as fault:
        print(f"error: {fault}", file=sys.stderr)  # noqa: T201
        return fault.exit_code
    print(f"{arguments.out}  {whole}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
