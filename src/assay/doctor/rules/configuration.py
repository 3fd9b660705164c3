"""Settings: variables left over or different between ranks, GPUs given twice, affinity, clocks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, PROVEN, Proof, found, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.formats.clock_text import remote_times
from assay.formats.sentences import Said

#: Variables that switch a transport off; they are for debugging.
_SWITCHED_OFF = ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE")
#: Variables that NCCL's guide calls experimental or advises against setting.
_FOR_EXPERIMENTS = frozenset(
    {
        "NCCL_LAUNCH_MODE",
        "NCCL_NTHREADS",
        "NCCL_LL_THRESHOLD",
        "NCCL_TREE_THRESHOLD",
        "NCCL_CHECKS_DISABLE",
        "NCCL_NET_DISABLE_INTRA",
        "NCCL_P2P_DIRECT_DISABLE",
        "NCCL_P2P_USE_CUDA_MEMCPY",
        "NCCL_IGNORE_DISABLED_P2P",
        "NCCL_LOCAL_REGISTER",
        "NCCL_WORK_FIFO_DEPTH",
    }
)
#: Variables that may differ between hosts for good reason.
_MAY_DIFFER = re.compile(
    r"NCCL_(?:SOCKET_IFNAME|DEBUG|TOPO|GRAPH|HOSTID|COMM_ID|IB_HCA|IB_GID_INDEX|.*FILE|.*PLUGIN)"
)


@rule("CFG_ENV_LEFTOVER", reads=("nccl log", "shell"))
def left_over(facts: Facts, job: Job) -> Iterator[Finding]:
    """Variables that switch a transport off or hold NCCL back, and were forgotten."""
    proof: list[Proof] = []
    names: list[str] = []
    weak: list[tuple[str, Proof]] = []
    for name, values in job.env.items():
        for value, said in values[:3]:
            place = said if said is not None else _in_command(facts, name)
            if place is None:
                continue
            if name in _SWITCHED_OFF and value not in ("0", ""):
                if name == "NCCL_IB_DISABLE" and job.multi_node is False:
                    continue
                if said is None and len(facts.runs) > 1:
                    continue  # set for one of several runs: a comparison
                proof.append(place)
                names.append(name)
            elif said is not None and _holds_back(name, value):
                weak.append((name, said))
    if proof:
        network = [c for c in facts.channels.values() if c.transport.startswith("NET")]
        yield found(
            "CFG_ENV_LEFTOVER",
            [*proof, *network[:1]],
            sure=0.85,
            because=Message.of("doctor.switched_off", names=", ".join(dict.fromkeys(names))),
        )
    elif weak:
        yield found(
            "CFG_ENV_LEFTOVER",
            [said for _, said in weak],
            sure=0.6,
            because=Message.of("doctor.held_back", names=", ".join(dict.fromkeys(n for n, _ in weak))),
        )


def _holds_back(name: str, value: str) -> bool:
    number = int(value) if value.isdigit() and len(value) < 12 else None
    if name in _FOR_EXPERIMENTS:
        return True
    if name in ("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"):
        return number is not None and number <= 2
    if name == "NCCL_P2P_LEVEL":
        return value.upper() in ("LOC", "0")
    if name == "NCCL_NVLS_ENABLE":
        return value == "0"
    if name == "NCCL_NET_GDR_LEVEL":
        return value in ("0", "LOC")
    if name == "NCCL_PROTO":
        return value.upper() in ("LL", "LL128", "SIMPLE")
    if name == "NCCL_BUFFSIZE":
        return number is not None and number < 2**20
    return name in ("NCCL_NET_GDR_READ", "NCCL_DMABUF_ENABLE", "NCCL_IB_TIMEOUT") and value == "0"


def _in_command(facts: Facts, name: str) -> tuple[str, int, str] | None:
    for command in facts.commands:
        if f"{name}=" in command.text:
            return command.file, command.line, command.text
    return None


@rule("CFG_ENV_MISMATCH_RANKS", reads=("nccl log",))
def differs_between_ranks(facts: Facts, job: Job) -> Iterator[Finding]:
    """Ranks that expect messages of different sizes, mostly because a variable is set on some hosts only."""
    by_host: dict[str, dict[str, Said]] = defaultdict(dict)
    for said in facts.all("nccl.env"):
        if not _MAY_DIFFER.match(said["name"]):
            by_host[said.host or ""][said["name"]] = said
    hosts = [h for h in job.hosts if any(s.host == h for s in facts.all("nccl.bootstrap"))]
    spoken = {host for host in hosts if by_host.get(host)}
    differing: list[Said] = []
    for name in sorted({name for own in by_host.values() for name in own}):
        values = {by_host[host][name]["value"] if name in by_host[host] else None for host in hosts}
        if len(values) > 1:
            differing += [by_host[host][name] for host in hosts if name in by_host[host]]
    sizes = [s for s in facts.all("nccl.size_mismatch") if "bootstrap" not in s.text]
    if sizes:
        yield found("CFG_ENV_MISMATCH_RANKS", [*differing[:2], *sizes], sure=PROVEN if differing else 0.75)
    elif differing and len(spoken) > 1 and len(spoken) == len(hosts):
        yield found("CFG_ENV_MISMATCH_RANKS", differing, sure=POSSIBLE)


@rule("CFG_DUPLICATE_GPU", "CFG_MIG_UNSUPPORTED", reads=("nccl log", "torch log", "shell"))
def one_gpu_twice(facts: Facts, job: Job) -> Iterator[Finding]:
    """Two ranks on one GPU; with MIG the slices share the bus id, and NCCL does not take them."""
    twice, mig = facts.all("nccl.duplicate_gpu"), facts.all("gpu.mig")
    enabled = [
        (g.file, place[1], f"GPU {g.busid}: MIG Mode Current : Enabled")
        for g in facts.gpus
        if (place := g.find("MIG Mode/Current")) and place[0] == "Enabled"
    ]
    if twice:
        yield found("CFG_DUPLICATE_GPU", twice)
        if mig or enabled:
            yield found("CFG_MIG_UNSUPPORTED", [*twice[:2], *mig[:2], *enabled[:2]])


@rule("CFG_CPU_AFFINITY", reads=("nccl log", "nvidia-smi topo"))
def affinity(facts: Facts, job: Job) -> Iterator[Finding]:
    """NCCL's threads may run on far fewer cores than the GPU's NUMA node has."""
    known = {
        row[3:]: (_cores(text), (t.file, t.lines[row], t.texts[row]))
        for t in facts.topologies
        for row, text in t.affinity.items()
        if row.startswith("GPU")
    }
    told = facts.all("nccl.affinity")
    widest: dict[tuple[str | None, str], int] = defaultdict(int)
    for said in told:
        key = (said.host, said["gpu"])
        widest[key] = max(widest[key], _allowed(said), known.get(said["gpu"], (0,))[0])
    narrow: list[Proof] = [
        s for s in told if 0 < _allowed(s) * 2 <= widest[s.host, s["gpu"]] or 0 < _allowed(s) <= 2
    ]
    bound = [s for s in facts.all("host.affinity") if 0 < _cores(s["list"]) <= 2]
    if bound and not narrow:
        yield found("CFG_CPU_AFFINITY", bound, sure=LIKELY)
    if narrow:
        wide: list[Proof] = [s for s in told if s not in narrow and _allowed(s) == widest[s.host, s["gpu"]]]
        places = [place for _, place in known.values()]
        yield found(
            "CFG_CPU_AFFINITY", [*narrow[:3], *wide[:1], *places[:1]], sure=0.8 if wide or known else LIKELY
        )


def _allowed(said: Said) -> int:
    """How many cores a mask of hexadecimal words allows, or a list of ranges (NCCL 2.27)."""
    if "-" in said["mask"]:
        return _cores(said["mask"])
    digits = said["mask"].replace(",", "")
    return bin(int(digits, 16)).count("1") if 0 < len(digits) < 600 else 0


def _cores(text: str) -> int:
    """`0-55,112-167` → 112; 0 for what is no list of cores."""
    total = 0
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            return 0
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return total


@rule("CFG_NUMA_BALANCING", reads=("shell", "nccl log"))
def numa_balancing(facts: Facts, job: Job) -> Iterator[Finding]:
    """The kernel moves pages under busy threads."""
    lines = [s for s in facts.all("cfg.numa_balancing") if s["value"] == "1"] + facts.all(
        "rccl.numa_balancing"
    )
    if lines:
        yield found("CFG_NUMA_BALANCING", lines, sure=LIKELY)


@rule("TIME_NOT_SYNCED", "TIME_CLOCK_SKEW", reads=("clock",))
def clocks(facts: Facts, job: Job) -> Iterator[Finding]:
    """A clock that follows nothing, or clocks of nodes that differ by more than a second."""
    local, unsynced = facts.all("clock.local_reference"), facts.all("clock.not_synchronised")
    recovered = facts.all("clock.refid") and facts.all("clock.refid")[-1]["refid"] not in (
        "7F7F0101",
        "7F000001",
        "00000000",
    )
    lost = [s for s in facts.clock_sources if not s.selected]
    if lost and not unsynced and not local:
        yield found("TIME_NOT_SYNCED", lost, sure=LIKELY)
    if unsynced or (local and not recovered):
        lines = [*unsynced, *local]
        yield found("TIME_NOT_SYNCED", lines, subject=node(lines[0].host))
    far = [s for s in facts.all("clock.offset") if _offset_s(s) > 1]
    told = facts.all("munge.clock", "clock.skew")
    if far or told:
        yield found("TIME_CLOCK_SKEW", [*far, *told], sure=PROVEN if far else LIKELY)
    elif spread := _dates(facts):
        yield found(
            "TIME_CLOCK_SKEW",
            spread[0],
            because=Message.of("doctor.dates_apart", apart_s=spread[1]),
            sure=0.8,
        )


def _offset_s(said: Said) -> float:
    if said["ns"]:
        return abs(float(said["ns"][:20])) / 1e9
    return abs(float(said["seconds"][:20])) if said["seconds"] else 0.0


def _dates(facts: Facts) -> tuple[list[Said], float] | None:
    """`date` run on several nodes at once; a spread of hours is a time zone."""
    for command in facts.commands:
        asked = remote_times(command.answer) if "date" in command.text else {}
        apart_s = max(asked.values()) - min(asked.values()) if len(asked) > 1 else 0.0
        if 1 < apart_s < 1800:
            text = "; ".join(line.strip() for line in command.answer[:6])
            return [Said(fact="clock.date", file=command.file, line=command.line, text=text)], apart_s
    seen = {said.host or said["host"]: said for said in facts.all("clock.date")}
    times = [int(s["h"]) * 3600 + int(s["m"]) * 60 + float(s["s"]) for s in seen.values()]
    if len(times) < 2:
        return None
    apart_s = max(times) - min(times)
    return (list(seen.values()), apart_s) if 1 < apart_s < 1800 else None
