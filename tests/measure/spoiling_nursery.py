"""A nursery whose workers spoil their results where the variable SPOIL names a benchmark.

The worker then loads corruptions/BENCHMARK.py, whose `corrupt(rank)` patches what the benchmark computes
with. The benchmark itself has no hook for this.
"""

import importlib.util
import os
import sys
from pathlib import Path

from assay.measure import nursery, worker

sound = worker.main


def main(words: list[str], **more: int) -> int:
    name = os.environ.get("SPOIL")
    if name:
        path = Path(__file__).parent / "corruptions" / f"{name}.py"
        loaded = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(loaded)
        loaded.loader.exec_module(module)
        module.corrupt(int(words[1]))
    return sound(words, **more)


worker.main = main
sys.exit(nursery.main(sys.argv[1:]))
