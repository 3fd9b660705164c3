"""One element of every operation's result on rank 1 is wrong."""

import torch
import torch.distributed as dist

NAMES = (
    "all_reduce",
    "broadcast",
    "all_gather_single",
    "all_gather_into_tensor",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "all_to_all_single",
)


def corrupt(rank):
    if rank != 1:
        return
    for name in NAMES:
        if hasattr(dist, name):
            setattr(dist, name, _spoiled(getattr(dist, name), least=2 if name == "all_reduce" else 1))
    batch = dist.batch_isend_irecv

    def wrong_batch(operations):
        for work in batch(operations):
            work.wait()
        operations[1].tensor[0] += 1
        return []

    dist.batch_isend_irecv = wrong_batch


def _spoiled(right, *, least):
    # A barrier is an all_reduce of one element.
    def wrong(tensor, *args, **kwargs):
        right(tensor, *args, **kwargs)
        if tensor.dtype == torch.float32 and tensor.numel() >= least:
            tensor[0] += 1

    return wrong
