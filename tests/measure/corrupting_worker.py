"""A worker whose results are spoiled: `corrupting_worker.py BENCHMARK SPEC RANK`.

Loads corruptions/BENCHMARK.py, whose `corrupt(rank)` patches what the benchmark computes with, and then runs
the ordinary worker in this process. The benchmark itself has no hook for this.
"""

import importlib.util
import sys
from pathlib import Path

from assay.measure import worker

name, spec, rank = sys.argv[1:4]
path = Path(__file__).parent / "corruptions" / f"{name}.py"
loaded = importlib.util.spec_from_file_location(name, path)
module = importlib.util.module_from_spec(loaded)
loaded.loader.exec_module(module)
module.corrupt(int(rank))
sys.exit(worker.main([spec, rank]))
