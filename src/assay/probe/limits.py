"""The limits that this process runs under: locked memory, open files, shared memory, core dumps."""

from __future__ import annotations

import os

from assay.probe.fact import Fact, known, missing
from assay.probe.files import Roots, Text, absence, entries, file_fact, read, whole_or_none

_LIMITS = {
    "Max locked memory": ("limit.memlock", "B"),
    "Max open files": ("limit.nofile", "count"),
    "Max core file size": ("limit.core", "B"),
    "Max processes": ("limit.nproc", "count"),
}


def read_limits(node: str, roots: Roots) -> tuple[Fact, ...]:
    """Soft limits of this process (children inherit them), /dev/shm, and where core dumps go."""
    source = read(roots.proc / "self" / "limits")
    facts = [fact for name in _LIMITS for fact in _soft_limit(node, source, name)]
    facts += _shared_memory(node, roots)
    facts.append(file_fact(node, "limit.core_pattern", roots.proc / "sys/kernel/core_pattern"))
    return tuple(facts)


def _soft_limit(node: str, source: Text, name: str) -> tuple[Fact, Fact]:
    """The limit, and whether there is one: "unlimited" is no number, so it has a fact of its own."""
    key, unit = _LIMITS[name]
    path = str(source.path)
    soft: list[str] = []
    for line in (source.text or "").splitlines():
        if line.startswith(name):
            soft = line[len(name) :].split()[:1]
    unlimited = soft == ["unlimited"]
    value = whole_or_none(soft[0]) if soft else None
    if value is None and not unlimited:
        reason = source.reason or f"no line {name!r} with a limit in {path}"
        return (
            missing(node, key, unit, reason, path),
            missing(node, f"{key}_unlimited", "text", reason, path),
        )
    return (
        missing(node, key, unit, "unlimited", path) if value is None else known(node, key, value, unit, path),
        known(node, f"{key}_unlimited", unlimited, "text", path),
    )


def _shared_memory(node: str, roots: Roots) -> list[Fact]:
    path = roots.dev / "shm"
    try:
        stat = os.statvfs(path)
    except OSError:
        reason = absence(path)
        return [missing(node, key, "B", reason, str(path)) for key in ("shm.total", "shm.free")]
    leftovers = sum(entry.name.startswith("nccl-") for entry in entries(path))
    return [
        known(node, "shm.total", stat.f_blocks * stat.f_frsize, "B", str(path)),
        known(node, "shm.free", stat.f_bavail * stat.f_frsize, "B", str(path)),
        # Segments that a killed job left behind fill /dev/shm until someone removes them.
        known(node, "shm.nccl_files", leftovers, "count", str(path)),
    ]
