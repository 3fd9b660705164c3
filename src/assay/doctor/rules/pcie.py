"""PCIe, IOMMU, ACS, GPUDirect RDMA and peer-to-peer between GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from assay.doctor.facts import Facts, Job, version
from assay.doctor.registry import LIKELY, POSSIBLE, PROVEN, Place, Proof, found, gpu, host_of, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import Subject
from assay.formats.lspci import PciDevice
from assay.formats.nccl_log import Channel
from assay.formats.nvidia_smi import SmiGpu
from assay.formats.sentences import Said

_REDIRECT = re.compile(r"(?:ReqRedir|CmpltRedir|UpstreamFwd)\+")
_RDMA = ("NET/IB", "NET/IBext", "NET/AWS Libfabric")


@rule("PCIE_ACS_ENABLED", reads=("lspci",))
def acs(facts: Facts, job: Job) -> Iterator[Finding]:
    """Bridges that send peer-to-peer traffic up to the root; right under a hypervisor with ATS."""
    redirecting = [d for d in facts.pci if d.acs and _REDIRECT.search(d.acs[0]) and _is_bridge(d)]
    if not redirecting:
        return
    translated = all("DirectTrans+" in d.acs[0] for d in redirecting if d.acs)
    if translated and (facts.has("host.ats") or facts.has("host.virtual") or any(d.ats for d in facts.pci)):
        return
    lines = [(d.file, d.acs[1], f"{d.address} ACSCtl: {d.acs[0]}".strip()) for d in redirecting if d.acs]
    yield found("PCIE_ACS_ENABLED", lines, sure=POSSIBLE + 0.1 if translated else 0.95)


def _is_bridge(device: PciDevice) -> bool:
    """A line of a grep has no device before it; then it is taken for a bridge, which most of them are."""
    return not device.name or "bridge" in device.name.lower()


@rule("PCIE_IOMMU_P2P", reads=("kernel log",))
def iommu(facts: Facts, job: Job) -> Iterator[Finding]:
    """The IOMMU refused a transfer between devices."""
    faults = facts.all("iommu.fault")
    if faults:
        of_gpu = [s for s in faults if re.search(r"nvidia|amdgpu|NVRM", s.text)] or [
            s
            for s in faults
            if any((s["busid"] or s["device"] or "?")[-7:].lower() in g.busid for g in facts.gpus)
        ]
        yield found(
            "PCIE_IOMMU_P2P",
            [*(of_gpu or faults), *facts.all("iommu.translated")[:1]],
            sure=PROVEN if of_gpu or facts.channels else 0.75,
        )


@rule("PCIE_LINK_DEGRADED", reads=("nvidia-smi -q", "lspci", "kernel log"))
def pcie_link(facts: Facts, job: Job) -> Iterator[Finding]:
    """A link below what both ends can do. A slow link of an idle GPU saves power and is no fault."""
    slow: dict[str, list[Place]] = {}
    under_load = {g.busid[-10:] for g in facts.gpus if _is_loaded(g)}
    for one in facts.gpus:
        lines = list(_slow_link(one))
        if lines:
            slow[one.busid] = lines
    for device in facts.pci:
        lines = list(_downgraded(device, device.address[-7:] in {b[-7:] for b in under_load}))
        if lines:
            key = next((busid for busid in slow if busid.endswith(device.address[-7:])), device.address)
            slow.setdefault(key, []).extend(lines)
    for busid, lines in slow.items():
        yield found("PCIE_LINK_DEGRADED", lines, subject=gpu(busid) if busid else node(None))
    for said in facts.all("pcie.limited"):
        if float(said["speed"][:6]) * int(said["width"][:3]) < 0.8 * float(said["able"][:9]):
            subject = Subject("port", said["busid"])
            yield found("PCIE_LINK_DEGRADED", [said], subject=subject, sure=0.85)


def _is_loaded(one: SmiGpu) -> bool:
    state = one.text("Performance State")
    return (one.real("Utilization/GPU", "Utilization/Gpu") or 0) >= 30 or state in ("P0", "P1", "P2")


def _slow_link(one: SmiGpu) -> Iterator[tuple[str, int, str]]:
    for path, needs_load in (("PCIe Generation", True), ("Link Width", False)):
        now, top = one.real(f"{path}/Current"), one.real(f"{path}/Max")
        place = one.find(f"{path}/Current")
        if now and top and place and now < top and (_is_loaded(one) or not needs_load):
            yield one.file, place[1], f"GPU {one.busid}: {path} Current {now:g}, Max {top:g}"


def _downgraded(device: PciDevice, under_load: bool) -> Iterator[tuple[str, int, str]]:
    if (
        device.sta is None
        or device.cap is None
        or not re.search(
            r"NVIDIA|3D controller|VGA|Display|Mellanox|Infiniband|Ethernet|Broadcom|Processing acc",
            device.name,
        )
        or "bridge" in device.name.lower()
    ):
        return
    speed, width, line, _ = device.sta
    is_gpu = bool(re.search(r"NVIDIA|3D controller|VGA|Display|Processing acc", device.name))
    slow = float(speed) < float(device.cap[0]) and (not is_gpu or under_load or float(speed) > 2.5)
    if slow or int(width) < int(device.cap[1]):
        yield (
            device.file,
            line,
            f"{device.address} LnkSta {speed}GT/s x{width}, LnkCap {device.cap[0]}GT/s x{device.cap[1]}",
        )


@rule("PCIE_AER_ERRORS", reads=("kernel log",))
def aer(facts: Facts, job: Job) -> Iterator[Finding]:
    """Repeated errors on one PCIe link, or one that could not be corrected."""
    by_port: dict[str, list[Said]] = {}
    for said in facts.all("pcie.aer"):
        by_port.setdefault(said["source"] or said["busid"] or "?", []).append(said)
        if "Uncorrect" in said["severity"] + said["severity2"]:
            yield found("PCIE_AER_ERRORS", [said], subject=_pci(said["source"] or said["busid"]))
            return
    for port, lines in by_port.items():
        if len(lines) >= 3:
            yield found("PCIE_AER_ERRORS", lines, subject=_pci(port), sure=0.85)


def _pci(busid: str) -> Subject:
    return Subject("port", busid) if busid and busid != "?" else Subject("cluster")


@rule("PCIE_VM_TOPOLOGY", reads=("nccl log", "nccl topology"))
def virtual_topology(facts: Facts, job: Job) -> Iterator[Finding]:
    """A guest that does not see the PCIe tree; NUMA node -1 alone is normal on one socket."""
    unreadable = facts.all("topo.unreadable")
    blind = [d for d in facts.topology_devices if d.link_width in ("", "0") or not d.link_speed.strip()]
    flat = [d for d in blind if d.depth == 0] or blind
    if unreadable or flat:
        phb = [s for s in facts.all("nccl.pattern") if s["inter"] in ("PHB", "SYS")]
        yield found("PCIE_VM_TOPOLOGY", [*unreadable[:3], *flat[:2], *phb[:1]])
        return
    virtual = facts.has("host.virtual")
    for table in facts.topologies:
        gpus = table.gpus()
        cells = [table.cells.get((a, b), "") for a in gpus for b in gpus if a != b]
        if virtual and len(gpus) >= 4 and cells and set(cells) <= {"PHB"}:
            yield found(
                "PCIE_VM_TOPOLOGY", [(table.file, table.lines[gpus[0]], table.texts[gpus[0]])], sure=LIKELY
            )


@rule("GDR_PEERMEM_MISSING", "GDR_PEERMEM_NOT_REGISTERED", "GDR_AMD_KERNEL", reads=("nccl log", "shell"))
def no_gpudirect(facts: Facts, job: Job) -> Iterator[Finding]:
    """Data between nodes is staged through host memory although GPUs and adapters could do without."""
    disabled = facts.all("nccl.gdr_disabled")
    unregistered = facts.all("peermem.unregistered")
    network = [c for c in facts.channels.values() if c.transport.startswith(_RDMA) and c.src != c.dst]
    direct = any(c.gdr for c in network)
    # On PCIe platforms NCCL sends through host memory by design and only receives directly.
    staged = [c for c in network if not c.gdr and not (direct and c.way == "send")]
    if disabled:
        rccl = [version(s["version"]) for s in facts.all("rccl.version")]
        kernels = facts.all("host.kernel")
        new_kernel = any(version(s["release"])[:2] >= (6, 4) for s in kernels)
        places = {s.file for s in disabled} | {host_of(s) for s in disabled} - {None}
        loaded = [
            s
            for s in facts.all("module.loaded", "module.peermem")
            if s.file in places or host_of(s) in places
        ]
        if rccl and min(rccl)[:2] <= (2, 20) and new_kernel:
            yield found("GDR_AMD_KERNEL", [*disabled[:2], *facts.all("rccl.version")[:1], *kernels[:1]])
        elif loaded:
            sure = PROVEN if unregistered else 0.75
            yield found("GDR_PEERMEM_NOT_REGISTERED", [*unregistered, *loaded, *disabled[:2]], sure=sure)
        sure = PROVEN if not loaded else 0.6
        yield found("GDR_PEERMEM_MISSING", [*disabled, *unregistered, *staged[:2]], sure=sure)
    elif staged and _should_be_direct(facts, job, network):
        yield found(
            "GDR_PEERMEM_MISSING",
            staged,
            sure=0.8 if job.completed else LIKELY,
            because=Message.of("doctor.staged_channels", n=len(staged), of=len(network)),
        )
    elif unregistered and not facts.has("peermem.registered", "nccl.gdr_enabled"):
        loaded = facts.all("module.loaded", "module.peermem")
        code = "GDR_PEERMEM_NOT_REGISTERED" if loaded else "GDR_PEERMEM_MISSING"
        yield found(code, [*unregistered, *loaded], sure=LIKELY)


def _should_be_direct(facts: Facts, job: Job, network: list[Channel]) -> bool:
    """Not on GeForce, not where it was switched off, and not in a job that failed while it was set up."""
    switched_off = job.is_set("NCCL_NET_GDR_LEVEL", "0", "LOC") or job.is_set("NCCL_IB_DISABLE", "1")
    failed = facts.has("ib.no_memory", "ib.modify_qp", "ib.completion")
    too_far = any(s["state"] == "Disabled" for s in facts.all("nccl.gdr_pair"))
    return job.multi_node is True and not job.consumer and not (switched_off or failed or too_far)


@rule("GDR_PATH_TOO_FAR", reads=("nccl log", "nvidia-smi topo"))
def gpudirect_too_far(facts: Facts, job: Job) -> Iterator[Finding]:
    """GPUDirect RDMA forced over a path on which it is slower than without."""
    env = [
        (v, said)
        for v, said in job.env.get("NCCL_NET_GDR_LEVEL", ())
        if v.upper() in ("SYS", "PHB", "4", "5", "6", "7")
    ]
    gdr = [c for c in facts.channels.values() if c.gdr]
    far = [s for s in facts.all("nccl.pattern") if s["inter"] in ("SYS", "PHB")]
    pairs = [
        s for s in facts.all("nccl.gdr_pair") if s["state"] == "Enabled" and (s.number("distance") or 0) >= 5
    ]
    cells = [
        (t.file, t.lines[row], t.texts[row])
        for t in facts.topologies
        for row in t.gpus()
        if any(
            c in ("SYS", "NODE", "PHB")
            for (a, b), c in t.cells.items()
            if a == row and not b.startswith("GPU")
        )
        and not any(
            c in ("PIX", "PXB") for (a, b), c in t.cells.items() if a == row and not b.startswith("GPU")
        )
    ]
    if env and (gdr or pairs) and (far or pairs or cells):
        lines: list[Proof] = [said for _, said in env if said is not None]
        yield found("GDR_PATH_TOO_FAR", [*lines, *gdr[:2], *far[:1], *pairs[:1], *cells[:2]], sure=0.85)


@rule("P2P_UNSUPPORTED_GEFORCE", "SW_DRIVER_REGRESSION", reads=("nccl log", "nvidia-smi -q", "shell"))
def geforce_p2p(facts: Facts, job: Job) -> Iterator[Finding]:
    """Cards and drivers whose peer-to-peer is announced and does not work."""
    p2p = [c for c in facts.channels.values() if c.transport.startswith("P2P")]
    lines: list[Proof] = [*facts.all("sw.driver", "gpu.csv")[:2], *facts.all("gpu.listed")[:1], *p2p[:2]]
    ada = any(re.search(r"RTX 40\d\d|RTX 4\d00 ", name) for name in job.products)
    if ada and any(driver and driver[:2] < (525, 105) for driver in job.drivers):
        yield found("P2P_UNSUPPORTED_GEFORCE", lines, sure=0.85)
    ampere = any(re.search(r"RTX 30\d\d", name) for name in job.products)
    trouble = facts.has("job.silent", "torch.timeout") or any(r.header and not r.rows for r in facts.runs)
    if ampere and trouble and any(driver[:1] == (545,) for driver in job.drivers):
        yield found("SW_DRIVER_REGRESSION", lines, sure=LIKELY)


@rule("P2P_HANG", "PCIE_ACS_ENABLED", reads=("nccl log", "nccl-tests", "nvidia-smi topo"))
def hang_over_p2p(facts: Facts, job: Job) -> Iterator[Finding]:
    """Set up, connected by peer-to-peer, and then nothing: a symptom that several causes share."""
    errors = facts.has("cuda.not_initialised", "cuda.driver_too_old", "cuda.out_of_memory", "gpu.off_bus")
    hung = [r for r in facts.runs if r.header and not r.rows and not r.finished and len(r.hosts) < 2]
    p2p = [c for c in facts.channels.values() if c.transport.startswith("P2P")]
    silent = facts.all("job.silent")
    first = [s for s in facts.all("torch.timeout") if (s.number("seq") or 9) <= 1]
    if (
        errors
        or job.multi_node
        or not ((hung and (p2p or silent or len(facts.runs) > 1)) or (p2p and (silent or first)))
    ):
        return
    proof: list[Proof] = [*[(r.file, r.line, r.text) for r in hung], *silent, *first, *p2p[:2]]
    yield found("P2P_HANG", proof, sure=POSSIBLE)
    translated = [s for s in facts.all("iommu.translated") if s["type"] == "Translated"]
    if translated:
        yield found("PCIE_IOMMU_P2P", [*translated, *proof], sure=LIKELY - 0.15)
    table = facts.topologies[0] if facts.topologies else None
    gpus = table.gpus() if table else ()
    close = [
        (table.file, table.lines[a], table.texts[a])
        for a in gpus
        if table and any(table.cells.get((a, b)) in ("PIX", "PXB") for b in gpus)
    ]
    yield found(
        "PCIE_ACS_ENABLED",
        [*close[:2], *proof],
        sure=POSSIBLE + (0.05 if close else -0.1),
        because=Message.of("doctor.acs_by_hang"),
    )
