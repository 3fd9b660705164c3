"""Real loads on real hardware: benchmarks in disposable worker processes, and the agent that runs them.

What a worker imports (`worker`, `context`, `timing`, `registry`, `benchmarks`) needs the standard
library and torch alone, Python 3.10 or newer.
"""
