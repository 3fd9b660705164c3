"""The built-in detectors; importing this package registers them."""

from assay.watch.detectors import (
    bounds,
    checkpoint,
    counters,
    hang,
    kernel,
    loss,
    pairs,
    presence,
    ranks,
    steps,
    straggler,
)

__all__ = [
    "bounds",
    "checkpoint",
    "counters",
    "hang",
    "kernel",
    "loss",
    "pairs",
    "presence",
    "ranks",
    "steps",
    "straggler",
]
