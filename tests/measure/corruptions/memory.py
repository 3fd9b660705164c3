"""The last element of every copy on rank 1 stays as it was."""

import torch


def corrupt(rank):
    right = torch.Tensor.copy_

    def wrong(self, source, *rest):
        right(self[:-1], source[:-1])
        return self

    if rank == 1:
        torch.Tensor.copy_ = wrong
