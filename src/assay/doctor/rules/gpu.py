"""GPUs: Xids, memory, clocks, and GPUs that are missing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from assay.catalog.xids import Action, xids
from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, PROVEN, Place, Proof, found, gpu, host_of, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import CLUSTER, Subject
from assay.formats.nvidia_smi import SmiGpu
from assay.formats.sentences import Said


def _of_code(code: str) -> set[int]:
    return {number for number, one in xids().items() if one.code == code}


NVLINK_XIDS, _ECC_XIDS = _of_code("NVLINK_FABRIC_ERROR"), _of_code("GPU_ECC_UNCORRECTABLE")
_APP_XIDS = {13, 31, 43, 45}
#: What asks for nothing, or for nothing yet.
_QUIET = (Action.IGNORE, Action.MONITOR)
_DEVICE_XIDS = {n for n in _of_code("GPU_FAULTY_DEVICE") if n != 54 and xids()[n].action not in _QUIET}
_HARDWARE_XIDS = NVLINK_XIDS | _ECC_XIDS | _DEVICE_XIDS | {63, 64, 79, 94, 119, 120}

#: Counts since the driver was loaded, under the names that drivers have used.
_UNCORRECTABLE = (
    "Volatile/DRAM Uncorrectable",
    "Volatile/SRAM Uncorrectable",
    "Volatile/SRAM Uncorrectable Parity",
    "Volatile/SRAM Uncorrectable SEC-DED",
    "Volatile/Total Uncorrectable",
    "Volatile/Double Bit/Total",
)


def lines_by_xid(facts: Facts) -> dict[int, list[Said]]:
    """The lines of the kernel log that name an Xid, by its number."""
    found_lines: dict[int, list[Said]] = defaultdict(list)
    for said in facts.all("gpu.xid"):
        number = said.number("xid")
        if number is not None:
            found_lines[number].append(said)
    return found_lines


def place_of(said: Said) -> Subject:
    """The GPU that a line names, else its node."""
    host = host_of(said)
    return gpu(said["busid"].lower(), host) if said["busid"] else node(host)


def each_gpu(lines: list[Said]) -> Iterator[tuple[Subject, list[Said]]]:
    """The lines of each GPU, with the GPU."""
    by_gpu: dict[str, list[Said]] = defaultdict(list)
    for said in lines:
        by_gpu[f"{host_of(said)}/{said['busid']}"].append(said)
    for group in by_gpu.values():
        yield place_of(group[0]), group


@rule("GPU_XID_79", reads=("kernel log",))
def off_the_bus(facts: Facts, job: Job) -> Iterator[Finding]:
    """A GPU that no longer answers on PCIe, with or without a number in the log."""
    lines = lines_by_xid(facts)[79]
    for subject, group in each_gpu(lines):
        yield found("GPU_XID_79", group, subject=subject)
    gone = [s for s in facts.all("gpu.off_bus") if "Xid" not in s.text]
    if gone and not lines:
        named = facts.all("gpu.named")
        subject = place_of(named[0]) if named else CLUSTER
        yield found("GPU_XID_79", [*gone, *named, *facts.all("gpu.probe_failed")], subject=subject)


@rule("GPU_GSP_TIMEOUT", "GPU_ECC_UNCORRECTABLE", "GPU_XID_94_CONTAINED", reads=("kernel log",))
def telling_xids(facts: Facts, job: Job) -> Iterator[Finding]:
    """Xids that name their cause."""
    by_xid = lines_by_xid(facts)
    for code, numbers in (
        ("GPU_GSP_TIMEOUT", {119, 120}),
        ("GPU_ECC_UNCORRECTABLE", _ECC_XIDS),
        ("GPU_XID_94_CONTAINED", {94}),
    ):
        for subject, group in each_gpu([s for n in sorted(numbers) for s in by_xid[n]]):
            yield found(code, group, subject=subject)


@rule("GPU_ECC_UNCORRECTABLE", "GPU_XID_APP_FAULT", "GPU_FAULTY_DEVICE", reads=("kernel log",))
def amd_faults(facts: Facts, job: Job) -> Iterator[Finding]:
    """AMD's driver and runtime: memory errors, access faults of a program, and hangs that a reset ends."""
    for code, lines, sure, because in (
        ("GPU_ECC_UNCORRECTABLE", facts.all("amd.memory_error"), PROVEN, None),
        ("GPU_XID_APP_FAULT", facts.all("amd.access_fault"), LIKELY, None),
        ("GPU_FAULTY_DEVICE", facts.all("amd.reset", "amd.hang"), 0.6, Message("doctor.gpu_was_reset")),
    ):
        for subject, group in each_gpu(lines):
            yield found(code, group, sure=sure, subject=subject, because=because)


