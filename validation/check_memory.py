"""Memory against PyTorch's own tracker on 50 layouts: fake tensors, a fake process group, on the CPU.

Run: python validation/check_memory.py (some five minutes)
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "predict"))

from test_rank_memory import predicted_and_tracked

#: (layers, hidden, heads, key-value heads, feed-forward, gated, tokens, batch, ranks, recompute, rounds)
LAYOUTS = [
    (layers, hidden, hidden // 64, hidden // 64 // group, ffn, gated, tokens, batch, ranks, recompute, rounds)
    for layers in (4, 6)
    for hidden, ffn, group in ((512, 1536, 1), (768, 2048, 4), (1024, 4096, 2))
    for gated in (True, False)
    for tokens, batch in ((256, 1), (1024, 2))
    for ranks, recompute, rounds in ((8, False, 1), (64, True, 1))
] + [(4, 512, 8, 8, 1536, True, 512, 2, 16, False, 2), (4, 512, 8, 8, 1536, False, 512, 2, 16, True, 2)]


def main() -> None:
    """Print each layout's error, and how many are within 5 %."""
    errors = []
    for layout in LAYOUTS:
        predicted, tracked = predicted_and_tracked(layout)
        errors.append(predicted / tracked - 1)
        click.echo(
            f"{layout}: tracked {tracked / 1e6:.1f} MB, predicted {predicted / 1e6:.1f} MB, {errors[-1]:+.1%}"
        )
    size = np.abs(errors)
    close = np.mean(size < 0.05)
    summary = f"median {np.median(size):.1%}, worst {size.max():.1%}, within 5 %: {close:.0%}"
    click.echo(f"{len(errors)} layouts: {summary}")


if __name__ == "__main__":
    main()
