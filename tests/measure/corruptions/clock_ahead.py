"""The clock of rank 1 is 0.25 s ahead."""

import time


def corrupt(rank):
    right = time.time

    if rank == 1:
        time.time = lambda: right() + 0.25