@rule("GPU_FAULTY_DEVICE", reads=("kernel log",))
def device_xids(facts: Facts, job: Job) -> Iterator[Finding]:
    """Xids by which the driver gives the GPU up, and that have no finding of their own."""
    by_xid = lines_by_xid(facts)
    for number in sorted(_DEVICE_XIDS):
        because = Message.of("doctor.xid_means", xid=number, meaning=xids()[number].meaning)
        for subject, group in each_gpu(by_xid[number]):
            yield found("GPU_FAULTY_DEVICE", group, sure=0.8, subject=subject, because=because)


@rule("GPU_ROW_REMAP_PENDING", "GPU_ROW_REMAP_FAILURE", reads=("kernel log", "nvidia-smi -q"))
def row_remaps(facts: Facts, job: Job) -> Iterator[Finding]:
    """Memory rows that wait for a reset, or can no longer be replaced; a past remap is healthy."""
    by_xid = lines_by_xid(facts)
    for code, ending, xid in (
        ("GPU_ROW_REMAP_FAILURE", "Remapping Failure Occurred", 64),
        ("GPU_ROW_REMAP_PENDING", "Remapped Rows/Pending", 63),
    ):
        proof: dict[str, list[Proof]] = defaultdict(list)
        subjects: dict[str, Subject] = {}
        for said in by_xid[xid]:
            subjects.setdefault(_short(said["busid"]), place_of(said))
            proof[_short(said["busid"])].append(said)
        for one in facts.gpus:
            place = one.find(ending)
            if place and place[0] == "Yes":
                subjects.setdefault(_short(one.busid), gpu(one.busid))
                proof[_short(one.busid)].append((one.file, place[1], f"GPU {one.busid}: {ending} : Yes"))
        for busid, lines in proof.items():
            yield found(code, lines, subject=subjects[busid])


def _short(busid: str) -> str:
    """Bus and device of an id, however much of its domain and function is printed: `07:00`."""
    return busid.lower().partition(".")[0][-5:]


@rule("GPU_XID_APP_FAULT", "GPU_FAULTY_DEVICE", "GPU_XID_45_FOLLOWON", reads=("kernel log",))
def application_xids(facts: Facts, job: Job) -> Iterator[Finding]:
    """Faults of the program, unless they stay with one GPU while the programs change."""
    by_xid = lines_by_xid(facts)
    follow = [s for n in (43, 45) for s in by_xid[n] if s["cause"]]
    if follow:
        yield found("GPU_XID_45_FOLLOWON", follow)
    own = [s for n in sorted(_APP_XIDS) for s in by_xid[n] if not s["cause"]]
    hardware = {s["busid"] for n in _HARDWARE_XIDS for s in by_xid[n]}
    groups = [(subject, [s for s in group if s["busid"] not in hardware]) for subject, group in each_gpu(own)]
    groups = [(subject, group) for subject, group in groups if group]
    for subject, group in groups:
        pids = {s["pid"] for s in group if s["pid"] and s["pid"] != "unknown"}
        started = [s for s in group if s.number("xid") in (13, 31)]
        if len(pids) >= 3 and started and len(groups) == 1:
            yield found(
                "GPU_FAULTY_DEVICE",
                group,
                sure=LIKELY,
                subject=subject,
                because=Message.of("doctor.one_gpu_many_processes", n=len(pids)),
            )
        elif started or not hardware:
            yield found("GPU_XID_APP_FAULT", group, subject=subject, sure=0.85)


