"""Whether the 80 % intervals hold: a binomial test per class of run in which each source is one cluster.

Every source is scored with the numbers fitted on all others. Rows of one source are nearly one measurement,
so the variance is that of the sources' own sums: z = Σ (k − 0.8·n) / √Σ (k − 0.8·n)², and |z| < 1.96 is not
rejected. Run: python validation/check_coverage.py (a minute)
"""

from __future__ import annotations

import gzip
import math
from collections import defaultdict
from pathlib import Path

import click

from assay.predict.doubt import class_of
from assay.predict.published import marginal
from assay.predict.tables import TableRow, read_table
from assay.predict.validate_training import NEEDS, source_of, validate_training

TABLES = ("measured.csv.gz", "a100_multi_node.csv.gz", "a100_single_node.csv.gz")


def carried() -> list[TableRow]:
    """The published runs of all three tables."""
    folder = Path(__file__).parent / "training"
    texts = ((name, gzip.decompress((folder / name).read_bytes()).decode("utf-8")) for name in TABLES)
    return [row for name, text in texts for row in read_table(text.splitlines(), file=name, needs=NEEDS)]


def main() -> None:
    """Print rows, part held and z of every class, and of all."""
    rows = carried()
    scored = {(row.file, row.line): row for row in validate_training(rows, cross="source").rows}
    held: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        one = scored[row.file, row.line]
        if one.covered is None or "confidence 1" in one.groups:
            continue
        found = marginal(row.cells)
        likely = found.situations[max(range(len(found.weights)), key=found.weights.__getitem__)]
        for kind in (class_of(likely), "all"):
            held[kind][source_of(row)].append(one.covered)
    for kind, sources in sorted(held.items()):
        away = [sum(hits) - 0.8 * len(hits) for hits in sources.values()]
        z = sum(away) / math.sqrt(sum(d * d for d in away))
        hits = [hit for some in sources.values() for hit in some]
        share = sum(hits) / len(hits)
        click.echo(f"{kind:16} {len(hits):5d} rows of {len(sources):2d} sources: {share:.0%}, z {z:+.2f}")


if __name__ == "__main__":
    main()
