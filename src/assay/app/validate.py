"""`assay validate`: how wrong the predictor is, per row and per group."""

from __future__ import annotations

import click

from assay.app.validate_fabric import choices, collectives
from assay.app.validate_training import kernels, traces, training


@click.group()
def validate() -> None:
    """Hold predictions against measured runs: error per row and by group, and whether the ranges hold."""


for command in (training, traces, kernels, collectives, choices):
    validate.add_command(command)
