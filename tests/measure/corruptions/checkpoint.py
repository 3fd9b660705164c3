"""One element that rank 1 loads is wrong."""

import torch.distributed.checkpoint as dcp


def corrupt(rank):
    right = dcp.load

    def wrong(state, **options):
        right(state, **options)
        next(iter(state.values()))[0] += 1.0

    if rank == 1:
        dcp.load = wrong
