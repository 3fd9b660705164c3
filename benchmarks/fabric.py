"""Networks: contention, hashing, failures, and a fabric of 2,048 adapters read, checked and loaded."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.figure import Figure

_ALL_TO_ALL = """
import resource, time
from assay.fabric.contention.classes import shares
from assay.fabric.routes.patterns import flows
from assay.fabric.sizing import size_fabric
from assay.fabric.topology.fat_tree import fat_tree
from assay.fabric.topology.tiers import Tiers
start = time.perf_counter()
tiers = Tiers.of(fat_tree(size_fabric(512, oversubscription=2)))
shares(tiers, [flows("all_to_all", tiers.adapters)])
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
_FOUND = """
import resource, sys, time
from pathlib import Path
from assay.api.predicting_found import read_found
start = time.perf_counter()
found = read_found([Path(sys.argv[1]), Path(sys.argv[2])], against=sys.argv[3])
if found.findings or len(found.loads) != 3 or found.loads[0].routes != "tables":
    sys.exit("the fabric was not read as it was written")
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def run() -> list[Figure]:
    """The figures of the table of goals; memory is that of a process of its own."""
    return [*_contention(), _hashing(), _sweep(), *_as_found()]


def _own_process(code: str, *words: str) -> tuple[float, float]:
    """Seconds and MB of some code."""
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    seconds, kilobytes = done.stdout.split()
    return float(seconds), float(kilobytes) / 1e3


def _contention() -> list[Figure]:
    seconds, megabytes = _own_process(_ALL_TO_ALL)
    return [
        Figure(what="all-to-all with contention, 4,096 GPUs 2:1", value=f"{seconds:.2f} s", reach="1 s"),
        Figure(what="memory of it", value=f"{megabytes:.0f} MB", reach="500 MB"),
    ]


def _hashing() -> Figure:
    from assay.fabric.routes.hashing import collisions
    from assay.fabric.routes.patterns import flows
    from assay.fabric.sizing import size_fabric
    from assay.fabric.topology.fat_tree import fat_tree
    from assay.fabric.topology.tiers import Tiers

    start = time.perf_counter()
    tiers = Tiers.of(fat_tree(size_fabric(128)))
    nodes = sorted({device.node for device in tiers.adapters})
    order = [nodes[at] for at in np.random.default_rng(1).permutation(len(nodes))]
    found = collisions(tiers, flows("ring", tiers.adapters, order), 200)
    seconds = time.perf_counter() - start
    what = f"200 ECMP seeds of 1,024 GPUs (expected {found.expected:.1f}×)"
    return Figure(what=what, value=f"{seconds:.2f} s", reach="5 s")


def _sweep() -> Figure:
    from assay.fabric.failures.sweep import sweep
    from assay.fabric.sizing import size_fabric
    from assay.fabric.topology.fat_tree import fat_tree

    start = time.perf_counter()
    classes = len(list(sweep(fat_tree(size_fabric(2048)))))
    seconds = time.perf_counter() - start
    return Figure(
        what=f"failure sweep, 16,384 GPUs, {classes} classes", value=f"{seconds:.1f} s", reach="10 s"
    )


def _as_found() -> list[Figure]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "testbed"))
    import ibsim  # found through the line above

    from assay.fabric.sizing import size_fabric
    from assay.fabric.topology.fat_tree import fat_tree

    if reason := ibsim.obstacle():
        return [Figure(what="2,048 adapters as found", value=f"not run: {reason}")]
    design = fat_tree(size_fabric(256, port_Bps=25e9), rate="4xHDR")
    with tempfile.TemporaryDirectory() as folder, ibsim.Fabric(design, engine="minhop") as fabric:
        files = [Path(folder, name) for name in ("ibnetdiscover.txt", "dump_fts.txt", "design.yaml")]
        files[0].write_text("\n".join(fabric.tool("ibnetdiscover")) + "\n")
        files[1].write_text("\n".join(fabric.tool("dump_fts")) + "\n")
        files[2].write_text("schema: 1\nnodes: 256\nrails: 8\nradix: 64\nrate: 4xHDR\n")
        seconds, megabytes = _own_process(_FOUND, *map(str, files))
    return [
        Figure(what="2,048 adapters read, checked, loaded", value=f"{seconds:.2f} s", reach="5 s"),
        Figure(what="memory of it", value=f"{megabytes:.0f} MB", reach="500 MB"),
    ]
