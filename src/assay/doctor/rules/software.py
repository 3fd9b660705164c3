"""Versions that do not fit together, known bugs, and shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assay.doctor.facts import Facts, Job, version
from assay.doctor.registry import LIKELY, PROVEN, found, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.formats.sentences import Said

_GPU_CODE = re.compile(r"nccl\w+")


@rule("SW_NCCL_VERSION_CONFLICT", reads=("nccl log", "torch log", "shell"))
def nccl_versions(facts: Facts, job: Job) -> Iterator[Finding]:
    """Two NCCLs where there must be one: in one process, or between the ranks."""
    direct = facts.all("sw.undefined_symbol", "nccl.version_mismatch", "sw.nccl_mismatch")
    packages = {s["name"]: s for s in facts.all("sw.nccl_package")}
    if direct:
        yield found("SW_NCCL_VERSION_CONFLICT", [*direct, *packages.values()])
    elif len(packages) > 1:
        yield found("SW_NCCL_VERSION_CONFLICT", list(packages.values()), sure=LIKELY)
    elif mixed := _versions_of_one_job(facts):
        yield found("SW_NCCL_VERSION_CONFLICT", mixed, sure=0.85)


def _versions_of_one_job(facts: Facts) -> list[Said]:
    """Hosts that are in one communicator and print different versions."""
    by_host = {s.host: s for s in facts.all("nccl.version") if s.host}
    groups: dict[str, set[str]] = {}
    for said in facts.all("nccl.comm"):
        if said["id"] and said.host in by_host:
            groups.setdefault(said["id"], set()).add(said.host or "")
    for hosts in groups.values():
        lines = [by_host[host] for host in sorted(hosts)]
        if len({s["version"] for s in lines}) > 1:
            return lines
    return []


@rule("SW_NCCL_KNOWN_BUG", "SW_RCCL_REGRESSION", reads=("nccl log",))
def known_bugs(facts: Facts, job: Job) -> Iterator[Finding]:
    """Signatures of bugs that a later version fixed."""
    lines = facts.all("nccl.shared_memory_bug")
    versions = facts.all("nccl.version")
    versions = [s for s in versions if any(s.file == line.file for line in lines)] or versions
    if lines and all(version(s["version"]) < (2, 26, 2) for s in versions):
        yield found(
            "SW_NCCL_KNOWN_BUG",
            [*lines, *versions[:1]],
            because=Message.of("doctor.fixed_in", version="2.26.2"),
        )
    rocm = [s for s in facts.all("rocm.version") if version(s["version"])[:3] == (7, 1, 1)]
    if rocm and any(r.program in ("alltoall", "alltoallv", "scatter") for r in facts.runs):
        yield found(
            "SW_RCCL_REGRESSION",
            rocm,
            sure=LIKELY,
            because=Message.of("doctor.fixed_in", version="ROCm 7.2.0"),
        )


@rule("SW_CUMEM_HOST_ASYMMETRIC", reads=("nccl log",))
def cumem(facts: Facts, job: Job) -> Iterator[Finding]:
    """Ranks that chose different kinds of host memory: one cannot read what the other names."""
    fallback, empty = facts.all("nccl.cumem_fallback"), facts.all("shm.attach_empty")
    if empty and fallback:
        yield found("SW_CUMEM_HOST_ASYMMETRIC", [*fallback, *empty])
    elif empty:
        yield found("SW_CUMEM_HOST_ASYMMETRIC", empty, sure=LIKELY)


@rule("STO_SHM_TOO_SMALL", "STO_SHM_STALE_FILES", "DISK_FULL", reads=("nccl log", "torch log", "shell"))
def shared_memory(facts: Facts, job: Job) -> Iterator[Finding]:
    """/dev/shm is full: too small for the job, or full of what crashed jobs left there."""
    no_space = [
        s
        for s in facts.all("shm.no_space")
        if (
            s.pid is not None and ("shm" in s.text or facts.has("shm.segment") or "posix_fallocate" in s.text)
        )
        or "/dev/shm" in s.text
        or "nccl-" in s.text
    ]
    lines = (
        [*no_space, *facts.all("shm.segment", "shm.dataloader")]
        if no_space or facts.has("shm.dataloader")
        else []
    )
    mounts = facts.all("shm.mount")
    full = [s for s in mounts if (s.number("use") or 0) >= 99]
    stale = facts.all("shm.file")
    dates = {s["date"] for s in stale}
    if len(stale) >= 6 and len(dates) >= 2 and (full or lines):
        yield found(
            "STO_SHM_STALE_FILES",
            [*full, *stale[:3], *no_space[:2]],
            because=Message.of("doctor.stale_files", n=facts.counts.get("shm.file", 0), starts=len(dates)),
        )
    if lines:
        yield found("STO_SHM_TOO_SMALL", [*lines, *mounts[:1]], subject=node(lines[0].host))
    elsewhere = [s for s in facts.all("shm.no_space") if s not in no_space and s.pid is None]
    elsewhere += facts.all("disk.quota")
    if elsewhere:
        yield found("DISK_FULL", elsewhere, sure=0.8)
    if full and not stale and not lines:
        yield found("STO_SHM_TOO_SMALL", full, sure=LIKELY)


@rule("SYS_MEMLOCK_LIMIT", "SYS_KERNEL_CMA_ZERO", reads=("nccl log", "shell"))
def locked_memory(facts: Facts, job: Job) -> Iterator[Finding]:
    """Memory that cannot be registered with the adapter: the limit, or a kernel without contiguous memory."""
    failed = [
        s
        for s in facts.all("ib.no_memory")
        if not s["error"] or "allocate memory" in s["error"] or "ENOMEM" in s["error"]
    ]
    limits = facts.all("limit.memlock")
    low = [s for s in limits if s["value"] != "unlimited"]
    unlimited = bool(limits) and not low
    no_cma = [s for s in facts.all("host.cma_total") if s.number("kB") == 0]
    if failed and unlimited and no_cma:
        yield found("SYS_KERNEL_CMA_ZERO", [*failed[:2], *limits[:1], *no_cma])
        return
    if failed:
        sure = PROVEN if low else 0.5 if unlimited else 0.75
        yield found("SYS_MEMLOCK_LIMIT", [*failed, *low], sure=sure, subject=node(failed[0].host))
    if failed and no_cma and not low:
        yield found("SYS_KERNEL_CMA_ZERO", [*failed[:2], *no_cma], sure=0.5)