@rule("GPU_THROTTLED_THERMAL", "GPU_THROTTLED_POWER", reads=("nvidia-smi -q",))
def throttled(facts: Facts, job: Job) -> Iterator[Finding]:
    """Clocks held down by heat or by power. A power cap at full draw on every GPU is how a busy GPU runs."""
    for one in facts.gpus:
        hot = [_active(one, reason) for reason in ("HW Thermal Slowdown", "SW Thermal Slowdown")]
        lines = [place for place in hot if place]
        if lines:
            temperature = one.find("GPU Current Temp")
            extra = (
                [(one.file, temperature[1], f"GPU {one.busid}: GPU Current Temp {temperature[0]}")]
                if temperature
                else []
            )
            yield found("GPU_THROTTLED_THERMAL", [*lines, *extra], subject=gpu(one.busid))
        brake = _active(one, "HW Power Brake Slowdown")
        if brake:
            yield found("GPU_THROTTLED_POWER", [brake], subject=gpu(one.busid))
        elif cap := _capped_low(one, facts.gpus):
            yield found("GPU_THROTTLED_POWER", cap, sure=LIKELY, subject=gpu(one.busid))


@rule("GPU_THROTTLED_POWER", "GPU_THROTTLED_THERMAL", reads=("kernel log", "shell"))
def told_of_throttling(facts: Facts, job: Job) -> Iterator[Finding]:
    """Xid 54, a power cable that is missing; and what DCGM's health check says of heat."""
    for subject, group in each_gpu(lines_by_xid(facts)[54]):
        yield found("GPU_THROTTLED_POWER", group, subject=subject)
    if hot := facts.all("gpu.thermal_violation"):
        yield found("GPU_THROTTLED_THERMAL", hot, sure=0.8)


#: Below this share of its busy siblings' clock a GPU is slow; from this temperature on it is hot. Ours.
_SLOW_CLOCK, _HOT_C = 0.75, 83.0


@rule("GPU_THROTTLED_THERMAL", "GPU_THROTTLED_POWER", reads=("nvidia-smi -q",))
def slow_clocks(facts: Facts, job: Job) -> Iterator[Finding]:
    """A GPU whose clock is far below that of its siblings while all are at work."""
    busy: dict[str, dict[str, list[SmiGpu]]] = defaultdict(lambda: defaultdict(list))
    for one in facts.gpus:
        if (one.real("Utilization/GPU", "Utilization/Gpu") or 0.0) >= 50 and one.real("Clocks/SM"):
            busy[one.file][one.busid].append(one)
    for by_gpu in busy.values():
        clocks = {bus: median(one.real("Clocks/SM") or 0.0 for one in every) for bus, every in by_gpu.items()}
        fastest = max(clocks.values())
        slow = [bus for bus, clock in clocks.items() if clock < _SLOW_CLOCK * fastest]
        for bus in slow if 2 * len(slow) <= len(clocks) else []:
            every = by_gpu[bus]
            hot = (
                max(one.real("Temperature/GPU Current Temp", "GPU Current Temp") or 0.0 for one in every)
                >= _HOT_C
            )
            because = Message.of("doctor.slow_clock", clock_Hz=clocks[bus] * 1e6, usual_Hz=fastest * 1e6)
            yield found(
                "GPU_THROTTLED_THERMAL" if hot else "GPU_THROTTLED_POWER",
                [(one.file, one.line, f"GPU {bus}: SM clock {one.text('Clocks/SM')}") for one in every[:3]],
                sure=LIKELY if hot else POSSIBLE,
                subject=gpu(bus),
                because=because,
            )


