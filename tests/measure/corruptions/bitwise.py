"""The lowest bit of one element is wrong: on rank 2 in every product, on rank 1 in every third."""

import itertools

import torch


def corrupt(rank):
    right, number = torch.mm, itertools.count(1)

    def wrong(a, b, *, out):
        right(a, b, out=out)
        if rank == 2 or (rank == 1 and next(number) % 3 == 0):
            out.view(torch.int32)[3, 5] ^= 1
        return out

    torch.mm = wrong
