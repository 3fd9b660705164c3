"""Processes of this machine that work for one command."""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor


def process_pool(workers: int, *, start: str) -> ProcessPoolExecutor:
    """A pool whose processes begin by `fork` or `spawn`, and leave Ctrl-C to the process that has them."""
    return ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context(start),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
