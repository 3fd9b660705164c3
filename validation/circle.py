"""The circle on this machine: predicted against measured training steps, `make circle`.

Each run measures the parts (products, kernels, memory, all-reduce) and the training benchmark of one model on
a number of ranks, and predicts the latter from the former. No number is fitted to step time.

Run: python validation/circle.py [RUNS [RANKS,… [MODEL,…]]], models small, middle or large.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay.api.measuring import MeasureOptions, Session
from assay.domain.reading import Reading
from assay.predict.local import predict_training
from assay.store.run import open_run

PARTS = ("gemm", "memory", "kernels", "collectives", "training")

#: Name → layers, hidden size and vocabulary; the first is what `assay qualify` trains on a CPU.
MODELS = {"small": (2, 256, 4096), "middle": (4, 384, 4096), "large": (4, 512, 8192)}


def measured_run(folder: Path, ranks: int, model: str) -> Path:
    """One run of the parts and of this model's training; returns its folder."""
    session = Session(MeasureOptions(out=folder, ranks=ranks, suite="quick", only=PARTS))
    layers, hidden, vocabulary = MODELS[model]
    shape = {"layers": layers, "hidden": hidden, "heads": hidden // 64, "vocabulary": vocabulary}
    settings = dict(session.suite.settings)
    settings["training"] = settings["training"] | shape
    settings["kernels"] = settings["kernels"] | {"width": hidden, "vocabulary": vocabulary}
    # The sizes around the gradients of all parameters.
    settings["collectives"] = settings["collectives"] | {
        "ops": ["all_reduce"],
        "sizes": [8, 2**20, 2**24, 2**26],
    }
    session.suite = replace(session.suite, settings=settings)
    try:
        session.run()
    finally:
        session.close()
    return folder


def compared(readings: Sequence[Reading], ranks: int) -> tuple[float, float]:
    """The step on all ranks, predicted and measured; the latter is the mean over restarts."""
    predicted = next(
        r
        for r in predict_training(readings)
        if r.quantity == "training.step_time" and r.recipe.get("ranks") == ranks
    )
    found = [
        r.number
        for r in readings
        if r.quantity == predicted.quantity and r.recipe == predicted.recipe and r.number
    ]
    return predicted.number or 0.0, statistics.fmean(found)


def main(runs: int = 5, ranks: str = "1,2,4", models: str = ",".join(MODELS)) -> None:
    """Print the error of every run, and the median error of each model by number of ranks."""
    errors: dict[str, list[float]] = defaultdict(list)
    for number in range(runs):
        for model in models.split(","):
            for count in map(int, ranks.split(",")):
                with tempfile.TemporaryDirectory() as folder:
                    readings = open_run(measured_run(Path(folder) / "run", count, model)).readings
                name = f"{model} on {count} ranks"
                predicted, measured = compared(readings, count)
                errors[name].append(predicted / measured - 1)
                step = f"{predicted:.4g} s against {measured:.4g} s, {errors[name][-1]:+.1%}"
                print(f"run {number}: {name}: {step}", flush=True)
    for name, every in errors.items():
        print(f"{name}: median error {statistics.median(every):+.1%} over {len(every)} runs")


main(*(kind(text) for kind, text in zip((int, str, str), sys.argv[1:], strict=False)))
