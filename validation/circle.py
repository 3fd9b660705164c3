"""The circle on this machine: predicted against measured training steps, `make circle`.

Each run measures the parts (products, kernels, memory, all-reduce) and the training benchmark, and predicts
the latter from the former. No number is fitted to step time.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from assay.api import MeasureOptions, measure
from assay.predict.local import predict_training
from assay.store.run import open_run

PARTS = ("gemm", "memory", "kernels", "collectives", "training")


def main(runs: int = 5, ranks: int = 2) -> None:
    """Print the error of every run, and the median error by number of ranks."""
    errors: dict[str, list[float]] = defaultdict(list)
    for number in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            out = measure(MeasureOptions(out=Path(folder) / "run", ranks=ranks, suite="quick", only=PARTS))
            readings = open_run(out).readings
        for predicted in predict_training(readings):
            found = [
                r.number
                for r in readings
                if r.quantity == predicted.quantity and r.recipe == predicted.recipe and r.number
            ]
            name = f"{predicted.quantity} at {predicted.recipe.get('ranks')} ranks"
            measured = statistics.fmean(found)
            error = (predicted.number or 0.0) / measured - 1
            errors[name].append(error)
            print(f"run {number}: {name}: {predicted.number:.4g} against {measured:.4g}, {error:+.1%}")
    for name, every in errors.items():
        print(f"{name}: median error {statistics.median(every):+.1%} over {len(every)} runs")


main(*map(int, sys.argv[1:]))
