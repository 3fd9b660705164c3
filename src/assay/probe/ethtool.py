"""The statistics that a network driver keeps of an interface, as `ethtool -S` shows them."""

from __future__ import annotations

import array
import fcntl
import socket
import struct

# linux/sockios.h and linux/ethtool.h
_SIOCETHTOOL = 0x8946
_GET_STRINGS, _GET_STATISTICS, _GET_SIZES = 0x1B, 0x1D, 0x37
_OF_STATISTICS = 1
_NAME_BYTES = 32
_MOST = 20_000


def statistics_of(interface: str) -> dict[str, int]:
    """Counters by name; empty where the interface is not there or its driver keeps none.

    The kernel lets anybody ask.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
            sizes = _ask(channel, interface, struct.pack("=IIQI", _GET_SIZES, 0, 1 << _OF_STATISTICS, 0))
            mask, count = struct.unpack_from("=QI", sizes, 8)
            if not mask or not 0 < count <= _MOST:
                return {}
            head = struct.pack("=III", _GET_STRINGS, _OF_STATISTICS, count)
            names = _ask(channel, interface, head + bytes(count * _NAME_BYTES))[len(head) :]
            head = struct.pack("=II", _GET_STATISTICS, count)
            values = _ask(channel, interface, head + bytes(count * 8))[len(head) :]
    except OSError:
        return {}
    return named(names, values)


def named(names: bytes, values: bytes) -> dict[str, int]:
    """Names of 32 bytes each beside as many numbers of 64 bits."""
    split = (names[i : i + _NAME_BYTES] for i in range(0, len(names), _NAME_BYTES))
    words = [name.partition(b"\0")[0].decode("ascii", "replace").strip() for name in split]
    return dict(zip(words, struct.unpack(f"={len(values) // 8}Q", values), strict=True))


def _ask(channel: socket.socket, interface: str, question: bytes) -> bytes:
    """The answer, which the kernel writes over the question."""
    buffer = array.array("B", question)
    address, _ = buffer.buffer_info()
    fcntl.ioctl(channel, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode()[:15], address))
    return buffer.tobytes()
