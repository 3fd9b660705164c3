"""The machine and the software of a published run, and the groups that it is scored in."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from assay.catalog.devices import gpus
from assay.domain.device import Gpu
from assay.errors import InputError
from assay.predict.cells import Row, whole
from assay.predict.network import Wires, wires
from assay.predict.stack import STACKS, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A GPU model, how many of them the fast links join, and the usual NIC rate per GPU."""

    gpu: str
    domain_ranks: int
    nic_Bps: float


#: Words in gpu_model → catalogue id, GPUs that the fast links join, and the usual NIC rate per GPU.
_SYSTEMS: tuple[tuple[str, System], ...] = (
    ("GB300", System(gpu="gb300", domain_ranks=72, nic_Bps=100e9)),
    ("GB200", System(gpu="gb200", domain_ranks=72, nic_Bps=50e9)),
    ("B300", System(gpu="b300", domain_ranks=8, nic_Bps=100e9)),
    ("B200", System(gpu="b200", domain_ranks=8, nic_Bps=50e9)),
    ("H200", System(gpu="h200-sxm", domain_ranks=8, nic_Bps=50e9)),
    ("H800", System(gpu="h800-sxm", domain_ranks=8, nic_Bps=50e9)),
    ("H100", System(gpu="h100-sxm", domain_ranks=8, nic_Bps=50e9)),
    ("A100 40GB", System(gpu="a100-sxm-40gb", domain_ranks=8, nic_Bps=25e9)),
    ("A100", System(gpu="a100-sxm-80gb", domain_ranks=8, nic_Bps=25e9)),
    ("A800", System(gpu="a800-sxm-80gb", domain_ranks=8, nic_Bps=25e9)),
    ("Ampere", System(gpu="a100-sxm-80gb", domain_ranks=8, nic_Bps=25e9)),
    ("V100", System(gpu="v100-sxm2-32gb", domain_ranks=8, nic_Bps=12.5e9)),
    ("L40S", System(gpu="l40s", domain_ranks=4, nic_Bps=25e9)),
    ("MI300X", System(gpu="mi300x", domain_ranks=8, nic_Bps=50e9)),
)


#: Words in software or source → stack; the first that is found.
_STACK_WORDS: tuple[tuple[str, str], ...] = (
    ("llm-foundry", "llm-foundry"),
    ("composer", "llm-foundry"),
    ("internevo", "internevo"),
    ("megatron-deepspeed", "megatron-deepspeed"),
    ("megatron-bridge", "megatron-bridge"),
    ("mlperf", "mlperf"),
    ("maxtext", "maxtext"),
    ("paxml", "maxtext"),
    ("jax", "maxtext"),
    ("torchtitan", "torchtitan"),
    ("fms-fsdp", "torchtitan"),
    ("automodel", "automodel"),
    ("megascale", "megascale"),
    ("nemo", "nemo"),
    ("megatron-llama", "megatron-2022"),
    ("megatron", "megatron"),
    ("zero-3", "deepspeed"),
    ("deepspeed", "deepspeed"),
    ("fsdp", "fsdp"),
    ("colossal", "fsdp"),
)


def groups_of(row: Row) -> tuple[str, ...]:
    """The groups a row counts in, maybe several. Rows that their source makes doubtful stand apart."""
    if (row.get("confidence") or "3") == "1":
        return ("confidence 1",)
    names: list[str] = []
    gpu, sharding = row.get("gpu_model", ""), row.get("sharding", "").lower()
    moe = bool(whole(row, "experts"))
    sharded = any(word in sharding for word in ("fsdp", "zero-3", "zero-2", "hsdp", "shard_grad_op"))
    blackwell = any(word in gpu for word in ("B200", "B300"))
    ampere = any(word in gpu for word in ("A100", "A800", "Ampere"))
    tuned = row.get("task") in ("lora", "sft")
    table = row.get("source", "").startswith("vTrain")
    if row.get("source", "").startswith("Korthikanti") and (whole(row, "gpus_total") or 0) <= 512:
        names.append("selective-recompute table")
    if table:
        several = (whole(row, "gpus_total") or 0) > 8
        names.append("A100 multi-node table" if several else "A100 single-node table")
    elif not (moe or sharded or blackwell or tuned) and (ampere or "H100" in gpu or "H200" in gpu):
        names += ["dense", "dense A100" if ampere else "dense H100"]
    if tuned:
        names.append("fine-tuning")
    if sharded:
        names.append("FSDP/ZeRO")
    if moe:
        names.append("MoE")
    if blackwell and not moe:
        names.append("Blackwell dense")
    if (whole(row, "gpus_total") or 0) >= 2048:
        names.append("2,048 GPUs and more")
    if not row.get("recompute"):
        names.append("recompute unknown")
    return tuple(names) or ("other",)


def system_of(row: Row) -> System:
    """The system that a row's GPU belongs to."""
    said = row.get("gpu_model", "")
    for word, system in _SYSTEMS:
        if word in said:
            return replace(system, gpu=_form(system.gpu, said))
    # Any other device of the catalogue that is named: eight in a node, and a usual NIC.
    key = re.sub(r"[^a-z0-9]", "", said.lower())
    stems = {one.id: re.sub(r"-(sxm|pcie|nvl|server).*", "", one.id).replace("-", "") for one in gpus()}
    found = [one for one, stem in stems.items() if stem in key]
    if not found:
        raise InputError(f"gpu_model {said!r} is not in the catalogue")
    return System(gpu=max(found, key=lambda one: len(stems[one])), domain_ranks=8, nic_Bps=25e9)


