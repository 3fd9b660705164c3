"""One element of every long sum is wrong on rank 1; short ones carry what the ranks agree about."""

import torch.distributed as dist


def corrupt(rank):
    right = dist.all_reduce

    def wrong(tensor, *args, **kwargs):
        result = right(tensor, *args, **kwargs)
        if tensor.numel() > 100:
            tensor[7] += 1
        return result

    if rank == 1:
        dist.all_reduce = wrong