@rule("GPU_ECC_UNCORRECTABLE", "GPU_FAULTY_DEVICE", reads=("shell",))
def told_in_a_table(facts: Facts, job: Job) -> Iterator[Finding]:
    """The table of nvidia-smi: memory errors, a GPU that does not answer; and DCGM's health check."""
    for row in facts.all("gpu.table"):
        if "ERR!" in (row["name"], row["errors"]):
            because = Message("doctor.smi_error")
            yield found("GPU_FAULTY_DEVICE", [row], sure=LIKELY, subject=place_of(row), because=because)
        elif row.number("errors"):
            yield found("GPU_ECC_UNCORRECTABLE", [row], sure=0.75, subject=place_of(row))
    memory = facts.all("dcgm.health_memory")
    for line in (s for s in facts.all("dcgm.health") if s["status"] == "Failure"):
        code = "GPU_ECC_UNCORRECTABLE" if memory else "GPU_FAULTY_DEVICE"
        why = None if memory else Message("doctor.dcgm_health")
        yield found(code, [line, *memory], sure=0.75, subject=gpu(line["index"]), because=why)


@rule("GPU_ECC_UNCORRECTABLE", reads=("nvidia-smi -q",))
def volatile_errors(facts: Facts, job: Job) -> Iterator[Finding]:
    """Uncorrectable errors since the driver was loaded that no remapped row accounts for."""
    for one in facts.gpus:
        remapped = one.real("Remapped Rows/Uncorrectable Error") or 0
        waiting = one.text("Remapped Rows/Pending") == "Yes"
        for path in _UNCORRECTABLE:
            place = one.find(path)
            if place and not waiting and (one.real(path) or 0) > remapped:
                text = f"GPU {one.busid}: {path} : {place[0]}"
                subject = gpu(one.busid)
                yield found("GPU_ECC_UNCORRECTABLE", [(one.file, place[1], text)], subject=subject, sure=0.75)


def _active(one: SmiGpu, reason: str) -> tuple[str, int, str] | None:
    place = one.find(reason)
    return (
        (one.file, place[1], f"GPU {one.busid}: {reason} : Active")
        if place and place[0] == "Active"
        else None
    )


def _capped_low(one: SmiGpu, everyone: list[SmiGpu]) -> list[Place] | None:
    """A power cap although the draw is far below the limit, under load, and the siblings draw more."""
    cap = _active(one, "SW Power Cap")
    draw, limit = _power(one)
    if cap is None or not draw or not limit or draw > 0.7 * limit:
        return None
    if (one.real("Utilization/GPU", "Utilization/Gpu") or 100) < 50:
        return None
    others = [d for d, _ in map(_power, everyone) if d]
    if len(others) > 1 and max(others) < 1.3 * draw:
        return None
    place = one.find("Power Draw", "Instantaneous Power Draw", "Average Power Draw")
    return [
        cap,
        (one.file, place[1] if place else one.line, f"GPU {one.busid}: Power Draw {draw:g} W of {limit:g} W"),
    ]


def _power(one: SmiGpu) -> tuple[float | None, float | None]:
    return (
        one.real("Power Draw", "Instantaneous Power Draw", "Average Power Draw"),
        one.real("Current Power Limit", "Power Limit", "Enforced Power Limit"),
    )


