"""Bytes that the devices of a machine have sent, and what was sent between two looks at them.

RDMA ports count under several names, and not everywhere: InfiniBand and RoCE adapters in words of four bytes,
AWS EFA and others in bytes below `hw_counters`, and inside a container's own network namespace often not at
all, where the adapter's Ethernet interface may still tell. Of a port that counts in several ways the one that
moved most is believed: a counter that stands still belongs to a driver that does not keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.domain.attestation import Counted
from assay.probe.ethtool import statistics_of
from assay.probe.files import Roots, entries, read

_WORDS = "counters/port_xmit_data"
_WORD_BYTES = 4
#: Where a counter of 32 bits stops instead of going on from zero.
#: Source: InfiniBand Architecture Specification, PortCounters attribute.
_FULL_WORDS = 2**32 - 1
#: Each is a way in which a port counts what it has sent: files whose sum is in bytes.
#: Source: drivers efa (efa_verbs.c), bnxt_re (hw_counters.c) and mlx5 (counters.c) of Linux.
_BYTES = (
    ("hw_counters/tx_bytes",),
    ("hw_counters/rdma_tx_bytes",),
    ("hw_counters/send_bytes", "hw_counters/rdma_write_bytes", "hw_counters/rdma_read_resp_bytes"),
)
#: RDMA bytes of an mlx5 function by its Ethernet interface.
#: Source: Linux, Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst.
_VPORT = "tx_vport_rdma_unicast_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """One device that sends, and its counts in bytes so far by the name of the counter.

    `over` is `rdma` or `netdev`; `reason` says why there are no counts.
    """

    over: str
    device: str
    counts: tuple[tuple[str, int], ...]
    reason: str = ""


def active_ports(roots: Roots) -> list[Path]:
    """The folders of RDMA ports that are up; one that is down is no way for anything."""
    return [
        port
        for adapter in entries(roots.sys / "class/infiniband")
        for port in entries(adapter / "ports")
        if "ACTIVE" in (read(port / "state").text or "")
    ]


def senders(roots: Roots) -> tuple[Sender, ...]:
    """Active RDMA ports, as `mlx5_0/1`, and network devices that stand on no other, without the loopback."""
    return (*map(_port, active_ports(roots)), *_netdevs(roots))


def sent_between(before: Sequence[Sender], after: Sequence[Sender]) -> tuple[Counted, ...]:
    """What each device sent meanwhile, or why that is not known."""
    then = {(sender.over, sender.device): sender for sender in before}
    now = {(sender.over, sender.device): sender for sender in after}
    return tuple(_between(then.get(key), now.get(key)) for key in dict.fromkeys((*then, *now)))


def _port(port: Path) -> Sender:
    counts = [(_WORDS, words)] if (words := _whole(port / _WORDS)) is not None else []
    for files in _BYTES:
        values = [_whole(port / file) for file in files]
        if None not in values:
            counts.append((" + ".join(files), sum(value or 0 for value in values)))
    interface = next((name for f in entries(port / "gid_attrs/ndevs") if (name := read(f).text)), None)
    if not counts and interface and (sent := statistics_of(interface).get(_VPORT)) is not None:
        counts.append((f"ethtool -S {interface}: {_VPORT}", sent))
    reason = "" if counts else "the port shows no counter of bytes: hidden in a container, or not kept"
    device = f"{port.parents[1].name}/{port.name}"
    return Sender(over="rdma", device=device, counts=tuple(counts), reason=reason)


def _netdevs(roots: Roots) -> list[Sender]:
    """As this network namespace counts them. Bonds, bridges and VLANs stand on others, which count too."""
    file = roots.proc / "self/net/dev"
    found = []
    for line in (read(file).text or "").splitlines()[2:]:
        name, _, fields = line.partition(":")
        name, columns = name.strip(), fields.split()
        stacked = any(e.name.startswith("lower_") for e in entries(roots.sys / "class/net" / name))
        if name != "lo" and not stacked and len(columns) > 8 and columns[8].isdigit():
            found.append(Sender(over="netdev", device=name, counts=((str(file), int(columns[8])),)))
    return found


def _between(before: Sender | None, after: Sender | None) -> Counted:
    known = before or after
    if known is None or before is None or after is None:
        over, device = (known.over, known.device) if known else ("netdev", "")
        reason = "the device came meanwhile" if before is None else "the device was taken away meanwhile"
        return Counted(over=over, device=device, bytes=None, reason=reason)
    then, moved, reasons = dict(before.counts), [], [after.reason or before.reason]
    for name, value in after.counts:
        if name not in then:
            continue
        if name == _WORDS and value == _FULL_WORDS:
            reasons.append(f"{name} stands at the largest value of a counter of 32 bits")
        elif value < then[name]:
            reasons.append(f"{name} went back from {then[name]} to {value}: it wrapped, or was reset")
        else:
            moved.append((float((value - then[name]) * (_WORD_BYTES if name == _WORDS else 1)), name))
    if moved:
        most, source = max(moved)
        return Counted(over=after.over, device=after.device, bytes=most, source=source)
    reason = next((told for told in reasons if told), "the counter was not there before")
    return Counted(over=after.over, device=after.device, bytes=None, reason=reason)


def _whole(file: Path) -> int | None:
    """A whole number; None where there is none, as in "N/A (no PMA)"."""
    text = read(file).text or ""
    return int(text) if text.isdigit() else None
