"""The optimizer step of rank 1 moves one parameter too far, so that the ranks drift apart."""

import torch


def corrupt(rank):
    right = torch.optim.AdamW.step

    def wrong(self, *args):
        right(self, *args)
        with torch.no_grad():
            self.param_groups[0]["params"][0][0, 0] += 0.01

    if rank == 1:
        torch.optim.AdamW.step = wrong
