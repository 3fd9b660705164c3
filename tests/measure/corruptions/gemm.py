"""One element of every product on rank 1 is wrong."""

import torch


def corrupt(rank):
    right = torch.mm

    def wrong(a, b, *, out):
        right(a, b, out=out)
        out[0, 0] += 1000.0
        return out

    if rank == 1:
        torch.mm = wrong
