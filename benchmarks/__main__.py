"""Run every benchmark, or those named, and print a table."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks.figure import Figure


def main(names: list[str]) -> None:
    """Print one line per figure as it comes."""
    modules = [
        importlib.import_module(f"benchmarks.{m.name}")
        for m in pkgutil.iter_modules(benchmarks.__path__)
        if m.name != "__main__"
    ]
    every = {m.__name__.partition(".")[2]: m.run for m in modules if hasattr(m, "run")}
    print(f"{'benchmark':<26}{'figure':<46}{'value':>14}  reach")
    for name in names or every:
        figures: list[Figure] = every[name]()
        for figure in figures:
            print(f"{name:<26}{figure.what:<46}{figure.value:>14}  {figure.reach}", flush=True)


main(sys.argv[1:])
