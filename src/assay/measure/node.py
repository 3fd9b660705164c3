"""What the ranks of one machine share: their names there, and its memory."""

from __future__ import annotations

import zlib
from pathlib import Path

from assay.measure.context import Context


def ranks_on_this_node(context: Context) -> list[int]:
    """The ranks on this rank's host, itself among them; hosts are told apart by name, compared as CRC-32."""
    mine = float(zlib.crc32(context.host.encode()))
    return [rank for rank, (host,) in enumerate(context.gather([mine])) if host == mine]


def turns_in_node(context: Context) -> int:
    """How many turns let every rank of a node work alone there; nodes take theirs at the same time."""
    return int(context.agree(float(context.local_rank))) + 1


def name_of(context: Context, rank: int, local_rank: int) -> str:
    """A rank of this host as one end of a link or a pair: `h0/3` for a GPU, `rank3` where there is none."""
    return f"{context.host}/{local_rank}" if context.on_gpu else f"rank{context.numbers[rank]}"


def memory_available_bytes(context: Context) -> float:
    """Memory that this rank may take: free GPU memory, or its share of the host's where there is no GPU.

    Host memory is the kernel's MemAvailable or what the control group leaves, whichever is less, shared
    equally by all ranks (too little where they are on several hosts, never too much).
    """
    if context.on_gpu:
        import torch

        torch.cuda.empty_cache()
        return float(torch.cuda.mem_get_info(context.device)[0])
    return _host_available_bytes() / context.world


def _host_available_bytes() -> float:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    available_bytes = next(
        float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")
    )
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = (group / "memory.current").read_text(encoding="ascii").strip()
    except OSError:
        return available_bytes
    return available_bytes if limit == "max" else min(available_bytes, float(limit) - float(used))
