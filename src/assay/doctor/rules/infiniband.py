"""InfiniBand and RoCE: ports, links, counters, completions, queue pairs, GIDs, MTU."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, PROVEN, Place, Proof, found, host_of, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import CLUSTER, Subject
from assay.formats.ib_tools import Port
from assay.formats.nccl_log import devices
from assay.formats.port_counters import Counters
from assay.formats.sentences import Said

#: Rate of one port of each adapter, by the model that ibstat prints.
_RATE_OF_MODEL_BPS = {
    "MT4115": 100e9 / 8,
    "MT4119": 100e9 / 8,
    "MT4121": 100e9 / 8,
    "MT4123": 200e9 / 8,
    "MT4129": 400e9 / 8,
    "MT4131": 800e9 / 8,
}
#: What a counter of 4, 8, 16 or 32 bits shows when it is full.
_FULL = (15, 255, 65535, 2**32 - 1)
_COUNTERS_4BIT = ("LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors")
#: Counters that tell of a bad link, and from which count on; the manual's thresholds of ibqueryerrors.
_ERRORS = {
    "SymbolErrorCounter": 10,
    "LinkErrorRecoveryCounter": 3,
    "LinkDownedCounter": 3,
    "PortRcvErrors": 10,
    "PortXmitDiscards": 100,
    "LocalLinkIntegrityErrors": 1,
    "ExcessiveBufferOverrunErrors": 1,
}

#: Most bit errors per bit after correction on a good link; IEEE 802.3 asks for 1e-12.
MOST_BER = 1e-12
#: Counters of a RoCE adapter that grow when packets are lost.
_LOSS = ("out_of_sequence", "packet_seq_err", "rx_discards_phy", "rx_icrc_encapsulated")


def _place(port: Port, line: int, text: str) -> tuple[str, int, str]:
    return port.file, line or port.line, f"{port.device} port {port.port}: {text}"


@rule("IB_PORT_DOWN", "IB_LINK_RATE_LOW", reads=("ibstat", "iblinkinfo", "shell"))
def ports(facts: Facts, job: Job) -> Iterator[Finding]:
    """A port against its siblings of the same model and number, and against what its model can do."""
    data = [p for p in facts.ports if (p.link_layer or "InfiniBand") == "InfiniBand" and p.state]
    up = [p for p in data if p.state is not None and p.state.lower().startswith("active")]
    numbers_up = {p.port for p in up}
    for port in data:
        down = (port.state or "").lower().startswith("down")
        # Beside ports that are up, one without a cable is told by its number; where none is up, that is it.
        if (
            down
            and (port.port in numbers_up or not up)
            and re.search("Polling|Disabled|Sleep", port.physical or "Polling")
        ):
            yield found(
                "IB_PORT_DOWN",
                [_place(port, port.state_line, f"State: Down, Physical state: {port.physical}")],
                sure=PROVEN if up else LIKELY,
                subject=Subject("port", f"{port.device}[{port.port}]"),
            )
    waiting = [p for p in data if (p.state or "").lower().startswith("init")]
    for port in waiting:
        yield found(
            "IB_PORT_DOWN",
            [_place(port, port.state_line, f"State: {port.state}, Physical state: {port.physical}")],
            subject=Subject("port", f"{port.device}[{port.port}]"),
            sure=0.8,
            because=Message.of("doctor.port_without_manager"),
        )
    netdevs = [s for s in facts.all("ib.netdev") if s["iface"].startswith("ib")]
    off = [s for s in netdevs if s["state"] == "Down"]
    if off and len(off) < len(netdevs) and not data:
        for said in off:
            yield found(
                "IB_PORT_DOWN", [said], sure=0.8, subject=Subject("port", f"{said['dev']}[{said['port']}]")
            )
    yield from _slow_ports(up)
    for link in facts.links:
        if link.is_adapter and not link.up:
            yield found(
                "IB_PORT_DOWN", [link], sure=0.85, subject=Subject("port", f"{link.owner}[{link.port}]")
            )
        elif link.up and link.could_be:
            yield found(
                "IB_LINK_RATE_LOW",
                [link],
                subject=Subject("port", f"{link.owner}[{link.port}]"),
                because=Message.of("doctor.link_could_be", could_be=link.could_be),
            )


def _slow_ports(up: list[Port]) -> Iterator[Finding]:
    groups: dict[str | None, list[Port]] = defaultdict(list)
    for port in up:
        groups[port.model].append(port)
    for model, group in groups.items():
        rates = [p.rate_Bps for p in group if p.rate_Bps]
        if not rates:
            continue
        usual = Counter(rates).most_common(1)[0][0]
        able = _RATE_OF_MODEL_BPS.get(model or "", 0.0)
        slow = [p for p in group if p.rate_Bps and p.rate_Bps < max(rates) * 0.99]
        if slow and len(slow) < len(group) and usual == max(rates):
            for port in slow:
                yield found(
                    "IB_LINK_RATE_LOW",
                    [_place(port, port.rate_line, f"Rate: {port.rate_text}")],
                    subject=Subject("port", f"{port.device}[{port.port}]"),
                    because=Message.of("doctor.port_below_siblings", rate_Bps=port.rate_Bps, usual_Bps=usual),
                )
        elif usual < able * 0.99:
            yield found(
                "IB_LINK_RATE_LOW",
                [_place(p, p.rate_line, f"Rate: {p.rate_text}") for p in group],
                sure=0.85,
                because=Message.of(
                    "doctor.port_below_model", rate_Bps=usual, able_Bps=able, model=model or ""
                ),
            )


@rule("IB_LINK_RATE_LOW", reads=("ibnetdiscover",))
def slow_cables(facts: Facts, job: Job) -> Iterator[Finding]:
    """Cables of adapters, and those between switches, against the others of their kind."""
    for cabling in facts.cablings:
        adapters = {device.name for device in cabling.devices if device.adapter}
        for of_adapters in (True, False):
            cables = [
                c for c in cabling.cables if c.Bps and (c.a in adapters or c.b in adapters) is of_adapters
            ]
            usual, count = Counter(c.Bps for c in cables).most_common(1)[0] if cables else (None, 0)
            for cable in cables if usual and count * 2 > len(cables) else ():
                if cable.Bps and usual and cable.Bps < usual:
                    ends = f"{cable.a}[{cable.a_port}] to {cable.b}[{cable.b_port}]: {cable.rate}"
                    because = Message.of("doctor.port_below_siblings", rate_Bps=cable.Bps, usual_Bps=usual)
                    subject = Subject("port", f"{cable.a}[{cable.a_port}]")
                    place = (cabling.file, cable.line, ends)
                    yield found("IB_LINK_RATE_LOW", [place], subject=subject, because=because)


@rule("IB_LINK_ERRORS", "IB_COUNTER_SATURATED", "IB_CONGESTION", "ROCE_LOSSY", reads=("port counters",))
def counters(facts: Facts, job: Job) -> Iterator[Finding]:
    """Error counters of ports. A full counter is no rate, and waiting alone is no fault."""
    bad: list[Place] = []
    full: list[Place] = []
    worst = CLUSTER
    for port in facts.counters:
        for name, (value, line) in port.values.items():
            place = (port.file, line, f"{port.port}: {name} = {value}")
            if value in _FULL[1:] or (value == _FULL[0] and name in _COUNTERS_4BIT):
                full.append(place)
            elif value >= _ERRORS.get(name, 2**64) and "[ALL]" not in port.port:
                bad.append(place)
                worst = Subject("port", port.port) if worst is CLUSTER and port.source != "sysfs" else worst
    if full:
        yield found("IB_COUNTER_SATURATED", full)
    if bad:
        yield found("IB_LINK_ERRORS", bad, sure=0.85, subject=worst)
    told = facts.all("ib.fabric_error") + [s for s in facts.all("ib.ber") if float(s["ber"][:12]) > MOST_BER]
    if told:
        yield found("IB_LINK_ERRORS", told, sure=0.8)
    lost = [
        (port.file, line, f"{port.port}: {name} = {value}")
        for port in facts.counters
        for name, (value, line) in port.values.items()
        if name in _LOSS and value >= 1000
    ]
    if lost:
        yield found("ROCE_LOSSY", lost, sure=LIKELY, because=Message("doctor.counted_loss"))
    yield from _waiting(facts.counters)


def _waiting(samples: list[Counters]) -> Iterator[Finding]:
    """Two samples of one port: waiting that grows faster than a tenth of the data sent is congestion."""
    first: dict[str, Counters] = {}
    for sample in samples:
        before = first.setdefault(sample.port, sample)
        if before is sample or before.source != "perfquery":
            continue
        grown = {
            name: sample.values[name][0] - before.values[name][0]
            for name in ("PortXmitWait", "PortXmitData")
            if name in sample.values and name in before.values
        }
        wait, data = grown.get("PortXmitWait", 0), grown.get("PortXmitData", 0)
        if len(grown) == 2 and data > 0 and wait > data * 0.1:
            line = sample.values["PortXmitWait"][1]
            yield found(
                "IB_CONGESTION",
                [(sample.file, line, f"{sample.port}: PortXmitWait +{wait}, PortXmitData +{data}")],
                sure=LIKELY,
                subject=Subject("port", sample.port),
            )


#: Events of verbs that tell of the port or the adapter; others tell of a queue pair, or of something new.
_PORT_LOST = re.compile(
    r"port error|PORT_ERR|catastrophic|fatal error|DEVICE_FATAL|client reregistration", re.IGNORECASE
)


@rule("IB_LINK_FLAP", reads=("nccl log", "kernel log"))
def flap(facts: Facts, job: Job) -> Iterator[Finding]:
    """A port that went down while the job ran; a link that comes up at boot is no flap."""
    events = [s for s in facts.all("ib.async_event") if _PORT_LOST.search(s["event"])]
    events += facts.all("ib.device_failed")
    down = facts.all("nic.link_down")
    if events or down:
        hosts = {host for s in (events or down) if (host := host_of(s))}
        yield found("IB_LINK_FLAP", [*events, *down], subject=node(hosts.pop() if len(hosts) == 1 else None))


@rule("IB_RETRY_EXCEEDED", "IB_WC_LOC_PROT_ERR", "IB_FLUSH_FOLLOWON", "PCIE_ACS_ENABLED", reads=("nccl log",))
def completions(facts: Facts, job: Job) -> Iterator[Finding]:
    """The first completion that failed by itself. Status 5 (vendor 249) only says that another one failed."""
    lines = facts.all("ib.completion")
    status = {id(s): s.number("status") for s in lines}
    flushed = [s for s in lines if status[id(s)] == 5]
    protection = [s for s in lines if status[id(s)] == 4]
    retry = [s for s in lines if status[id(s)] == 12]
    if protection:
        yield found("IB_WC_LOC_PROT_ERR", protection, sure=LIKELY)
        gdr = [c for c in facts.channels.values() if c.gdr]
        yield found(
            "PCIE_ACS_ENABLED",
            [*protection[:3], *gdr[:1]],
            sure=LIKELY + (0.05 if gdr else 0.0),
            because=Message.of("doctor.acs_by_completion"),
        )
    if retry:
        host, peer, votes = _accused(retry, job)
        yield found(
            "IB_RETRY_EXCEEDED",
            retry,
            sure=POSSIBLE + 0.05,
            subject=host,
            because=Message.of(
                "doctor.retry_at_start" if not job.completed else "doctor.retry_later",
                peer=peer,
                votes=votes,
                n=len(retry),
            ),
        )
    if flushed:
        alone = not (protection or retry)
        yield found("IB_FLUSH_FOLLOWON", flushed, sure=LIKELY if alone else PROVEN)


@rule("IB_RETRY_EXCEEDED", reads=("nccl log",))
def ucx_retries(facts: Facts, job: Job) -> Iterator[Finding]:
    """The same as UCX, under Open MPI and others, puts it."""
    if lines := facts.all("ucx.retry"):
        because = Message.of("doctor.ucx_retry", hca=lines[0]["hca"])
        yield found(
            "IB_RETRY_EXCEEDED", lines, sure=POSSIBLE, subject=node(lines[0]["node"]), because=because
        )


def _accused(retry: list[Said], job: Job) -> tuple[Subject, str, int]:
    """A sender reports, but peer or path may be guilty: the end that most queue pairs have in common."""
    peers = Counter(s["peer"] for s in retry if s["peer"])
    senders = Counter(s.host for s in retry if s.host)
    peer, votes = peers.most_common(1)[0] if peers else ("", 0)
    name = job.host_of(peer) or peer
    if name and len({s.host for s in retry if s["peer"] == peer}) > 1:
        return node(name), name, votes
    if len(senders) == 1 and len(peers) > 1:
        return node(next(iter(senders))), next(iter(senders)), sum(senders.values())
    sender = next(iter(senders), None)
    if name and sender and name != sender and "|" not in name + sender:
        return Subject("pair", f"{sender}|{name}"), name, votes
    return node(name or sender), name, votes


@rule("ROCE_GID_INDEX", reads=("nccl log", "show_gids"))
def wrong_gid(facts: Facts, job: Job) -> Iterator[Finding]:
    """A link-local or RoCE v1 GID is in use on RoCE, and the queue pairs fail."""
    failures = [s for s in facts.all("ib.completion") if s.number("status") == 12]
    invalid = [s for s in facts.all("ib.modify_qp") if s["errno"] == "22" or "Invalid argument" in s["error"]]
    if not job.roce or not (failures or invalid or facts.has("job.silent")):
        return
    used = {s.number("gid_index") for s in facts.all("nccl.qp")} | {
        s.number("gid_index") for s in facts.all("ib.modify_qp")
    }
    used |= {int(v) for v, _ in job.env.get("NCCL_IB_GID_INDEX", ()) if v.isdigit() and len(v) < 5}
    proof: list[Proof] = []
    proof += [s for s in facts.all("nccl.qp") if s["gid"].upper().startswith("80FE")]
    proof += [s for s in failures if s["local_gid"].lower().startswith("fe80")]
    chosen = bool(job.env.get("NCCL_IB_GID_INDEX"))
    proof += [s for s in invalid if s["local"].lower().startswith("fe80") or s["gid_index"] or chosen]
    proof += [
        (g.file, g.line, g.text)
        for g in facts.gids
        if g.index in used and (g.version == "v1" or g.gid.startswith("fe80"))
    ]
    if proof:
        better = next(((g.file, g.line, g.text) for g in facts.gids if g.version == "v2" and g.ipv4), None)
        env = [said for _, said in job.env.get("NCCL_IB_GID_INDEX", ()) if said is not None]
        yield found("ROCE_GID_INDEX", [*proof[:3], *env[:1], *failures[:1], *([better] if better else [])])


@rule("ROCE_MTU_MISMATCH", reads=("nccl log", "ibstat", "shell"))
def mtu(facts: Facts, job: Job) -> Iterator[Finding]:
    """Adapters with different MTU, where connections fail or NCCL itself uses both."""
    failures = [s for s in facts.all("ib.completion") if s.number("status") == 12]
    qps = {s["mtu"]: s for s in facts.all("nccl.qp")}
    ports_by = {p.mtu: (p.file, p.mtu_line, f"{p.device}: active_mtu {p.mtu}") for p in facts.ports if p.mtu}
    nets = {
        s["mtu"]: s
        for s in facts.all("net.mtu")
        if s["iface"] != "lo" and not s["iface"].startswith(("docker", "veth", "br-"))
    }
    differ: list[list[Proof]] = [list(group.values()) for group in (qps, ports_by, nets) if len(group) > 1]
    if differ and (len(qps) > 1 or failures):
        lines: list[Proof] = [line for group in differ for line in group]
        yield found("ROCE_MTU_MISMATCH", [*lines[:5], *failures[:1]], sure=PROVEN if failures else LIKELY)


@rule("IB_CROSS_RAIL_UNREACHABLE", "IB_CABLE_PAIRING", "ROCE_NO_ROUTE", reads=("nccl log",))
def queue_pairs(facts: Facts, job: Job) -> Iterator[Finding]:
    """Queue pairs that cannot be set up: no route, or two ends on networks that do not meet."""
    direct = any(s["bits"] in ("30", "31") for s in facts.all("net.address"))
    for said in facts.all("ib.modify_qp"):
        error = f"{said['errno']} {said['error']}".lower()
        if "unreachable" in error or "no route to host" in error or said["errno"] in ("101", "113"):
            yield found("ROCE_NO_ROUTE", facts.all("ib.modify_qp"), subject=node(said.host))
            return
        if "timed out" not in error and said["errno"] != "110":
            continue
        ends = _ipv4(said["local"]), _ipv4(said["remote"])
        if None not in ends and _far_apart(str(ends[0]), str(ends[1])):
            code = "IB_CABLE_PAIRING" if direct else "IB_CROSS_RAIL_UNREACHABLE"
            yield found(
                code,
                facts.all("ib.modify_qp"),
                subject=node(said.host),
                because=Message.of("doctor.rails_apart", local=str(ends[0]), remote=str(ends[1])),
            )
            return
        yield found(
            "IB_RETRY_EXCEEDED",
            facts.all("ib.modify_qp"),
            sure=POSSIBLE,
            subject=node(said.host),
            because=Message.of("doctor.qp_timeout"),
        )
        return


def _ipv4(gid: str) -> str | None:
    """The IPv4 address in a RoCE v2 GID, or None."""
    try:
        parsed = ipaddress.ip_address(gid)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else parsed
    return str(mapped) if mapped else None


def _far_apart(first: str, second: str) -> bool:
    return first.rsplit(".", 1)[0] != second.rsplit(".", 1)[0]


@rule("IB_HCA_SET_MISMATCH", reads=("nccl log",))
def different_adapters(facts: Facts, job: Job) -> Iterator[Finding]:
    """Hosts of one job that use different adapters, or adapters that cannot talk to one another."""
    by_host: dict[str, tuple[frozenset[tuple[str, str]], Said]] = {}
    for said in facts.all("nccl.ib_devices"):
        if said.host:
            by_host[said.host] = (frozenset(devices(said["devices"])), said)
    told = facts.all("ib.open_failed", "nccl.net_mismatch", "nccl.ib_incompatible")
    sets = {listed for listed, _ in by_host.values()}
    if told or len(sets) > 1:
        lines = [said for _, said in by_host.values()]
        yield found("IB_HCA_SET_MISMATCH", [*told, *lines], sure=PROVEN if told else 0.8)


@rule("IB_RELAXED_ORDERING_FORCED", reads=("shell",))
def relaxed_ordering(facts: Facts, job: Job) -> Iterator[Finding]:
    """The adapter's firmware forces relaxed ordering on every write."""
    lines = [s for s in facts.all("mlx.relaxed_ordering") if "force" in s["value"].lower()]
    if lines:
        yield found("IB_RELAXED_ORDERING_FORCED", lines)
