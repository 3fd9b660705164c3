"""PyTorch's own peak of an FSDP2 step: fake tensors on a fake process group, on the CPU."""

from __future__ import annotations

import torch
import torch.distributed as dist
from reference_decoder import Block, Decoder
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

from assay.domain.workload import Transformer


def tracked_peak_bytes(
    model: Transformer, *, tokens: int, batch: int, world: int, recompute: bool = False, rounds: int = 1
) -> float:
    """Peak bytes of forward and backward, with bf16 compute, fp32 reduction and Adam's two fp32 moments.

    The tracker's own optimizer step is left out: on fake sharded tensors it counts the moments unsharded.
    """
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    try:
        mesh = init_device_mesh("cpu", (world,))
        with FakeTensorMode():
            built = Decoder(model)
            if recompute:
                apply_activation_checkpointing(
                    built, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda m: isinstance(m, Block)
                )
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
            for block in built.blocks:
                fully_shard(block, mesh=mesh, mp_policy=policy)
            fully_shard(built, mesh=mesh, mp_policy=policy)
            optimizer = torch.optim.AdamW(built.parameters())
            tracker = FSDPMemTracker(built, optimizer)
            tracker.track_inputs(())
            with tracker:
                for _ in range(2):
                    for _ in range(rounds):
                        ids = torch.zeros(batch, tokens, dtype=torch.long)
                        logits = built(ids)
                        loss = functional.cross_entropy(logits.float().flatten(0, 1), ids.flatten())
                        del logits
                        loss.backward()
                        tracker.reset_mod_stats()
                    optimizer.zero_grad()
            (snapshot,) = tracker.get_tracker_snapshot("peak").values()
            total = next(size for kind, size in snapshot.items() if "total" in str(kind).lower())
            return float(total) + 8.0 * model.parameters / world
    finally:
        dist.destroy_process_group()
