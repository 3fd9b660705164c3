"""Sockets, interfaces and bootstrap: which way the job talks between its nodes, and why not another."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterator

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, POSSIBLE, PROVEN, found, node, rule
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.subject import CLUSTER
from assay.formats.nccl_log import Channel, interfaces
from assay.formats.sentences import Said

_VIRTUAL = re.compile(
    r"^(?:lo$|docker|veth|br-|virbr|cni|flannel|cali|tun|tap|kube|cilium|lxc|vnet|podman|tailscale|wg\d|zt|"
    r"idrac|nodelocaldns|dummy|ovs-|azv)"
)
_NO_ROUTE_HOME = (
    ipaddress.ip_network("127.0.0.0/8"),
    ipaddress.ip_network("169.254.0.0/16"),
    ipaddress.ip_network("172.17.0.0/24"),  # where Docker begins
)


@rule("NET_SOCKET_FALLBACK", "NET_IBVERBS_MISSING", reads=("nccl log",))
def sockets_between_nodes(facts: Facts, job: Job) -> Iterator[Finding]:
    """TCP between nodes although RDMA was to be expected; on one node the same lines are noise."""
    sockets = [s for s in facts.all("nccl.network") if s["network"] == "Socket" and s.host not in job.alone]
    over = [c for c in facts.channels.values() if c.transport == "NET/Socket"]
    if not job.multi_node or not (sockets or over) or job.is_set("NCCL_IB_DISABLE", "1"):
        return
    missing = facts.all("nccl.ibverbs_missing")
    if missing:
        yield found("NET_IBVERBS_MISSING", [*missing, *sockets[:1], *over[:2]], sure=PROVEN)
    none = [s for s in facts.all("nccl.ib_none") if s.host not in job.alone]
    plugin = [s for s in facts.all("nccl.plugin") if s.host not in job.alone]
    if none or plugin or missing:
        yield found(
            "NET_SOCKET_FALLBACK",
            [*none[:2], *sockets[:2], *over[:2], *plugin[:1]],
            sure=PROVEN if plugin and none else LIKELY,
        )


@rule("NET_EFA_NOT_USED", reads=("nccl log",))
def efa_not_used(facts: Facts, job: Job) -> Iterator[Finding]:
    """The OFI plugin chose a provider that goes through the kernel."""
    slow = [s for s in facts.all("ofi.provider") if re.match(r"(?:tcp|sockets|udp|shm|net)\b", s["provider"])]
    failed = facts.all("ofi.failed")
    if slow or (failed and not facts.all("ofi.provider")):
        yield found("NET_EFA_NOT_USED", [*slow, *failed, *facts.all("nccl.network")[:1]])


@rule("NET_WRONG_IFACE", reads=("nccl log",))
def wrong_interface(facts: Facts, job: Job) -> Iterator[Finding]:
    """NCCL set itself up on an interface that other nodes cannot reach."""
    chosen = [(s, s["iface"], s["addr"]) for s in facts.all("nccl.bootstrap")]
    sockets = [c for c in facts.channels.values() if c.transport == "NET/Socket"]
    over = {c.host for c in sockets}
    if bridged := _to_own_bridge(facts):
        yield found("NET_WRONG_IFACE", bridged, sure=0.85, subject=node(bridged[0].host))
        return
    # Where it was set up and the data goes another way, the interface does its work.
    bad = [
        s
        for s, iface, addr in chosen
        if (_VIRTUAL.match(iface) or _local_only(addr))
        and s.host not in job.alone
        and (s.host not in job.done or s.host in over)
    ]
    if not bad or job.multi_node is False:
        return
    only_loopback = all(s["iface"] == "lo" for s in bad)
    done = all(s.host in job.done for s in bad)
    if job.multi_node:
        yield found("NET_WRONG_IFACE", bad, sure=0.6 if done else PROVEN)
    elif not done:
        yield found("NET_WRONG_IFACE", bad, sure=0.5 if only_loopback else LIKELY)


def _to_own_bridge(facts: Facts) -> list[Said]:
    """Failed connections to an address that some host uses as that of a virtual interface, with its line."""
    bridges: dict[str, Said] = {}
    for said in facts.all("nccl.socket_devices"):
        bridges.update({a: said for name, a in interfaces(said["devices"]) if _VIRTUAL.match(name)})
    failed = [s for s in facts.all("net.connect_failed") if s["addr"] in bridges]
    return [*failed, bridges[failed[0]["addr"]]] if failed else []


def _local_only(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address.split("%")[0])
    except ValueError:
        return False
    return parsed.version == 4 and any(parsed in network for network in _NO_ROUTE_HOME)


@rule("NET_FIREWALL", "RANK_LOST", reads=("nccl log", "torch log"))
def blocked(facts: Facts, job: Job) -> Iterator[Finding]:
    """Connections that are dropped or rejected on their way. "Refused" alone means that nobody listens."""
    failed = facts.all("net.connect_failed")
    lines = [s for s in failed if "refused" not in s.text]
    if lines:
        own = [s for s in lines if s["addr"] and s["addr"] in job.addresses.get(s.host or "", set())]
        yield found("NET_FIREWALL", [*own, *lines], sure=0.8, subject=node(lines[0].host))
        return
    if given_up := [s for s in failed if " WARN " in s.text]:
        peers = sorted({s["addr"] for s in given_up if s["addr"]})
        because = Message.of("doctor.nobody_listens", peers=", ".join(peers[:3]) or "a peer")
        subject = node(job.host_of(peers[0]) or peers[0]) if len(peers) == 1 else CLUSTER
        yield found("RANK_LOST", given_up, sure=POSSIBLE, subject=subject, because=because)
        yield found("NET_FIREWALL", given_up, sure=POSSIBLE - 0.1)
        return
    if missing := facts.all("c10d.clients_missing"):
        here, wanted = missing[0].number("here") or 0, missing[0].number("all") or 0
        because = Message.of("doctor.clients_missing", n=wanted - here, all=wanted)
        yield found("RANK_LOST", missing, sure=POSSIBLE, because=because)
        yield found("NET_FIREWALL", missing, sure=POSSIBLE - 0.1)
        return
    store = facts.all("c10d.no_route", "c10d.store_timeout")
    if store:
        yield found("NET_FIREWALL", store, sure=LIKELY if facts.has("c10d.no_route") else POSSIBLE)


@rule("NET_HOSTNAME_COLLISION", reads=("nccl log",))
def one_name_for_two_nodes(facts: Facts, job: Job) -> Iterator[Finding]:
    """Two nodes with one name: NCCL then takes their GPUs for neighbours and tries P2P or shared memory."""
    by_host: dict[tuple[str, str], dict[str, Said]] = defaultdict(dict)
    for said in facts.all("nccl.bootstrap"):
        by_host[said.host or "", said["iface"]][said["addr"]] = said
    for (host, _), addresses in by_host.items():
        if len(addresses) > 1:
            yield found(
                "NET_HOSTNAME_COLLISION",
                list(addresses.values()),
                sure=PROVEN,
                subject=node(host),
                because=Message.of(
                    "doctor.one_name_many_addresses", host=host, addresses=", ".join(addresses)
                ),
            )
            return
    same_gpu: dict[tuple[str, str, str], Said] = {}
    for said in facts.all("nccl.comm"):
        key = (said.host or "", said["busid"], said["id"])
        other = same_gpu.setdefault(key, said)
        if (
            said["busid"]
            and said["id"]
            and other["rank"] != said["rank"]
            and not facts.has("nccl.duplicate_gpu")
        ):
            yield found("NET_HOSTNAME_COLLISION", [other, said], sure=LIKELY, subject=node(said.host))
            return
    if shared := _two_of_one_device(facts):
        yield found("NET_HOSTNAME_COLLISION", shared, sure=0.8)
        return
    if "localhost" in job.hosts and facts.has("net.connect_failed", "net.remote_closed"):
        lines = [s for s in facts.all("net.connect_failed", "nccl.bootstrap") if s.host == "localhost"]
        yield found("NET_HOSTNAME_COLLISION", lines, sure=0.85)


def _two_of_one_device(facts: Facts) -> list[Channel]:
    """Ranks joined by P2P or shared memory are on one node: two of them cannot have the same device.

    Where every rank shows the same device, each process sees only its own, and nothing follows.
    """
    leader: dict[int, int] = {}

    def root(rank: int) -> int:
        while leader.setdefault(rank, rank) != rank:
            rank = leader[rank]
        return rank

    local = [c for c in facts.channels.values() if c.transport.startswith(("P2P", "SHM"))]
    device_of: dict[int, str] = {}
    for channel in local:
        leader[root(channel.src)] = root(channel.dst)
        device_of.update({channel.src: channel.src_device, channel.dst: channel.dst_device})
    if len(set(device_of.values())) < 2 or any("MNNVL" in c.transport for c in local):
        return []
    seen: dict[tuple[int, str], int] = {}
    for rank, device in device_of.items():
        other = seen.setdefault((root(rank), device), rank)
        if other != rank:
            return [c for c in local if {c.src, c.dst} & {rank, other}]
    return []


@rule("NET_MULTINIC_SAME_SUBNET", reads=("nccl log", "shell"))
def nics_in_one_subnet(facts: Facts, job: Job) -> Iterator[Finding]:
    """Two data interfaces of one host in one prefix: Linux answers on one of them for both."""
    groups: dict[tuple[str, str], dict[str, tuple[str, int, str]]] = defaultdict(dict)
    for said in facts.all("net.address"):
        if not _VIRTUAL.match(said["iface"]) and not said["iface"].startswith("ib"):
            prefix = _prefix(said["addr"], said["bits"])
            groups[said.file, prefix][said["iface"]] = (said.file, said.line, said.text)
    for iface, prefix, said in _configured(facts):
        if not _VIRTUAL.match(iface) and not iface.startswith("ib"):
            groups[said.file, prefix][iface] = (said.file, said.line, said.text)
    for gid in facts.gids:
        if gid.ipv4:
            groups[gid.file, _prefix(gid.ipv4, "24")][gid.device] = (gid.file, gid.line, gid.text)
    for said in facts.all("nccl.socket_devices"):
        for name, address in interfaces(said["devices"]):
            if not _VIRTUAL.match(name) and not name.startswith("ib") and ":" not in address:
                groups[said.host or said.file, _prefix(address, "24")][name] = (
                    said.file,
                    said.line,
                    said.text,
                )
    trouble = facts.has("ib.completion", "ib.modify_qp", "net.connect_failed", "job.silent") or facts.runs
    for (_, prefix), names in groups.items():
        if prefix and len(names) > 1:
            yield found(
                "NET_MULTINIC_SAME_SUBNET",
                names.values(),
                sure=0.8 if trouble else 0.6,
                because=Message.of("doctor.one_subnet", prefix=prefix, interfaces=", ".join(sorted(names))),
            )
            return


def _configured(facts: Facts) -> Iterator[tuple[str, str, Said]]:
    """(interface, prefix, line) of `ip route` and of `ifconfig`, which names the interface a line earlier."""
    for said in facts.all("net.route"):
        yield said["iface"], _prefix(said["net"], said["bits"]), said
    heads = facts.all("net.flags")
    for said in facts.all("net.netmask"):
        above = [h for h in heads if h.file == said.file and h.line < said.line]
        try:
            prefix = str(ipaddress.ip_network(f"{said['addr']}/{said['mask']}", strict=False))
        except ValueError:
            continue
        if above:
            yield above[-1]["iface"], prefix, said


def _prefix(address: str, bits: str) -> str:
    try:
        return str(ipaddress.ip_network(f"{address}/{bits}", strict=False)) if int(bits[:3]) < 32 else ""
    except ValueError:
        return ""
