"""Port counters, read often: files are opened once and read in place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from assay.probe.files import Roots, entries

#: What is summed into one value; names as in sysfs.
_COUNTERS = {
    "port_symbol_errors_total": ("counters/symbol_error",),
    "port_link_errors_total": ("counters/link_error_recovery",),
    "port_link_downed_total": ("counters/link_downed",),
    "port_discards_total": ("counters/port_xmit_discards",),
    "port_out_of_sequence_total": ("hw_counters/out_of_sequence",),
    "port_xmit_wait_total": ("counters/port_xmit_wait",),
    "port_xmit_data_bytes_total": ("counters/port_xmit_data",),
}
_WORDS = "port_xmit_data_bytes_total"
_ENOUGH_BYTES = 64


class PortCounters:
    """The counters of every RDMA port of the machine; close it when done."""

    def __init__(self, roots: Roots) -> None:
        self._files: list[tuple[str, str, int]] = []
        for adapter in entries(roots.sys / "class/infiniband"):
            for port in entries(adapter / "ports"):
                name = f"{adapter.name}[{port.name}]"
                for metric, files in _COUNTERS.items():
                    for file in files:
                        self._open(name, metric, port / file)
                self._open(name, "port_up", port / "state")
                self._open(name, "port_rate_Bps", port / "rate")

    def read(self) -> Iterator[tuple[str, str, float]]:
        """(port, metric, value) of each; one that cannot be read is left out, which tells as missing."""
        for port, metric, fd in self._files:
            try:
                text = os.pread(fd, _ENOUGH_BYTES, 0)
            except OSError:
                continue
            value = _value(metric, text)
            if value is not None:
                yield port, metric, value

    def close(self) -> None:
        """Close the files."""
        for _, _, fd in self._files:
            os.close(fd)
        self._files.clear()

    def _open(self, port: str, metric: str, path: Path) -> None:
        try:
            self._files.append((port, metric, os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
        except OSError:
            return


def _value(metric: str, text: bytes) -> float | None:
    try:
        if metric == "port_up":
            return float(text.startswith(b"4"))
        if metric == "port_rate_Bps":
            return float(text.split(b" ", 1)[0]) * 1e9 / 8
        return float(int(text)) * (4 if metric == _WORDS else 1)
    except ValueError:
        return None


def tcp_segments(roots: Roots) -> tuple[int, int] | None:
    """TCP segments that this network namespace has sent, and sent again; None where /proc does not say."""
    try:
        lines = (roots.proc / "net/snmp").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    rows = [line.split()[1:] for line in lines if line.startswith("Tcp:")]
    if len(rows) != 2:
        return None
    table = dict(zip(*rows, strict=False))
    try:
        return int(table["OutSegs"]), int(table["RetransSegs"])
    except (KeyError, ValueError):
        return None
