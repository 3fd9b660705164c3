"""NVLink, NVSwitch and the services that run them: errors, links that are down, fabric manager, IMEX."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from statistics import median

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, PROVEN, found, gpu, host_of, node, rule
from assay.doctor.rules.gpu import NVLINK_XIDS, each_gpu, lines_by_xid, place_of
from assay.domain.finding import Finding, Severity
from assay.domain.message import Message
from assay.formats.nvidia_smi import NvlinkGpu

#: NVLinks in use on a healthy GPU of each product.
_LINKS_OF = (
    (re.compile(r"H100 NVL|H200 NVL"), 12),
    (re.compile(r"A800|H800"), 8),
    (re.compile(r"A100-SXM|A100 SXM"), 12),
    (re.compile(r"H100 80GB HBM3|H100 SXM|H200|GH200|B200|B300"), 18),
    (re.compile(r"V100-SXM"), 6),
    (re.compile(r"RTX A6000|RTX 3090|RTX A5000|RTX A4500"), 4),
    (re.compile(r"2080 Ti|RTX 8000|RTX 6000$"), 2),
    (re.compile(r"RTX 2080"), 1),
)
#: Products that have no NVLink without a bridge, or at all.
_PCIE_PRODUCT = re.compile(
    r"PCIe|PCIE|\bL4\b|L40|\bT4\b|\bA10\b|\bA16\b|\bA2\b|\bA30\b|\bA40\b|RTX|GeForce|Quadro|P40|P4\b|GTX"
)
_NVL_PRODUCT = re.compile(r"\bNVL\b")
#: PCI device ids of cards that are sold for a bridge: H100 NVL, H200 NVL.
_NVL_IDS = {"2321", "233b"}
#: PCI device ids of cards that come without NVLink or need a bridge for it: T4, A100, A30, A40, A10, L4,
#: L40, L40S, H100 PCIe; from the PCI ID repository.
_PCIE_IDS = {"1eb8", "20b5", "20f1", "20b7", "2235", "2236", "27b8", "26b5", "26b9", "2331"}


#: So many corrected errors of one link, far above those of the others, are no longer noise. A bound of ours.
_MANY_ERRORS = 1000


@rule("NVLINK_FABRIC_ERROR", reads=("kernel log", "shell", "nvlink", "torch log"))
def fabric_errors(facts: Facts, job: Job) -> Iterator[Finding]:
    """NVLink and NVSwitch errors; the GPU that reports the fatal one is to blame, not those that echo it."""
    by_xid = lines_by_xid(facts)
    lines = [s for n in sorted(NVLINK_XIDS) for s in by_xid[n]]
    fatal = [s for s in lines if re.search(r"\bFatal\b", s.text)] or lines
    for subject, group in each_gpu(fatal):
        mild = all("Nonfatal" in s.text or "Non-fatal" in s.text for s in group)
        yield found(
            "NVLINK_FABRIC_ERROR",
            group,
            subject=subject,
            sure=LIKELY if mild else PROVEN,
            severity=Severity.MEDIUM if mild else None,
        )
    switches = facts.all("gpu.sxid")
    serious = [s for s in switches if s["kind"] == "Fatal"] or switches
    if serious and not lines:
        mild = all(s["kind"] == "Non-fatal" for s in serious)
        yield found(
            "NVLINK_FABRIC_ERROR",
            serious,
            subject=place_of(serious[0]),
            sure=LIKELY if mild else PROVEN,
            severity=Severity.MEDIUM if mild else None,
        )
    if (failed := facts.all("nvlink.cuda_error")) and not lines and not serious:
        yield found("NVLINK_FABRIC_ERROR", failed, sure=LIKELY, subject=node(host_of(failed[0])))
    reported = facts.all("fm.switch_error")
    if reported:
        yield found("NVLINK_FABRIC_ERROR", reported, sure=LIKELY)
    for one in facts.nvlinks:
        recoveries = {name: count for name, count in one.errors.items() if "ecovery" in name and count > 0}
        counted = [count for name, count in one.errors.items() if re.search("CRC|Replay", name)]
        most = max(counted, default=0)
        outlier = most >= _MANY_ERRORS and most > 100 * max(1.0, median(counted))
        if recoveries or outlier:
            yield found(
                "NVLINK_FABRIC_ERROR", [one], sure=0.6, subject=gpu(str(one.index)), severity=Severity.MEDIUM
            )


@rule(
    "NVLINK_DOWN",
    "NVLINK_NOT_FITTED",
    "NVLINK_BRIDGE_SEATING",
    reads=("nvlink", "nvidia-smi topo", "nccl topology"),
)
def links(facts: Facts, job: Job) -> Iterator[Finding]:
    """NVLinks of one GPU against those of its siblings, and against what its product has."""
    groups: dict[str, list[NvlinkGpu]] = defaultdict(list)
    for one in facts.nvlinks:
        if any(state in ("up", "down") for state in one.states.values()):
            groups[one.product].append(one)
    for product, group in groups.items():
        yield from _of_product(product, group, facts, job)
    yield from _told_by_dcgm(facts, job)
    yield from _links_of_tables(facts)


def _told_by_dcgm(facts: Facts, job: Job) -> Iterator[Finding]:
    """DCGM calls links down on cards that have none fitted, too."""
    told = [(s.file, s.line, s.text) for s in facts.all("nvlink.dcgm_down")]
    told += [(s.file, s.line, s.text) for s in facts.all("nvlink.all_inactive")]
    told += [
        (d.file, d.line, f"{d.test} {d.entity}: {d.warning}")
        for d in facts.diags
        if "NvLink link" in d.warning and "down" in d.warning
    ]
    if told:
        ids = _device_ids(facts)
        pcie = all(_PCIE_PRODUCT.search(name) for name in job.products) if job.products else ids <= _PCIE_IDS
        fitted = not pcie or not (job.products or ids)
        yield found("NVLINK_DOWN" if fitted else "NVLINK_NOT_FITTED", told, sure=0.8 if fitted else PROVEN)


def _device_ids(facts: Facts) -> set[str]:
    return {i.lower() for s in facts.all("dcgm.device_ids") for i in s["ids"].split(",") if i}


def _up(one: NvlinkGpu) -> int:
    return sum(state == "up" for state in one.states.values())


def _of_product(product: str, group: list[NvlinkGpu], facts: Facts, job: Job) -> Iterator[Finding]:
    most = max(_up(one) for one in group)
    name = product or next(iter(job.products), "")
    if most == 0:
        ids = _device_ids(facts)
        bridged = bool(ids & _NVL_IDS) or bool(_NVL_PRODUCT.search(name))
        if not bridged and (_PCIE_PRODUCT.search(name) or (not name and not _has_fabric(facts))):
            known = bool(_PCIE_PRODUCT.search(name))
            yield found("NVLINK_NOT_FITTED" if known else "NVLINK_DOWN", group, sure=PROVEN if known else 0.6)
        else:
            yield found("NVLINK_DOWN", [*group, *facts.all("dcgm.device_ids")[:1]])
        return
    short = [one for one in group if _up(one) < most]
    if short:
        for one in short:
            yield found(
                "NVLINK_DOWN",
                [one],
                subject=gpu(str(one.index)),
                because=Message.of("doctor.fewer_links", up=_up(one), usual=most),
            )
        return
    usual = next((links for pattern, links in _LINKS_OF if pattern.search(name)), None)
    if usual and most < usual:
        consumer = bool(re.search(r"GeForce|RTX|Quadro|TITAN", name))
        slow = [s for s in facts.all("host.slow_query") if (s.number("minutes") or 0) >= 1]
        because = Message.of("doctor.fewer_links", up=most, usual=usual)
        code = "NVLINK_BRIDGE_SEATING" if consumer else "NVLINK_DOWN"
        yield found(code, [*group[:2], *slow[:1]], sure=LIKELY if consumer else 0.8, because=because)


def _has_fabric(facts: Facts) -> bool:
    return facts.has("fm.active", "fm.inactive", "nccl.nvls")


def _links_of_tables(facts: Facts) -> Iterator[Finding]:
    """The matrix of `topo -m` and NCCL's own topology, where the sum of links differs from the siblings'."""
    for table in facts.topologies:
        sums = {
            row: sum(
                int(c[2:]) for (a, _), c in table.cells.items() if a == row and re.fullmatch(r"NV\d{1,3}", c)
            )
            for row in table.gpus()
        }
        usual = Counter(sums.values()).most_common(1)
        if not usual or usual[0][0] == 0 or usual[0][1] <= len(sums) / 2:
            continue
        # One dead link lowers the sum of both its ends: the worst row is the one to look at.
        # Cards joined by bridges may stand alone; behind switches every GPU has links to all others.
        joined = sum(bool(re.fullmatch(r"NV\d{1,3}", cell)) for cell in table.cells.values())
        switched = len(sums) >= 4 and joined >= (len(sums) - 1) * (len(sums) - 2)
        worst = min(total for total in sums.values() if total or switched)
        for row, total in sums.items():
            if total == worst < usual[0][0]:
                yield found(
                    "NVLINK_DOWN",
                    [(table.file, table.lines[row], table.texts[row])],
                    subject=gpu(row[3:]),
                    because=Message.of("doctor.fewer_links", up=total, usual=usual[0][0]),
                )
    for file in dict.fromkeys(device.file for device in facts.topology_devices):
        gpus = [d for d in facts.topology_devices if d.kind == "gpu" and d.file == file]
        usual_links = Counter(d.nvlinks for d in gpus).most_common(1)
        if not usual_links or usual_links[0][1] <= len(gpus) / 2:
            continue
        for device in gpus:
            if device.nvlinks < usual_links[0][0]:
                because = Message.of("doctor.fewer_links", up=device.nvlinks, usual=usual_links[0][0])
                yield found("NVLINK_DOWN", [device], subject=gpu(device.busid), because=because)


#: CUDA's "operation cannot be performed in the present state" and "system not yet initialized".
_NOT_READY = ("401", "802")


@rule(
    "FABRIC_MANAGER_DOWN",
    "FABRIC_MANAGER_RESTARTED",
    "NVLS_FM_TRANSIENT",
    "NVLS_BIND_FAILED",
    reads=("nccl log", "torch log", "shell"),
)
def fabric_manager(facts: Facts, job: Job) -> Iterator[Finding]:
    """CUDA 802, a multicast that cannot be bound, and what the fabric manager's unit says."""
    off, on = facts.all("fm.inactive", "fm.failed", "fm.mismatch"), facts.all("fm.active")
    failed = facts.all("nccl.nvls_failure")
    binds = facts.all("nccl.nvls_bind") + [s for s in failed if s["error"] in _NOT_READY]
    not_ready = [s for s in facts.all("cuda.not_initialised") if "Multicast" not in s.text]
    if binds:
        transient = [s for s in binds if s["error"] == "802"]
        yield found("NVLS_BIND_FAILED", binds, sure=POSSIBLE)
        if transient and on and not off:
            yield found("NVLS_FM_TRANSIENT", [*transient, *on], sure=LIKELY)
        elif off or not on:
            sure = PROVEN if off else 0.85 if any(s["error"] == "401" for s in binds) else LIKELY
            yield found("FABRIC_MANAGER_DOWN", [*off, *binds], sure=sure)
    elif not_ready:
        yield found("FABRIC_MANAGER_DOWN", [*not_ready, *off], sure=PROVEN if off else 0.6 if on else 0.85)
    elif facts.has("fm.mismatch"):
        yield found("FABRIC_MANAGER_DOWN", off)
    elif (
        off
        and any("fabricmanager" in c.text or "fabric" in c.text for c in facts.commands)
        and _needs_fabric(job)
    ):
        yield found("FABRIC_MANAGER_DOWN", off, sure=0.85)
    for one in facts.gpus:
        state = one.find("Fabric/State")
        if state and state[0] == "In Progress":
            place = (one.file, state[1], f"GPU {one.busid}: Fabric State : In Progress")
            yield found("FABRIC_MANAGER_DOWN", [place, *off], sure=LIKELY)
    broken = [s for s in failed if s["error"] in ("", "1", "999") and "memory" not in s["what"]]
    if broken:
        told = facts.all("fm.stopped", "fm.started", "fm.switch_error")
        yield found("FABRIC_MANAGER_RESTARTED", [*broken, *told], sure=PROVEN if told else LIKELY)


def _needs_fabric(job: Job) -> bool:
    return any(re.search(r"SXM|HBM3|HGX|B200|B300", name) for name in job.products)


@rule("IMEX_NOT_READY", reads=("nccl log", "shell"))
def imex(facts: Facts, job: Job) -> Iterator[Finding]:
    """Fabric handles are refused, or the IMEX service or its channels are missing."""
    denied, missing = facts.all("cuda.fabric_denied"), facts.all("imex.missing")
    if denied or missing:
        yield found("IMEX_NOT_READY", [*denied, *missing], sure=PROVEN if denied and missing else 0.8)
