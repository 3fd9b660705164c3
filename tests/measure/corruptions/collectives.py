"""One element of every operation's result on rank 1 is wrong."""

import torch
import torch.distributed as dist


def corrupt(rank):
    if rank != 1:
        return
    for name in ("all_reduce", "broadcast", "all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
        setattr(dist, name, _spoiled(getattr(dist, name)))


def _spoiled(right):
    def wrong(tensor, *args, **kwargs):
        right(tensor, *args, **kwargs)
        if tensor.dtype == torch.float32 and tensor.numel() > 1:  # not the barrier
            tensor[0] += 1

    return wrong
