"""One byte of every long message that rank 1 receives is wrong."""

import torch.distributed as dist


def corrupt(rank):
    right = dist.recv

    def wrong(tensor, *args, **kwargs):
        result = right(tensor, *args, **kwargs)
        if tensor.numel() > 8:
            tensor[3] += 1
        return result

    if rank == 1:
        dist.recv = wrong
