"""SHARP's trees in `assay predict fabric --sharp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from assay.fabric.sharp_trees import SharpTrees


def sharp_object(found: SharpTrees) -> dict[str, object]:
    """The key `sharp` of the answer."""
    from assay.fabric.sharp_trees import ADDS

    return {
        "version": found.version,
        "trees": [
            {"root": t.root, "switches": t.switches, "depth": t.depth, "adapters": t.adapters}
            for t in found.trees
        ],
        "jobs_at_once": found.jobs_at_once,
        "adds": list(ADDS),
        "does_not_add": list(found.unplaced),
        "gain": [{"bytes": size, "speedup": speedup} for size, speedup in found.gain],
    }


def show_sharp(found: SharpTrees) -> None:
    """The same for people."""
    from assay.units import show_bytes

    first = found.trees[0]
    click.echo(
        f"\nSHARP {found.version}: {len(found.trees)} trees of {first.switches} switches, {first.depth} deep;"
        f" {found.jobs_at_once} jobs at once through a switch; not for {', '.join(found.unplaced)}"
    )
    click.echo(
        "  all-reduce over all nodes against NCCL's choice without: "
        + ", ".join(f"{show_bytes(size)} {speedup:.2f}×" for size, speedup in found.gain)
    )
