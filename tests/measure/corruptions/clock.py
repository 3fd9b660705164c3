"""Somebody sets the clock of rank 1 back by half a second while it is compared."""

import itertools
import time


def corrupt(rank):
    right, calls = time.time, itertools.count()

    def set_back():
        return right() - (0.5 if next(calls) > 150 else 0.0)

    if rank == 1:
        time.time = set_back
