"""The machine itself: identity, kernel, memory, and whether it is virtual or seen from a container."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from assay.probe.cgroup import group_directories
from assay.probe.fact import Fact, known, missing
from assay.probe.files import Roots, file_fact, number, read, short, text_fact, whole, whole_or_none
from assay.probe.masking import masked

_MEMORY = {
    "MemTotal": "memory.total",
    "MemAvailable": "memory.available",
    "SwapTotal": "memory.swap_total",
    "SwapFree": "memory.swap_free",
    "CmaTotal": "memory.cma_total",
}

#: What hypervisors and clouds write into the machine's vendor or product name, in lower case.
_HYPERVISORS = {
    "kvm": "KVM",
    "qemu": "QEMU",
    "vmware": "VMware",
    "virtualbox": "VirtualBox",
    "xen": "Xen",
    "hvm domu": "Xen",
    "virtual machine": "Hyper-V",
    "amazon ec2": "Amazon EC2",
    "google compute engine": "Google Compute Engine",
    "alibaba cloud ecs": "Alibaba Cloud ECS",
    "tencent cloud": "Tencent Cloud",
    "openstack": "OpenStack",
    "firecracker": "Firecracker",
}

#: Words in the control group or mount table of process 1 that only container runtimes leave there.
_RUNTIMES = ("kubepods", "docker", "containerd", "crio", "libpod", "lxc", "garden")


def read_host(node: str, roots: Roots, environ: Mapping[str, str]) -> tuple[Fact, ...]:
    """Names, serial numbers, system, memory, hypervisor and container of one machine."""
    dmi = roots.sys / "class/dmi/id"
    return (
        known(node, "host.name", node.partition(":")[2], "text", "uname"),
        file_fact(node, "host.boot_id", roots.proc / "sys/kernel/random/boot_id"),
        file_fact(node, "host.uptime", roots.proc / "uptime", unit="s", parse=_uptime_s),
        file_fact(node, "host.vendor", dmi / "sys_vendor"),
        file_fact(node, "host.product", dmi / "product_name"),
        file_fact(node, "host.serial", dmi / "product_serial"),
        file_fact(node, "host.bios_version", dmi / "bios_version"),
        file_fact(node, "host.kernel", roots.proc / "sys/kernel/osrelease"),
        file_fact(node, "host.kernel_args", roots.proc / "cmdline", parse=_masked_words),
        _system(node, roots),
        *_virtual(node, roots),
        _container(node, roots, environ),
        *_memory(node, roots),
    )


def _masked_words(text: str) -> str:
    return " ".join(masked(word.partition("=")[0], word) for word in text.split())


def _uptime_s(text: str) -> float:
    return number(text.split()[0])


def _system(node: str, roots: Roots) -> Fact:
    source = read(roots.etc / "os-release")
    return text_fact(node, "host.os", source, parse=_pretty_name)


def _pretty_name(text: str) -> str:
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "PRETTY_NAME" and value.strip("\"' "):
            return value.strip("\"' ")
    raise ValueError("no PRETTY_NAME in os-release")


def _virtual(node: str, roots: Roots) -> tuple[Fact, Fact]:
    """Whether a hypervisor runs below, and its name: from the processor's flag, then from the firmware.

    A rented bare-metal machine has a cloud's name in its firmware and no flag, so on x86 the flag decides.
    """
    cpuinfo = read(roots.proc / "cpuinfo")
    flags = _flags(cpuinfo.text or "")
    name, source = _hypervisor(roots)
    if not flags and name is None:
        reason = (
            cpuinfo.reason or f"no processor flags in {cpuinfo.path} and no known hypervisor in the firmware"
        )
        return (
            missing(node, "host.virtualized", "text", reason, str(cpuinfo.path)),
            missing(node, "host.hypervisor", "text", reason, str(source)),
        )
    virtual = "hypervisor" in flags if flags else True
    if virtual:
        named = known(node, "host.hypervisor", name or "unnamed", "text", str(source))
    else:
        named = missing(node, "host.hypervisor", "text", "not virtualized", str(cpuinfo.path))
    return known(node, "host.virtualized", virtual, "text", str(cpuinfo.path if flags else source)), named


def _flags(cpuinfo: str) -> frozenset[str]:
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        # arm64 kernels print "Features", which never tells of a hypervisor.
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def _hypervisor(roots: Roots) -> tuple[str | None, Path]:
    kind = read(roots.sys / "hypervisor/type")
    if kind.text:
        return kind.text, kind.path
    for name in ("sys_vendor", "product_name"):
        source = read(roots.sys / "class/dmi/id" / name)
        for mark, hypervisor in _HYPERVISORS.items():
            if mark in (source.text or "").lower():
                return hypervisor, source.path
    return None, roots.sys / "class/dmi/id"


def _container(node: str, roots: Roots, environ: Mapping[str, str]) -> Fact:
    """The container runtime, or "none": by marker file, variable, control group, or an overlay at /."""
    for name, runtime in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if os.path.exists(roots.top / name):
            return known(node, "host.container", runtime, "text", str(roots.top / name))
    for name in ("KUBERNETES_SERVICE_HOST", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        if name in environ:
            return known(node, "host.container", name.partition("_")[0].lower(), "text", f"${name}")
    groups, mounts = read(roots.proc / "1/cgroup"), read(roots.proc / "self/mountinfo")
    for runtime in _RUNTIMES:
        if runtime in (groups.text or ""):
            return known(node, "host.container", runtime, "text", str(groups.path))
    if mounts.text is None:
        return missing(node, "host.container", "text", mounts.reason or "not read", str(mounts.path))
    overlay = any(_is_overlay_root(line) for line in mounts.text.splitlines())
    return known(node, "host.container", "overlay root" if overlay else "none", "text", str(mounts.path))


def _is_overlay_root(line: str) -> bool:
    before, dash, after = line.partition(" - ")
    return bool(dash) and before.split()[4:5] == ["/"] and after.split()[:1] == ["overlay"]


def _memory(node: str, roots: Roots) -> list[Fact]:
    meminfo = read(roots.proc / "meminfo")
    facts = [text_fact(node, key, meminfo, unit="B", parse=_kibibytes(name)) for name, key in _MEMORY.items()]
    facts.append(_memory_limit(node, roots))
    pages = roots.sys / "kernel/mm/transparent_hugepage/enabled"
    facts.append(file_fact(node, "memory.huge_pages", pages, parse=_chosen))
    return facts


def _kibibytes(name: str) -> Callable[[str], int]:
    def parse(meminfo: str) -> int:
        for line in meminfo.splitlines():
            words = line.split()
            if len(words) >= 2 and words[0] == f"{name}:":
                return whole(words[1]) * 1024
        raise ValueError(f"no {name} in meminfo")

    return parse


def _memory_limit(node: str, roots: Roots) -> Fact:
    """The least limit of the control groups that this process is in."""
    limits = []
    for directory in group_directories(roots, "memory"):
        for path in (directory / "memory.max", directory / "memory.limit_in_bytes"):
            limit = whole_or_none(read(path).text or "")
            # Version 1 writes the largest whole page below 2^63 where there is no limit.
            if limit is not None and limit < 2**62:
                limits.append((limit, str(path)))
    if not limits:
        reason, source = "no memory limit is set in the control groups", str(roots.sys / "fs/cgroup")
        return missing(node, "memory.cgroup_limit", "B", reason, source)
    least, source = min(limits)
    return known(node, "memory.cgroup_limit", least, "B", source)


def _chosen(text: str) -> str:
    """The choice in brackets: "always [madvise] never"."""
    chosen = text.partition("[")[2].partition("]")[0]
    if not chosen:
        raise ValueError(f"no choice in brackets in {short(text)!r}")
    return chosen
