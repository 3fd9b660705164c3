"""What the kernel knows of this process's own TCP connections: how much was sent again, by peer."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assay.measure.context import Context

QUANTITY = "network.tcp_retransmits"
#: Offsets in `struct tcp_info` of linux/tcp.h, which only ever grows at its end.
_TOTAL_RETRANS, _DATA_SEGS_OUT, _SIZE = 100, 156, 160
#: Fewer segments say nothing about a link.
_SEGMENTS_LEAST = 5000


@dataclass(frozen=True)
class Sent:
    """Segments with data that were sent to a peer, and how many of them were sent again."""

    segments: int = 0
    again: int = 0

    def plus(self, other: Sent) -> Sent:
        """Both together."""
        return Sent(self.segments + other.segments, self.again + other.again)


def sent_by_peer() -> dict[str, Sent]:
    """What this process's open TCP connections have sent, by the address of the peer."""
    found: dict[str, Sent] = {}
    for connection in _own_sockets():
        with connection:
            try:
                peer = connection.getpeername()[0]
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
            except OSError:  # not connected any more
                continue
        if len(info) == _SIZE:
            (again,) = struct.unpack_from("=I", info, _TOTAL_RETRANS)
            (segments,) = struct.unpack_from("=I", info, _DATA_SEGS_OUT)
            address = str(peer).removeprefix("::ffff:")
            found[address] = found.get(address, Sent()).plus(Sent(segments, again))
    return found


def _own_sockets() -> Iterator[socket.socket]:
    """Duplicates of this process's TCP sockets."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            connection = socket.socket(fileno=os.dup(int(name)))
        except OSError:  # closed meanwhile, or of a kind that Python does not know
            continue
        if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
            yield connection
        else:
            connection.close()


def record_retransmits(context: Context, hosts_by_address: Mapping[str, str]) -> None:
    """Record, for every other host, which part of what this task sent to it was sent again."""
    by_host: dict[str, Sent] = {}
    for address, sent in sent_by_peer().items():
        host = hosts_by_address.get(address)
        if host is not None and host != context.host:
            by_host[host] = by_host.get(host, Sent()).plus(sent)
    for host, sent in sorted(by_host.items()):
        if sent.segments >= _SEGMENTS_LEAST:
            context.record(
                QUANTITY,
                sent.again / sent.segments,
                "1",
                subject=f"link:{context.host}>{host}",
                recipe={"benchmark": context.benchmark},
                n=sent.segments,
                absolute=False,
            )
