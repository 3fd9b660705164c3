"""Published training runs, in the columns of `validation/training`, as situations to predict.

What a row does not say is taken from the model it names, or becomes several weighted situations (a
marginal): recomputation, micro-batch, interleaving, head count. Nothing here looks at a row's measured
time, at its id, or at which paper it comes from; the framework's name and year choose the stack.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import numpy as np

from assay.catalog.devices import gpu as catalogue_gpu
from assay.domain.layout import Layout
from assay.domain.workload import Transformer, Workload
from assay.errors import InputError
from assay.predict.cells import Row, need, number, whole
from assay.predict.network import LinkNetwork, Wires
from assay.predict.published_shapes import shapes_of
from assay.predict.published_systems import (
    device_of,
    overlaps_of,
    precision_of,
    stack_of,
    system_of,
    wires_of_row,
)
from assay.predict.situation import Situation
from assay.predict.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Marginal:
    """The situations a row may describe, with weights that sum to 1, and its wires."""

    situations: tuple[Situation, ...]
    weights: tuple[float, ...]
    wires: Wires
    assumed: tuple[str, ...] = ()


def marginal(row: Row) -> Marginal:
    """A row as weighted situations; raises `InputError` with the reason where it cannot be predicted."""
    assumed: list[str] = []
    system = system_of(row)
    gpu = device_of(catalogue_gpu(system.gpu), row)
    gpus = _gpus(row)
    shapes = shapes_of(row, assumed)
    stack = stack_of(row)
    precision, bf16_frac = precision_of(row)
    bases = _bases(row, gpus, precision, stack, shapes[0][0], assumed)
    seq_len = whole(row, "seq_len")
    if seq_len is None:
        seq_len = _noted_seq(row, assumed)
    told = overlaps_of(row)
    dropped = re.search(r"token ?-?drop", row.get("notes", "")) is not None
    ways = [(told, 1.0)]
    if not told and stack.id == "megatron":
        assumed.append("overlap marginalised")
        ways = [(told, 0.5), ({"grads_overlap": False, "pp_overlap": False}, 0.5)]
    found: list[tuple[Situation, float]] = []
    for shape, weight, base in ((s, w / len(bases), b) for s, w in shapes for b in bases):
        for layout, more in _layout_choices(row, base, shape, assumed):
            batch = _batch(row, layout, assumed)
            if batch is None:
                continue
            workload = Workload(
                model=shape,
                seq_len=seq_len,
                task=row.get("task") or "pretrain",
                packed_len=_packed(row, seq_len),
            )
            for way, chance in ways:
                one = Situation(
                    workload=workload,
                    layout=layout,
                    global_batch=batch,
                    gpu=gpu,
                    stack=stack,
                    bf16_layers_frac=bf16_frac,
                    dropped_tokens=dropped,
                    **way,  # type: ignore[arg-type]
                )
                found.append((one, weight * more * chance))
    if not found:
        raise InputError(
            f"global batch {row.get('global_batch_seqs')} is no multiple of dp × micro_batch = "
            f"{bases[0].dp} × {bases[0].micro_batch}"
        )
    total = sum(weight for _, weight in found)
    return Marginal(
        situations=tuple(one for one, _ in found),
        weights=tuple(weight / total for _, weight in found),
        wires=wires_of_row(row, gpu, system),
        assumed=tuple(dict.fromkeys(assumed)),
    )


def _gpus(row: Row) -> int:
    """GPUs as stated, else the product of the degrees where the data-parallel one is among them."""
    if whole(row, "gpus_total") is None and whole(row, "dp"):
        return math.prod(whole(row, key) or 1 for key in ("tp", "pp", "cp", "dp"))
    return need(row, "gpus_total")


def measured_s(row: Row) -> float | None:
    """Step seconds of a row: printed, else derived, else from its rate."""
    for key in ("step_time_s", "step_time_derived_s"):
        value = number(row, key)
        if value:
            return value
    rate = number(row, "tokens_per_s_per_gpu") or number(row, "tokens_per_s_per_gpu_derived")
    batch, seq, gpus = (number(row, key) for key in ("global_batch_seqs", "seq_len", "gpus_total"))
    if rate and batch and seq and gpus:
        return batch * seq / (rate * gpus)
    return None


def link_network(several: list[Wires]) -> LinkNetwork:
    """The wires of N situations as one network."""
    return LinkNetwork(
        domain_ranks=np.array([w.domain_ranks for w in several], np.int64),
        link_Bps=np.array([w.link_Bps for w in several]),
        nic_Bps=np.array([w.nic_Bps for w in several]),
        link_s=np.array([w.link_s for w in several]),
        nic_s=np.array([w.nic_s for w in several]),
    )


def _bases(
    row: Row, gpus: int, precision: str, stack: Stack, shape: Transformer, assumed: list[str]
) -> list[Layout]:
    """The row's layout, or, where it states no degree at all, the usual splits that its batch allows."""
    if any(row.get(key) for key in ("tp", "pp", "cp", "dp", "sharding")):
        return [_layout(row, gpus, precision, stack, shape)]
    batch = whole(row, "global_batch_seqs") or 1
    assumed.append("degrees marginalised")
    splits = [(tp, cp) for tp in (1, 2, 4, 8) for cp in (1, 2) if gpus % (tp * cp) == 0]
    even = [(tp, cp) for tp, cp in splits if batch % (gpus // (tp * cp)) == 0] or splits[-1:]
    return [_layout({**row, "tp": str(tp), "cp": str(cp)}, gpus, precision, stack, shape) for tp, cp in even]


def _layout(row: Row, gpus: int, precision: str, stack: Stack, shape: Transformer) -> Layout:
    tp, pp, cp = (whole(row, key) or 1 for key in ("tp", "pp", "cp"))
    ep = whole(row, "ep") or 1
    inner = tp * pp * cp
    dp = whole(row, "dp") or max(1, gpus // inner)
    if inner * dp != gpus and gpus % inner == 0:
        dp = gpus // inner
    sharding, shard = _sharding(row, dp * cp, stack)
    vpp = whole(row, "vpp") or 1
    old = stack.id.startswith(("megatron-deepspeed", "megatron-2020", "internevo"))
    said_sp = row.get("sp", "")
    sp = said_sp == "True" or (said_sp == "" and not old)
    etp = _expert_tensor(row, stack, tp) if ep > 1 else 1
    if (tp * cp * dp) % (ep * etp):
        etp = 1
    if (tp * cp * dp) % (ep * etp):
        ep, etp = 1, 1
    vpp = vpp if pp > 1 else 1
    return Layout(
        tp=tp,
        pp=pp,
        vpp=vpp,
        cp=cp,
        ep=ep,
        etp=etp,
        dp=dp,
        sp=sp,
        micro_batch=whole(row, "micro_batch") or 1,
        sharding=sharding,
        shard_ranks=shard,
        recompute=row.get("recompute") or "none",
        schedule="interleaved" if vpp > 1 else "1f1b",
        precision=precision,
    )


def _expert_tensor(row: Row, stack: Stack, tp: int) -> int:
    """Ranks that cut one expert: as the row notes, else Megatron's default of the tensor ranks for NeMo."""
    if noted := re.search(r"\bETP ?= ?(\d+)", row.get("notes", "")):
        return max(1, int(noted[1]))
    return tp if stack.id in ("nemo", "mlperf") else 1


def _sharding(row: Row, group: int, stack: Stack) -> tuple[str, int]:
    said = row.get("sharding", "").lower()
    number = re.search(r"(?:fsdp\s*2?\s*|group |dp)(\d+)", said.replace("fsdp2 ", "fsdp "))
    size = int(number[1]) if number else 0
    size = size if size and group % size == 0 and size < group else 0
    if "shard_grad_op" in said or "zero-2" in said:
        return "zero2", size
    if "fsdp" in said or "zero-3" in said or "hsdp" in said:
        return "zero3", size
    if "zero-0" in said:
        return "none", 0
    if "zero" in said:
        return "zero1", size
    if row.get("distributed_optimizer") == "True":
        return "zero1", 0
    return ("none" if stack.id.startswith(("megatron-20", "megatron-deepspeed")) else "zero1"), 0


def _layout_choices(
    row: Row, base: Layout, shape: Transformer, assumed: list[str]
) -> list[tuple[Layout, float]]:
    """The layouts that fit what a row says, weighted by how common each unsaid choice is."""
    choices = [(base, 1.0)]
    if not row.get("recompute"):
        assumed.append("recompute marginalised")
        odds = {"none": 0.8, "selective": 0.1, "full": 0.1}
        if row.get("task") == "lora":
            odds = {"none": 0.8, "full": 0.2}
        elif stack_of(row).recomputes:
            odds = {"none": 0.25, "selective": 0.25, "full": 0.5}
        choices = [(replace(one, recompute=kind), w * p) for one, w in choices for kind, p in odds.items()]
    if not row.get("micro_batch") and base.pp * base.tp * base.cp >= 1 and row.get("global_batch_seqs"):
        assumed.append("micro-batch marginalised")
        odds_mb = {1: 0.6, 2: 0.25, 4: 0.15}
        choices = [(replace(one, micro_batch=mb), w * p) for one, w in choices for mb, p in odds_mb.items()]
    if not row.get("vpp") and base.pp > 1 and row.get("recompute") != "full":
        steps = _interleavings(row, base, shape)
        if steps:
            assumed.append("interleaving marginalised")
            odds_v = {1: 0.3} | {v: 0.7 / len(steps) for v in steps}
            choices = [
                (replace(one, vpp=v, schedule="interleaved" if v > 1 else "1f1b"), w * p)
                for one, w in choices
                for v, p in odds_v.items()
            ]
    return choices


def _packed(row: Row, seq_len: int) -> float | None:
    """Mean document length of packed fine-tuning sets: NVIDIA's recipes pack a question-answer set.

    The MLPerf task packs government reports, which are about as long as its sequences.
    """
    if row.get("task") not in ("sft", "lora") or "MLPerf" in row.get("source", ""):
        return None
    return float(min(512, seq_len))


def _interleavings(row: Row, base: Layout, shape: Transformer) -> list[int]:
    """Chunks a stage that a modern Megatron-like run may have used, where its source prints none.

    NeMo's tables and MLPerf's configurations print the number, so their silence means one; so does a case
    name that lists degrees.
    """
    recent = (whole(row, "year") or 2024) >= 2022
    if (
        stack_of(row).id not in ("megatron", "megatron-bridge", "megatron-bridge-26.06")
        or not recent
        or "case " in row.get("notes", "")
    ):
        return []
    slots = shape.layers if shape.layers % base.pp == 0 else shape.layers + 2
    if slots % base.pp:
        return []
    fits = [v for v in (2, 3, 4, 5, 6, 8) if (slots // base.pp) % v == 0]
    return fits[:1] + fits[-1:] if len(fits) > 1 else fits


def _batch(row: Row, layout: Layout, assumed: list[str]) -> int | None:
    """The global batch in sequences, or None where this layout cannot have it."""
    said = whole(row, "global_batch_seqs")
    if said is None:
        count = re.search(r"mbc=(\d+)", row.get("notes", ""))
        if count is None:
            raise InputError("global_batch_seqs is not given")
        assumed.append("batch from micro-batch count")
        return int(count[1]) * layout.dp * layout.micro_batch
    lot = layout.dp * layout.micro_batch
    if said % lot == 0:
        return said
    # Real runs round: an accumulation that does not divide is rounded up by the framework.
    return -(-said // lot) * lot if row.get("micro_batch") or layout.micro_batch == 1 else None


def _noted_seq(row: Row, assumed: list[str]) -> int:
    if "mbc=" in row.get("notes", ""):
        assumed.append("sequence length 4096 taken")
        return 4096
    raise InputError("seq_len is not given")
