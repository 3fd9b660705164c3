"""The circle on this machine: predicted against measured training steps, `make circle`.

Each run measures the parts of a step, copies and all-reduces, and the training benchmark of one model on a
number of ranks, and predicts the latter from the former. No number is fitted to step time. A cell is a model
on a number of ranks of this machine (`small:2`), or on four hosts made of network namespaces, one rank each,
whose wires are clean or slow (`small:hosts`, `small:slow`); the hosts need root.

Run: python validation/circle.py [--runs 5] [--terms] [CELL …]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.api.measuring import MeasureOptions, Session
from assay.domain.reading import Reading
from assay.predict.local import TrainingStep, training_steps
from assay.store.run import open_run

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "testbed"))
from cluster import Cluster, obstacle

BENCHMARKS = ("memory", "parts", "collectives", "training")

#: Name → layers, hidden size and vocabulary; the first is what `assay qualify` trains on a CPU.
MODELS = {"small": (2, 256, 4096), "middle": (4, 384, 4096), "large": (4, 512, 8192)}
#: Millions of bits that a slow wire carries in a second.
SLOW_MBPS = 300
CELLS = (*(f"{model}:{where}" for where in ("1", "2", "4", "hosts") for model in MODELS), "small:slow")


@dataclasses.dataclass(frozen=True)
class Compared:
    """The step of all ranks in one run; `apart_s` is what it takes where no rank sends gradients."""

    predicted: TrainingStep
    measured_s: float
    apart_s: float

    @property
    def error_frac(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted.time_s / self.measured_s - 1


def measured_runs(options: MeasureOptions, model: str, ranks: int) -> list[Compared]:
    """As many runs of the parts and of this model's training as there are restarts, compared one by one."""
    session = Session(options)
    layers, hidden, vocabulary = MODELS[model]
    shape = {"layers": layers, "hidden": hidden, "heads": hidden // 64, "vocabulary": vocabulary}
    own = {
        "training": shape | {"steps": 8, "sizes": [ranks]},
        "parts": shape,
        "memory": {"bytes": 2**26, "cache_bytes": 0, "window_s": 0.1},
        # The sizes around the buckets of all parameters.
        "collectives": {"ops": ["all_reduce"], "sizes": [8, 2**22, 2**24, 2**25], "latency_iterations": 20},
    }
    settings = {name: of | own.get(name, {}) for name, of in session.suite.settings.items()}
    session.suite = dataclasses.replace(session.suite, settings=settings)
    # How long a start takes is not asked here.
    session.benchmarks = tuple(dataclasses.replace(b, from_nothing=False) for b in session.benchmarks)
    try:
        session.run()
    finally:
        session.close()
    readings = open_run(options.out).readings
    return [
        compared([r for r in readings if r.replicate == number], ranks)
        for number in range(session.suite.restarts)
    ]


def compared(readings: Sequence[Reading], ranks: int) -> Compared:
    """The step on all ranks as one run's readings predict it, and as they have it."""
    predicted = next(step for step in training_steps(readings) if step.recipe.get("ranks") == ranks)

    def measured(quantity: str) -> float:
        found = (r.number for r in readings if r.quantity == quantity and r.recipe == predicted.recipe)
        return next((value for value in found if value is not None), 0.0)

    step_s = measured("training.step_time")
    return Compared(
        predicted=predicted,
        measured_s=step_s,
        apart_s=step_s * (1 - measured("training.exposed_communication")),
    )


@contextlib.contextmanager
def place(where: str, runs: int) -> Iterator[tuple[MeasureOptions, int]]:
    """How to measure at a place, and the number of ranks there."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options = MeasureOptions(out=folder / "run", suite="quick", restarts=runs, only=BENCHMARKS)
        if where.isdecimal():
            cores = max(int(where), len(os.sched_getaffinity(0)))
            yield dataclasses.replace(options, ranks=int(where), cores=cores), int(where)
            return
        cluster = stack.enter_context(Cluster(hosts=4))
        for host in cluster.names if where == "slow" else ():
            cluster.shape(host, rate_Mbps=SLOW_MBPS)
        hosts = folder / "hosts"
        hosts.write_text("".join(f"{host} {cluster.address(host)}\n" for host in cluster.names))
        pinned = dataclasses.replace(options, hosts=hosts, ssh=_pinned(cluster.ssh), ranks=1)
        yield pinned, len(cluster.names)


def _pinned(ssh: str) -> str:
    """Each host on one core: if each took all of them, threads that spin would wait for one another."""
    cores = len(os.sched_getaffinity(0))
    pin = f"n={{host}}; taskset -pc $(( ${{n#h}} % {cores} )) $$ >/dev/null; "
    return ssh.replace("sh -c '", f"sh -c '{pin}", 1)


def main() -> None:
    """Print the error of every run of a cell when it is done, and at the end the medians of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--terms", action="store_true", help="print the terms of each prediction")
    parser.add_argument("cells", nargs="*", metavar="CELL", default=list(CELLS), help=", ".join(CELLS))
    asked = parser.parse_args()
    table: list[str] = []
    for cell in asked.cells:
        model, _, where = cell.partition(":")
        reason = None if where.isdecimal() else obstacle()
        if reason:
            table.append(f"{cell:13} not measured: {reason}")
            continue
        began_s = time.monotonic()
        with place(where, asked.runs) as (options, ranks):
            runs = measured_runs(options, model, ranks)
        print(f"{cell}, {len(runs)} runs in {time.monotonic() - began_s:.0f} s")
        for run in runs:
            _print_run(run, terms=asked.terms)
        table.append(_row(cell, runs))
        print(table[-1], flush=True)
    print("\n".join(("", "medians", *table)))


def _print_run(run: Compared, *, terms: bool) -> None:
    said = f"predicted {run.predicted.time_s:.4f} s, measured {run.measured_s:.4f} s, {run.error_frac:+.1%}"
    print(f"  {said}; without communication {run.apart_s:.4f} s")
    if terms:
        print("    " + "  ".join(f"{name} {s:.4f}" for name, s in run.predicted.terms_s.items()))


def _row(cell: str, runs: Sequence[Compared]) -> str:
    predicted_s = statistics.median(run.predicted.time_s for run in runs)
    measured_s = statistics.median(run.measured_s for run in runs)
    error_frac = statistics.median(run.error_frac for run in runs)
    return f"{cell:13} predicted {predicted_s:.4f} s  measured {measured_s:.4f} s  error {error_frac:+.1%}"


if __name__ == "__main__":
    main()
