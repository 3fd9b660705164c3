"""Blocks of lines that one tool printed, in a file that may hold several: who reads the next line."""

from __future__ import annotations

import re
from typing import Protocol

from assay.formats import (
    bandwidth_text,
    clock_text,
    dcgm,
    fabric_links,
    ib_tools,
    lspci,
    nccl_ras,
    nvidia_smi,
    port_counters,
    smi_query,
    stack_text,
)

#: How a line begins, or what it holds, with which some block may start; no reader is asked for others.
_BEGINS = re.compile(
    r"\s*(?:#|\"|GPU|GUID|CA[ :]|Infiniband device|hca_id|==|[0-9a-f]{2,4}:[0-9a-f]{2}[:.]|\d+\s|0x|DEV|---|"
    r"Errors for|Switch|gpuId|nThread|active_mtu|max_mtu|ACSCtl|ATSCtl|\w+\s+\d+\s+\d+\s+[0-9a-f:]{15}|"
    r"[\w/-]+[:=\s]+\d+\s*$|Link \d|link \w+/\d|\|\s|MS Name|remote  |Job summary|Communicators\.\.\.|"
    r"vendid=|Ca\\s|index,|name,|timestamp,|gpu_|pci\.bus|uuid,)"
)
_HOLDS = ("infiniband/", "GB/s", "busbw", "bandwidth", "ACSCtl", "ATSCtl", "bw", "counters/", "nThread")


class _Reader(Protocol):
    """Takes the lines of one kind of block, and says which it took."""

    @property
    def kind(self) -> str:
        """The kind's name."""

    def feed(self, line: str, number: int) -> bool:
        """Whether the line is of this block."""


class Blocks:
    """The block readers of one file; the one that took the last line is asked first."""

    def __init__(self, file: str) -> None:
        self.tests = bandwidth_text.TestReader(file)
        self.ports = ib_tools.PortReader(file)
        self.lspci = lspci.LspciReader(file)
        self.ras = nccl_ras.RasReader(file)
        self.net = fabric_links.NetReader(file)
        self.csv = smi_query.CsvReader(file)
        self.all = (
            self.tests,
            nvidia_smi.QueryReader(file),
            nvidia_smi.LoadReader(file),
            nvidia_smi.TopologyReader(file),
            self.ports,
            port_counters.CounterReader(file),
            self.lspci,
            fabric_links.LinkReader(file),
            self.net,
            ib_tools.GidReader(file),
            nvidia_smi.NvlinkReader(file),
            self.csv,
            dcgm.DiagTextReader(file),
            clock_text.SourceReader(file),
            bandwidth_text.MatrixReader(file),
            bandwidth_text.PerftestReader(file),
            bandwidth_text.PairReader(file),
            stack_text.StackReader(file),
            stack_text.RecorderReader(file),
            self.ras,
        )
        self._owner: _Reader | None = None

    def command(self, text: str) -> None:
        """A command line that was typed says what its answer is."""
        for reader in (self.tests, self.ports, self.lspci, self.csv):
            reader.command(text)

    def finish(self) -> None:
        """The file ends: those that wait for more take what they have."""
        self.ras.finish()
        self.net.finish()

    def feed(self, line: str, number: int) -> str | None:
        """The kind of the reader that took the line, or None."""
        owner = self._owner
        if owner is not None and owner.feed(line, number):
            return owner.kind
        if not _BEGINS.match(line) and not any(part in line for part in _HOLDS):
            self._owner = None
            return None
        for reader in self.all:
            if reader is not owner and reader.feed(line, number):
                self._owner = reader
                return reader.kind
        self._owner = None
        return None