@rule("GPU_MISSING", reads=("nvidia-smi -q", "shell", "kernel log"))
def missing(facts: Facts, job: Job) -> Iterator[Finding]:
    """A node that shows fewer GPUs than its siblings, or one that the driver cannot reach."""
    unreachable = facts.all("gpu.no_handle")
    if unreachable:
        yield found("GPU_MISSING", unreachable, subject=place_of(unreachable[0]))
    lost = facts.all("gpu.probe_failed")
    failed = facts.all("gpu.init_failed")
    if failed and not facts.has("gpu.off_bus", "gpu.probe_failed") and not lines_by_xid(facts)[79]:
        yield found("GPU_MISSING", failed, subject=place_of(failed[0]), sure=0.85)
    if short_of := facts.all("gpu.gres_short"):
        have, want = short_of[0].number("have") or 0, short_of[0].number("want") or 0
        yield found("GPU_MISSING", short_of, because=Message.of("doctor.fewer_gpus", n=have, usual=want))
    if lost and not facts.has("gpu.off_bus"):
        named = facts.all("gpu.named")
        yield found(
            "GPU_MISSING", [*named, *lost], subject=place_of(named[0]) if named else CLUSTER, sure=0.85
        )
    for product, counts in _counts(facts).items():
        most = max(count for count, _ in counts)
        short = [(count, place) for count, place in counts if count < most]
        if short and most >= 4:
            for count, place in short:
                because = Message.of("doctor.fewer_gpus", n=count, usual=most)
                yield found("GPU_MISSING", [place], because=because, sure=0.85)
        elif most in (3, 5, 7, 15) and re.search(r"SXM|HBM3|HGX|B200|B300", product):
            because = Message.of("doctor.fewer_gpus", n=most, usual=4 if most == 3 else 16 if most > 8 else 8)
            yield found("GPU_MISSING", [counts[0][1]], because=because, sure=LIKELY)


def _counts(facts: Facts) -> dict[str, list[tuple[int, Place]]]:
    """How many GPUs each answer shows, by product: only nodes of one kind can be compared."""
    counts: dict[str, list[tuple[int, Place]]] = defaultdict(list)
    for listing in _listings(facts):
        last = listing[-1]
        counts[last["name"]].append((len(listing), (last.file, last.line, last.text)))
    for summary in facts.smi:
        products = [one.text("Product Name") or "" for one in facts.gpus if one.file == summary.file]
        place = (summary.file, summary.line, f"Attached GPUs: {summary.attached}")
        if products and products[0] not in counts:
            counts[products[0]].append((summary.attached, place))
    sections = facts.all("k8s.section")
    for said in facts.all("k8s.gpus"):
        above = [s for s in sections if s.file == said.file and s.line < said.line]
        if above and above[-1]["name"].lower() not in ("capacity", "allocatable"):
            continue  # what a pod asks for, or what is in use
        counts["kubernetes"].append((said.number("count") or 0, (said.file, said.line, said.text)))
    return counts


def _listings(facts: Facts) -> list[list[Said]]:
    """The answers of `nvidia-smi -L`, or its table; a new one begins where the index falls back."""
    listings: list[list[Said]] = []
    before: tuple[str, int] = ("", 0)
    for said in facts.all("gpu.listed") or facts.all("gpu.row"):
        index = said.number("index") or 0
        if said.file != before[0] or index <= before[1]:
            listings.append([])
        listings[-1].append(said)
        before = (said.file, index)
    return listings


@rule("GPU_FAULTY_DEVICE", "GPU_THROTTLED_THERMAL", reads=("dcgmi diag",))
def diagnostics(facts: Facts, job: Job) -> Iterator[Finding]:
    """Tests of `dcgmi diag` that failed on a GPU."""
    for result in facts.diags:
        if result.status.lower() != "fail" or "NvLink link" in result.warning:
            continue
        hot = re.search(r"thermal|temperature|throttl", result.warning, re.IGNORECASE)
        place = (
            result.file,
            result.line,
            f"{result.test} on {result.entity}: {result.status}. {result.warning}",
        )
        number = result.entity.rpartition(" ")[2]
        yield found(
            "GPU_THROTTLED_THERMAL" if hot else "GPU_FAULTY_DEVICE",
            [place],
            sure=LIKELY,
            subject=gpu(number) if number.isdigit() else CLUSTER,
            because=None if hot else Message.of("doctor.diag_failed", test=result.test),
        )
