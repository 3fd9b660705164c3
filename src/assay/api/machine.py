"""What this machine has to measure with: GPUs through the driver, or else cores."""

from __future__ import annotations

import dataclasses
import os

from assay.errors import InputError
from assay.measure.crew import Machine
from assay.probe import Nvml, NvmlError, Roots
from assay.probe.amd import amd_cards
from assay.probe.cpu import read_cpus


def this_machine(ranks: int | None, *, host: str | None = None) -> Machine:
    """The machine with `ranks` ranks: one per GPU unless asked otherwise, two where there is no GPU.

    With GPUs, ranks beyond their number share cards in turn, which the readings then say.
    """
    if ranks is not None and ranks < 1:
        raise InputError(f"{ranks} ranks cannot measure anything", fix="give --ranks 1 or more")
    name = host or os.uname().nodename
    gpus = _gpus()
    if gpus:
        count = ranks or gpus
        devices = tuple(f"cuda:{rank % gpus}" for rank in range(count))
        return Machine(host=name, ranks=count, cores=_cores(), devices=devices, backend="nccl")
    count = ranks or 2
    return Machine(host=name, ranks=count, cores=_cores(), devices=("cpu",) * count, backend="gloo")


def this_rank(local_rank: int, *, address: str) -> Machine:
    """This machine as one rank of a job sees it: the GPU of its local rank, or the cores it may use."""
    whole = this_machine(None)
    gpus = len(whole.devices) if whole.backend == "nccl" else 0
    return dataclasses.replace(
        whole,
        ranks=1,
        devices=(f"cuda:{local_rank % gpus}",) if gpus else ("cpu",),
        first_local_rank=local_rank,
        address=address,
    )


def _gpus() -> int:
    """GPUs that torch will see: those of NVIDIA's or AMD's driver, limited by what is made visible."""
    try:
        with Nvml() as nvml:
            present = nvml.device_count()
    except NvmlError:
        present = len(amd_cards(Roots.under("/")))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("HIP_VISIBLE_DEVICES"))
    if visible is None:
        return present
    return min(present, len([device for device in visible.split(",") if device.strip() not in ("", "-1")]))


def _cores() -> float:
    """Cores that this process may use: its affinity, or its control group's quota where it is smaller."""
    facts = {fact.key: fact.value for fact in read_cpus("node:here", Roots.under("/"))}
    cores = facts["cpu.effective_cores"]
    return float(cores) if isinstance(cores, int | float) else 1.0
