"""Processors: model and count, what this process may use of them, and what the hypervisor takes away."""

from __future__ import annotations

import os
import re
from pathlib import Path

from assay.probe.cgroup import group_directories
from assay.probe.fact import Fact, known, missing
from assay.probe.files import Roots, Text, entries, file_fact, number, read, text_fact, whole, whole_or_none

# Below this many ticks (10 ms each, over all processors) a share of time is rounding.
_LEAST_TICKS = 20

_CPU = re.compile(r"cpu\d+")


def read_cpus(node: str, roots: Roots) -> tuple[Fact, ...]:
    """Model, sockets, cores, threads, NUMA nodes, quota, load, governor and NUMA balancing."""
    cpuinfo = read(roots.proc / "cpuinfo")
    cpu_root = roots.sys / "devices/system/cpu"
    return (
        text_fact(node, "cpu.model", cpuinfo, parse=cpu_model),
        *_counts(node, cpuinfo, cpu_root),
        _numa_nodes(node, roots.sys / "devices/system/node"),
        file_fact(node, "cpu.numa_balancing", roots.proc / "sys/kernel/numa_balancing", parse=_on_off),
        _governor(node, cpu_root),
        file_fact(node, "cpu.load_1min", roots.proc / "loadavg", unit="count", parse=_first_float),
        *_usable(node, roots),
    )


def cpu_model(cpuinfo: str) -> str:
    """The processor's name; arm64 kernels print only the numbers of implementer and part."""
    fields = dict(_pairs(cpuinfo))
    if name := fields.get("model name") or fields.get("cpu model"):
        return name
    if part := fields.get("CPU part"):
        return f"implementer {fields.get('CPU implementer', '?')} part {part}"
    raise ValueError("no model name in cpuinfo")


def steal_frac(before: str, after: str) -> float:
    """Share of processor time that the hypervisor gave to others between two texts of /proc/stat.

    steal / (user + nice + system + idle + iowait + irq + softirq + steal), each as a difference.
    Raises ValueError where a text has no cpu line or too little time lies between the two.
    """
    first, second = _ticks(before), _ticks(after)
    total = sum(second) - sum(first)
    if total < _LEAST_TICKS:
        raise ValueError(f"{total} ticks between the two readings, at least {_LEAST_TICKS} are needed")
    # Kernels have been seen to count a tick back after a migration, never more than that.
    return max(second[7] - first[7], 0) / total


def steal_facts(node: str, before: Text, after: Text) -> tuple[Fact, Fact]:
    """Steal between two readings of /proc/stat, and since the machine started."""
    return (
        _steal(node, "cpu.steal_frac", before, after),
        _steal(node, "cpu.steal_since_boot_frac", Text(path=after.path, text=_NO_TIME, reason=None), after),
    )


_NO_TIME = "cpu 0 0 0 0 0 0 0 0"


def _steal(node: str, key: str, before: Text, after: Text) -> Fact:
    if before.text is None:
        return missing(node, key, "1", before.reason or "not read", str(before.path))
    earlier = before.text
    return text_fact(node, key, after, unit="1", parse=lambda later: steal_frac(earlier, later))


def _ticks(stat: str) -> list[int]:
    """The first eight columns of the cpu line; guest time after them is counted in user time already."""
    for line in stat.splitlines():
        words = line.split()
        if words[:1] == ["cpu"]:
            ticks = [whole(word) for word in words[1:9]]
            if len(ticks) < 8:
                raise ValueError(f"the cpu line has {len(ticks)} columns, steal is the eighth")
            return ticks
    raise ValueError("no cpu line in /proc/stat")


def _pairs(cpuinfo: str) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in cpuinfo.splitlines())
    return [(name.strip(), value.strip()) for name, colon, value in pairs if colon]


