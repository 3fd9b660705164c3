"""The clock of rank 1 is 0.25 s ahead and gains one second in a hundred."""

import time


def corrupt(rank):
    right, begin = time.time, time.time()

    if rank == 1:
        time.time = lambda: right() + 0.25 + 0.01 * (right() - begin)