def _form(gpu: str, said: str) -> str:
    """The PCIe or NVL form of a device where the row says so and the catalogue has it."""
    for word in ("PCIe", "NVL"):
        form = re.sub(r"-sxm2?", f"-{word.lower()}", gpu)
        if re.search(rf"\b{word}\b", said) and any(one.id == form for one in gpus()):
            return form
    return gpu


def device_of(gpu: Gpu, row: Row) -> Gpu:
    """The 96 GB HBM2e variant of the H100: slower memory, and 500 W."""
    if "96GB" not in row.get("gpu_model", "") or not gpu.id.startswith("h100"):
        return gpu
    return replace(gpu, memory_Bps=2.4e12, memory_bytes=96 * 2**30, tdp_W=500.0)


def wires_of_row(row: Row, gpu: Gpu, system: System) -> Wires:
    """The wires that a row states, or that its system usually has."""
    per_node = whole(row, "gpus_per_node") or 8
    said = row.get("interconnect_inter", "").replace(",", " ")
    nic = system.nic_Bps
    if found := re.search(r"(\d+)\s*x\s*(?:ConnectX-7 IB NDR |Mellanox )?(\d+)\s*(?:Gb|G\b)", said):
        nic = int(found[1]) * float(found[2]) / 8 * 1e9 / per_node
    elif found := re.search(r"(\d{3,4})\s*G(?:bps|bit/s)", said):
        nic = float(found[1]) / 8 * 1e9 / per_node
    ethernet = any(word in said for word in ("RoCE", "ROCE", "Ethernet", "EFA", "Omni", "Slingshot"))
    links = gpu.links_Bps
    slow = links is None or "PCIe" in row.get("interconnect_intra", "")
    return wires(
        domain_ranks=system.domain_ranks if system.domain_ranks > 8 else per_node,
        links_Bps=None if slow else links,
        slot_Bps=25e9,
        nic_Bps=nic,
        lossless=not ethernet,
    )


def stack_of(row: Row) -> Stack:
    """The stack that the software's name and year choose; the source speaks where the software does not."""
    source = row.get("source", "").lower()
    if source.startswith("mlperf"):
        return STACKS["mlperf"]
    sharding = row.get("sharding", "").lower() if (whole(row, "pp") or 1) == 1 else ""
    year = whole(row, "year") or 2024
    for said in (f"{row.get('software', '')} {sharding}".lower(), source):
        for word, name in _STACK_WORDS:
            if word in said:
                return STACKS[_at_its_age(name, said, row.get("notes", "").lower(), year)]
    return STACKS["megatron-2022" if year <= 2022 else "megatron"]


def _at_its_age(name: str, said: str, notes: str, year: int) -> str:
    """A stack's variant by year, release, or what the row notes."""
    if name == "torchtitan" and "torchtitan" in said and "compile" not in said + notes:
        return "torchtitan-eager"
    if name == "megatron-deepspeed" and year <= 2022:
        return "megatron-deepspeed-2022"
    if name == "megatron" and year <= 2022:
        return "megatron-2020" if year <= 2021 else "megatron-2022"
    if name == "megatron-bridge" and (found := re.search(r"(\d\d)\.(\d\d)", said)):
        return "megatron-bridge-26.06" if (int(found[1]), int(found[2])) >= (26, 5) else name
    return name


def precision_of(row: Row) -> tuple[str, float]:
    """The recipe, and the part of the layers that it leaves in bf16.

    NVFP4 recipes that are meant to converge keep the first and last layers, and say so; NVIDIA's performance
    configurations turn that off.
    """
    said = (row.get("precision") or "").lower()
    if said.startswith("nvfp4"):
        return "nvfp4", 0.15 if "first" in said or "last" in said else 0.0
    if said.startswith("mxfp8"):
        return "mxfp8", 0.0
    if said.startswith("fp8"):
        return ("fp8-current" if "current" in said else "fp8"), 0.0
    if not said and row.get("task") == "lora" and "MLPerf" in row.get("source", ""):
        return "fp8", 0.0
    return ("fp16" if said.startswith("fp16") else "bf16"), 0.0


def overlaps_of(row: Row) -> dict[str, object]:
    """What a row's `overlap` says; silence leaves the stack's own habit."""
    said = row.get("overlap", "")
    if not said:
        return {}
    on = {part.strip() for part in re.split(r"[+,(]", said)}
    stack = stack_of(row)
    hidden = stack.tp_hidden_frac or 0.55
    told: dict[str, object] = {"tp_hidden_frac": hidden if "TP" in on else 0.0}
    told["pp_overlap"] = ("PP" in on or "PP p2p" in said) and "PP p2p overlap off" not in said
    if "MLPerf" in row.get("source", ""):
        told = {"tp_hidden_frac": hidden if "TP" in on else 0.0}
    if "CUDA graphs" in said:
        told["cuda_graphs"] = True
    return told
