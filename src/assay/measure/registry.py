"""The benchmarks that exist. Built-ins and plug-ins come in through the same decorator."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.errors import unknown_name

if TYPE_CHECKING:
    from assay.measure.context import Context

#: A plug-in package names here the module that registers its benchmarks.
ENTRY_POINTS = "assay.benchmarks"


@dataclass(frozen=True)
class Benchmark:
    """What a benchmark yields, what it needs, and the function that runs it on every rank.

    `yields` are quantity ids, with `<word>` for any word; when the benchmark fails, these are recorded as
    not measured with the reason. `once` marks what one process settles (an inventory), which is not
    repeated at every restart. `needs` are programs that must be on the PATH; `needs_gpu` means nothing
    can be measured without one, `needs_nodes` that it is about several machines. `from_nothing` means that
    it times how long a start takes, so its workers must not begin with torch loaded. `wave` is its place in
    the schedule, from one card outwards: inventory, card, node, pair, group, whole. One that is `apart`
    runs only in suites and runs that name it.
    """

    name: str
    summary: str
    yields: tuple[str, ...]
    run: Callable[[Context], None]
    once: bool = False
    needs: tuple[str, ...] = ()
    needs_gpu: bool = False
    needs_nodes: bool = False
    from_nothing: bool = False
    wave: str = "whole"
    apart: bool = False


_REGISTRY: dict[str, Benchmark] = {}


def benchmark(
    name: str,
    *,
    summary: str,
    yields: tuple[str, ...],
    once: bool = False,
    needs: tuple[str, ...] = (),
    needs_gpu: bool = False,
    needs_nodes: bool = False,
    from_nothing: bool = False,
    wave: str = "whole",
    apart: bool = False,
) -> Callable[[Callable[[Context], None]], Callable[[Context], None]]:
    """Register the decorated function as a benchmark."""

    def register(run: Callable[[Context], None]) -> Callable[[Context], None]:
        _REGISTRY[name] = Benchmark(
            name=name,
            summary=summary,
            yields=yields,
            run=run,
            once=once,
            needs=needs,
            needs_gpu=needs_gpu,
            needs_nodes=needs_nodes,
            from_nothing=from_nothing,
            wave=wave,
            apart=apart,
        )
        return run

    return register


def benchmarks() -> dict[str, Benchmark]:
    """Every benchmark by name, in the order in which they run. Importing them does not import torch."""
    from assay.measure import benchmarks as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        entry.load()
    rank = {name: i for i, name in enumerate(package.ORDER)}
    return dict(sorted(_REGISTRY.items(), key=lambda item: (rank.get(item[0], len(rank)), item[0])))


def find(name: str) -> Benchmark:
    """One benchmark by name."""
    known = benchmarks()
    if name not in known:
        raise unknown_name("benchmark", name, known)
    return known[name]
