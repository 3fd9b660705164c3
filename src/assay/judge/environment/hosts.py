"""Processors that are oversold or crowded, limits that are too low, and programs that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.reading import Reading
from assay.domain.subject import Subject
from assay.judge.environment.table import FactTable, finding

#: Stolen time above this is oversold. A short look counts few ticks, so that it decides alone only above
#: five times as much.
_STEAL_FRAC = 0.01
_STEAL_ALONE_FRAC = 0.05
#: What Azure's images for HPC set in limits.conf (hard and soft nofile 65535, memlock unlimited).
_NOFILE = 65535
#: The --shm-size with which NVIDIA documents its containers and NCCL's user guide its troubleshooting.
_SHM_BYTES = 2**30
#: Less room than this share beside files that dead jobs left: the next job may not start.
_SHM_FREE_FRAC = 0.05
_NOT_INSTALLED = re.compile(r"(?P<program>.+) is not installed \(package (?P<package>[^)]+)\)")


def host_findings(table: FactTable, ranks: int) -> Iterator[Finding]:
    """What is wrong with each node."""
    for node in table.subjects("node"):
        yield from _steal(table, node)
        yield from _limits(table, node)
        yield from _shared_memory(table, node)
        balancing = table.get(node, "cpu.numa_balancing")
        if balancing is not None and balancing.value == "yes" and table.number(node, "gpu.count"):
            yield finding("NUMA_BALANCING", node, Message.of("because.numa_balancing"), balancing)
    yield from _crowded(table, ranks)


def missing_tools(readings: Iterable[Reading]) -> tuple[Finding, ...]:
    """Programs for want of which a benchmark measured nothing, each once."""
    found: dict[str, Finding] = {}
    for reading in readings:
        match = _NOT_INSTALLED.fullmatch(reading.reason or "")
        if match is not None and match["program"] not in found:
            because = Message.of("because.tool_missing", program=match["program"], package=match["package"])
            found[match["program"]] = Finding(
                code="TOOL_MISSING",
                severity=Severity.INFO,
                subject=reading.subject,
                because=because,
                evidence=(
                    Evidence(file=reading.source, line=None, text=f"{reading.quantity}: {reading.reason}"),
                ),
            )
    return tuple(found.values())


def _steal(table: FactTable, node: Subject) -> Iterator[Finding]:
    """Processor time that the hypervisor gave to others, during the look and since the machine started."""
    now, boot = table.get(node, "cpu.steal_frac"), table.get(node, "cpu.steal_since_boot_frac")
    now_frac, boot_frac = (
        table.number(node, "cpu.steal_frac"),
        table.number(node, "cpu.steal_since_boot_frac"),
    )
    during, before = (now_frac or 0.0) > _STEAL_FRAC, (boot_frac or 0.0) > _STEAL_FRAC
    if not (during or before):
        return
    sure = (during and before) or (now_frac or 0.0) > _STEAL_ALONE_FRAC
    because = Message.of("because.cpu_steal", steal_frac=now_frac, boot_frac=boot_frac)
    yield finding("CPU_STEAL", node, because, now, boot, severity=None if sure else Severity.LOW)


def _limits(table: FactTable, node: Subject) -> Iterator[Finding]:
    """memlock where RDMA pins memory; open files everywhere, of weight where a cluster needs them."""
    rdma = bool(table.number(node, "nic.rdma_adapters"))
    memlock = table.get(node, "limit.memlock_unlimited")
    if rdma and memlock is not None and memlock.value == "no":
        because = Message.of("because.limit_memlock", limit_bytes=table.number(node, "limit.memlock"))
        yield finding("LIMIT_LOW", node, because, memlock, table.get(node, "limit.memlock"))
    files = table.number(node, "limit.nofile")
    if files is not None and files < _NOFILE:
        because = Message.of("because.limit_nofile", limit=int(files), least=_NOFILE)
        yield finding(
            "LIMIT_LOW",
            node,
            because,
            table.get(node, "limit.nofile"),
            severity=Severity.MEDIUM if rdma else Severity.LOW,
        )


def _shared_memory(table: FactTable, node: Subject) -> Iterator[Finding]:
    """NCCL and data loaders pass buffers through /dev/shm; containers get 64 MiB unless told otherwise."""
    total, free = table.number(node, "shm.total"), table.number(node, "shm.free")
    gpus = bool(table.number(node, "gpu.count"))
    if total is not None and total < _SHM_BYTES:
        because = Message.of("because.limit_shm", total_bytes=total, least_bytes=float(_SHM_BYTES))
        severity = Severity.MEDIUM if gpus else Severity.LOW
        yield finding("LIMIT_LOW", node, because, table.get(node, "shm.total"), severity=severity)
    files = table.number(node, "shm.nccl_files")
    if files and total and free is not None and free < _SHM_FREE_FRAC * total:
        because = Message.of("because.shm_leftovers", free_bytes=free, total_bytes=total, files=int(files))
        yield finding(
            "LIMIT_LOW", node, because, table.get(node, "shm.free"), table.get(node, "shm.nccl_files")
        )


def _crowded(table: FactTable, ranks: int) -> Iterator[Finding]:
    """More ranks than the cores that they may use, where cores do the work.

    Every node is taken to have the same cores: those of its own fact, else those in the affinity of any
    rank, within the quota.
    """
    nodes = table.subjects("node")
    if not nodes or any(table.number(node, "gpu.count") for node in nodes):
        return
    cores = sum(_cores(table, node) for node in nodes)
    if 0 < cores < ranks:
        because = Message.of("because.cpu_oversubscribed", ranks=ranks, nodes=len(nodes), cores=cores)
        facts = (*table.of("cpu.effective_cores").values(), *table.of("cpu.affinity_list").values())
        yield finding("CPU_OVERSUBSCRIBED", nodes[0], because, *facts[:4])


def _cores(table: FactTable, node: Subject) -> float:
    told = table.number(node, "cpu.effective_cores")
    if told is not None:
        return told
    allowed: set[int] = set()
    for fact in table.of("cpu.affinity_list").values():
        allowed |= _listed(str(fact.value))
    quotas = [
        float(f.value) for f in table.of("cpu.quota_cores").values() if not isinstance(f.value, str | None)
    ]
    return min([float(len(allowed)), *quotas]) if allowed else 0.0


def _listed(ranges: str) -> set[int]:
    """0, 1, 2, 3, 8 of `0-3,8`; nothing where it is written otherwise."""
    found: set[int] = set()
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found |= set(range(int(first), int(last or first) + 1))
    return found
