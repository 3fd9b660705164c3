"""Fit the predictor's few numbers again on `validation/training`, and print them as `physics.FITTED`.

Run: python validation/fit_training.py
"""

from __future__ import annotations

import gzip
from pathlib import Path

import click

from assay.predict.fitting import fit
from assay.predict.physics import Physics
from assay.predict.tables import read_table
from assay.predict.validate_training import NEEDS, problem_of

TABLES = ("measured.csv.gz", "a100_multi_node.csv.gz", "a100_single_node.csv.gz")


def main() -> None:
    """Fit from the priors, and print one line a number."""
    folder = Path(__file__).parent / "training"
    rows = []
    for name in TABLES:
        text = gzip.decompress((folder / name).read_bytes()).decode("utf-8")
        rows += read_table(text.splitlines(), file=name, needs=NEEDS)
    fitted = fit(problem_of(rows), start=Physics(), rounds=9)
    for name in Physics.names():
        click.echo(f"    {name}={getattr(fitted, name):.3g},  # prior {getattr(Physics(), name):.3g}")


if __name__ == "__main__":
    main()