def _counts(node: str, cpuinfo: Text, cpu_root: Path) -> list[Fact]:
    """Sockets and cores from cpuinfo, or from the topology files on machines whose cpuinfo omits them."""
    places: list[tuple[str, str]] = []
    physical, threads = "", 0
    for name, value in _pairs(cpuinfo.text or ""):
        if name == "processor":
            threads += 1
        elif name == "physical id":
            physical = value
        elif name == "core id":
            places.append((physical, value))
    source = str(cpuinfo.path)
    if not places:
        cpus = [cpu for cpu in entries(cpu_root) if _CPU.fullmatch(cpu.name)]
        topology = [(read(c / "topology/physical_package_id"), read(c / "topology/core_id")) for c in cpus]
        places = [(a.text, b.text) for a, b in topology if a.text is not None and b.text is not None]
        source = f"{cpu_root}/cpu*/topology" if places else source
    reason = cpuinfo.reason or f"neither {cpuinfo.path} nor {cpu_root}/cpu*/topology tells"
    counts = {
        "cpu.sockets": len({a for a, _ in places}),
        "cpu.cores": len(set(places)),
        "cpu.threads": threads,
    }
    return [
        known(node, key, n, "count", source) if n else missing(node, key, "count", reason, source)
        for key, n in counts.items()
    ]


def _numa_nodes(node: str, root: Path) -> Fact:
    count = sum(re.fullmatch(r"node\d+", entry.name) is not None for entry in entries(root))
    if not count:
        return missing(node, "cpu.numa_nodes", "count", f"no {root}/node* on this host", str(root))
    return known(node, "cpu.numa_nodes", count, "count", str(root))


def _governor(node: str, cpu_root: Path) -> Fact:
    source = f"{cpu_root}/cpu*/cpufreq/scaling_governor"
    cpus = [cpu for cpu in entries(cpu_root) if _CPU.fullmatch(cpu.name)]
    names = {read(cpu / "cpufreq/scaling_governor").text or "" for cpu in cpus} - {""}
    if not names:
        return missing(node, "cpu.governor", "text", f"no {source} on this host", source)
    return known(node, "cpu.governor", " ".join(sorted(names)), "text", source)


def _usable(node: str, roots: Roots) -> list[Fact]:
    """Affinity, cgroup quota, and the lesser of the two."""
    affinity = len(os.sched_getaffinity(0))
    quota = _quota(node, roots)
    cores = min(affinity, quota.value) if isinstance(quota.value, float) else float(affinity)
    call = "sched_getaffinity"
    return [
        known(node, "cpu.affinity", affinity, "count", call),
        quota,
        known(node, "cpu.effective_cores", cores, "count", call if quota.value is None else quota.source),
    ]


def _quota(node: str, roots: Roots) -> Fact:
    """Processors' worth of time that the control groups of this process allow, the least of all levels."""
    key, unit, directories = "cpu.quota_cores", "count", group_directories(roots, "cpu")
    quotas = [q for d in directories for q in (_quota_v2(d), _quota_v1(d)) if q is not None]
    if not quotas:
        reason, source = "no processor quota is set in the control groups", str(roots.sys / "fs/cgroup")
        return missing(node, key, unit, reason, source)
    least, source = min(quotas)
    return known(node, key, least, unit, source)


def _quota_v2(group: Path) -> tuple[float, str] | None:
    path = group / "cpu.max"
    words = (read(path).text or "").split()
    return _share(words[0], words[1], path) if len(words) == 2 else None


def _quota_v1(group: Path) -> tuple[float, str] | None:
    path = group / "cpu.cfs_quota_us"
    return _share(read(path).text or "", read(group / "cpu.cfs_period_us").text or "", path)


def _share(quota_us: str, period_us: str, path: Path) -> tuple[float, str] | None:
    """Quota over period; the kernel writes "max" or -1 where there is no quota."""
    quota, period = whole_or_none(quota_us), whole_or_none(period_us)
    return (quota / period, str(path)) if quota and period and quota > 0 and period > 0 else None


def _on_off(text: str) -> bool:
    return whole(text) != 0


def _first_float(text: str) -> float:
    return number(text.split()[0])
