"""The attention of rank 1 looks at later tokens."""

import torch.nn.functional as functional


def corrupt(rank):
    right = functional.scaled_dot_product_attention

    def wrong(q, k, v, *, is_causal):
        # The reference, in double precision, stays right.
        return right(q, k, v, is_causal=is_causal and q.element_size() == 8)

    if rank == 1:
        functional.scaled_dot_product_attention = wrong
