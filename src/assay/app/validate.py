"""`assay validate`: how wrong the predictor is, per row and per group."""

from __future__ import annotations

import click

from assay.app.groups import Commands, LazyGroup

COMMANDS: Commands = {
    "training": ("assay.app.validate_training", "training", "Step times of published training runs."),
    "traces": ("assay.app.validate_training", "traces", "Kineto traces, and larger jobs from the smallest."),
    "kernels": ("assay.app.validate_training", "kernels", "Matrix products and attention."),
    "collectives": ("assay.app.validate_fabric", "collectives", "Collectives, and copies between two GPUs."),
    "choices": ("assay.app.validate_fabric", "choices", "NCCL's own choice of algorithm and protocol."),
}


@click.group(cls=LazyGroup, lazily=COMMANDS)
def validate() -> None:
    """Hold predictions against measured runs: error per row and by group, and whether the ranges hold."""
