"""nvidia-smi: `-q` as text or XML, `topo -m` old and new, `topo -p2p`, `nvlink -s` and `-e`, the table.

Readers take one line after the other and say whether it was theirs; `records` is what they found.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

_PATH = re.compile(r"^(?P<indent>\s*)(?P<key>[^:]+?)\s*:\s(?P<value>.*)$")
_GPU = re.compile(r"^GPU (?P<busid>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
#: Cells of the topology matrix, worst last; NV# stands before all of them.
PATHS = ("X", "PIX", "PXB", "PHB", "NODE", "SYS")
_CELL = re.compile(r"^(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS|C2C)$")
_P2P_CELL = re.compile(r"^(?:X|OK|CNS|GNS|TNS|NS|DR|U)$")
_ROW_LABEL = re.compile(r"^(?:GPU\d+|NIC\d+|mlx\w+|bnxt\w+|irdma\w+|rocep\w+|ibp\w+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiGpu:
    """One GPU of `nvidia-smi -q`: values by path (`PCI/GPU Link Info/Link Width/Current`), with lines."""

    file: str
    line: int
    busid: str
    values: Mapping[str, tuple[str, int]]

    def text(self, *endings: str) -> str | None:
        """The first value whose path ends so; None where it is missing or N/A."""
        found = self.find(*endings)
        return None if found is None or found[0] in ("N/A", "[N/A]") else found[0]

    def find(self, *endings: str) -> tuple[str, int] | None:
        """The first value whose path ends in one of `endings`, with its line."""
        for ending in endings:
            for path, value in self.values.items():
                if path == ending or path.endswith("/" + ending):
                    return value
        return None

    def real(self, *endings: str) -> float | None:
        """A value's number without its unit."""
        text = self.text(*endings)
        match = _NUMBER.match(text) if text else None
        return float(match[0]) if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiSummary:
    """The head of `nvidia-smi -q`: the driver and the count of GPUs that it sees."""

    file: str
    line: int
    attached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """`nvidia-smi topo -m`: cells by (row, column); `lines` says where each row stands."""

    file: str
    line: int
    cells: dict[tuple[str, str], str]
    lines: dict[str, int]
    affinity: dict[str, str]
    texts: dict[str, str]

    def gpus(self) -> tuple[str, ...]:
        """Labels of the GPU rows, in order."""
        return tuple(label for label in self.lines if label.startswith("GPU"))


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkGpu:
    """NVLinks of one GPU: their states by number, `up`, `down` or `unsupported`; errors by link and kind."""

    file: str
    line: int
    text: str
    index: int
    product: str
    states: dict[int, str]
    errors: dict[str, int] = field(default_factory=dict)


class LoadReader:
    """`nvidia-smi dmon`: columns named by a line that begins with `# gpu`, a row per GPU and sample."""

    kind = "nvidia-smi -q"

    _paths: ClassVar = {
        "pwr": ("GPU Power Readings/Power Draw", "W"),
        "gtemp": ("Temperature/GPU Current Temp", "C"),
        "sm": ("Utilization/GPU", "%"),
        "pclk": ("Clocks/SM", "MHz"),
    }

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._columns: list[str] = []

    def feed(self, line: str, number: int) -> bool:
        """Take the head, its line of units, and the rows below."""
        fields = line.lstrip("# ").split()
        if line.startswith("#"):
            if fields[:2] == ["gpu", "pwr"]:
                self._columns = fields
            return bool(self._columns) and fields[:1] in (["gpu"], ["Idx"])
        if not self._columns or len(fields) != len(self._columns) or not fields[0].isdigit():
            self._columns = []
            return False
        row = dict(zip(self._columns, fields, strict=True))
        values = {
            path: (f"{row[name]} {unit}", number)
            for name, (path, unit) in self._paths.items()
            if row.get(name, "-") != "-"
        }
        self.records.append(SmiGpu(file=self.file, line=number, busid=row["gpu"], values=values))
        return True


class QueryReader:
    """`nvidia-smi -q` as text, whole or cut to some sections."""

    kind = "nvidia-smi -q"

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._values: dict[str, tuple[str, int]] | None = None
        self._path: list[tuple[int, str]] = []
        self._head = False

    def feed(self, line: str, number: int) -> bool:
        """Take a line of the listing; a GPU's block ends where the indentation does."""
        if match := _GPU.match(line):
            self._values, self._path, self._head = {}, [], False
            self.records.append(
                SmiGpu(file=self.file, line=number, busid=match["busid"].lower(), values=self._values)
            )
            return True
        if "NVSMI LOG" in line:
            self._head, self._values = True, None
            return True
        if self._head and (found := re.match(r"Attached GPUs\s*:\s*(\d+)", line)):
            self.records.append(SmiSummary(file=self.file, line=number, attached=int(found[1])))
            return True
        if self._head:
            return not line.strip() or bool(re.match(r"(?:Timestamp|Driver Version|CUDA Version)\s*:", line))
        if self._values is None:
            return False
        if not line.strip():
            return True
        if not line.startswith((" ", "\t")):
            self._values = None
            return False
        self._take(line, number)
        return True

    def _take(self, line: str, number: int) -> None:
        depth = len(line) - len(line.lstrip())
        while self._path and self._path[-1][0] >= depth:
            self._path.pop()
        match = _PATH.match(line.rstrip() + " ")
        if match is None:
            if len(self._path) < 8:
                self._path.append((depth, line.strip()))
            return
        path = "/".join([key for _, key in self._path] + [match["key"].strip()])
        if self._values is not None and len(self._values) < 2000:
            self._values.setdefault(path, (match["value"].strip(), number))


class TopologyReader:
    """`nvidia-smi topo -m` and `topo -p2p`; labels with ANSI codes are expected to be cleaned before."""

    kind = "nvidia-smi topo"

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._columns: list[str] = []
        self._legend = False

    def feed(self, line: str, number: int) -> bool:
        """Take the header, the rows, and the legend after them."""
        fields = line.split()
        if (
            len(fields) >= 1
            and all(_ROW_LABEL.match(f) for f in fields[:1])
            and fields[0] == "GPU0"
            and (len(fields) == 1 or not (_CELL.match(fields[1]) or _P2P_CELL.match(fields[1])))
            and line[:1] in "\t "
        ):
            self._columns = [f for f in fields if _ROW_LABEL.match(f)]
            self._legend = True
            self.records.append(
                Topology(file=self.file, line=number, cells={}, lines={}, affinity={}, texts={})
            )
            return True
        if self._columns and fields and _ROW_LABEL.match(fields[0]):
            return self._row(line, fields, number)
        if self._legend and (
            line.strip() in ("Legend:", "NIC Legend:", "")
            or re.match(r"\s+\S+\s+= ", line)
            or re.match(r"\s+NIC\d+: \w+", line)
        ):
            return True
        self._legend = False
        return False

    def _row(self, line: str, fields: list[str], number: int) -> bool:
        table = self.records[-1]
        cells = fields[1 : 1 + len(self._columns)]
        if not isinstance(table, Topology) or not all(_CELL.match(c) or _P2P_CELL.match(c) for c in cells):
            return False
        table.lines[fields[0]] = number
        table.texts[fields[0]] = line.strip()
        for column, cell in zip(self._columns, cells, strict=False):
            table.cells[fields[0], column] = cell
        if len(fields) > 1 + len(cells):
            table.affinity[fields[0]] = fields[1 + len(cells)]
        return True


class NvlinkReader:
    """`nvidia-smi nvlink -s` and `-e`, and `dcgmi nvlink --link-status`."""

    kind = "nvlink"

    _gpu = re.compile(r"^\s*GPU (?P<index>\d+): (?P<name>.*?)(?: \(UUID.*\))?$")
    _dcgm = re.compile(r"^\s*gpuId (?P<index>\d+):\s*$")
    _link = re.compile(r"^\s+Link (?P<link>\d+): (?P<state><?[\w. /]+>?)(?::? ?(?P<count>\d+))?\s*$")
    _letters = re.compile(r"^\s+[UDX_N](?: [UDX_N])+\s*$")

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._current: NvlinkGpu | None = None

    def feed(self, line: str, number: int) -> bool:
        """Take a GPU's heading and its links; a heading alone belongs to `nvidia-smi -L`."""
        if match := self._dcgm.match(line):
            self._open(number, line, int(match["index"]), "")
            return True
        if (match := self._gpu.match(line)) and line.lstrip().startswith("GPU"):
            self._open(number, line, int(match["index"]), match["name"])
            return False  # the listing of GPUs is read elsewhere, too
        if self._current is None:
            return False
        if not line.strip():
            return False  # one stands between the links
        if self._letters.match(line):
            self._letters_of(self._current, line)
            return True
        if match := self._link.match(line):
            self._one(self._current, match)
            return True
        self._current = None
        return False

    def _open(self, number: int, line: str, index: int, product: str) -> None:
        self._current = NvlinkGpu(
            file=self.file, line=number, text=line.strip(), index=index, product=product, states={}, errors={}
        )

    def _keep(self, current: NvlinkGpu) -> NvlinkGpu:
        if not self.records or self.records[-1] is not current:
            self.records.append(current)
        return current

    def _letters_of(self, current: NvlinkGpu, line: str) -> None:
        names = {"U": "up", "D": "down", "X": "disabled", "_": "unsupported", "N": "unsupported"}
        self._keep(current).states.update(enumerate(names[letter] for letter in line.split()))

    def _one(self, current: NvlinkGpu, match: re.Match[str]) -> None:
        gpu, state = self._keep(current), match["state"].strip()
        if match["count"] is not None and "rror" in state:
            gpu.errors[f"{match['link']} {state}"] = int(match["count"][:15])
            return
        gpu.states[int(match["link"][:3])] = "down" if "nactive" in state else "up"


def read_xml(root: ET.Element, file: str) -> Iterator[object]:
    """Every GPU of `nvidia-smi -q -x`, with the paths of the text form where rules look for them."""
    yield SmiSummary(file=file, line=1, attached=len(root.findall("gpu")))
    for gpu in root.findall("gpu"):
        values: dict[str, tuple[str, int]] = {}
        for xml_path, path in _XML_PATHS.items():
            found = gpu.find(xml_path)
            if found is not None and found.text:
                values[path] = (found.text.strip(), 1)
        yield SmiGpu(file=file, line=1, busid=gpu.get("id", "").lower(), values=values)


#: Ending of an XML element's name -> the reason's name in the text form.
_REASONS = {
    "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown",
    "hw_thermal_slowdown": "HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
}
_XML_PATHS = {
    "product_name": "Product Name",
    "performance_state": "Performance State",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "PCI/GPU Link Info/PCIe Generation/Max",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "PCI/GPU Link Info/PCIe Generation/Current",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "PCI/GPU Link Info/Link Width/Max",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "PCI/GPU Link Info/Link Width/Current",
    "remapped_rows/remapped_row_pending": "Remapped Rows/Pending",
    "remapped_rows/remapped_row_failure": "Remapped Rows/Remapping Failure Occurred",
    "remapped_rows/remapped_row_unc": "Remapped Rows/Uncorrectable Error",
    "temperature/gpu_temp": "Temperature/GPU Current Temp",
    "temperature/gpu_temp_slow_threshold": "Temperature/GPU Slowdown Temp",
    "utilization/gpu_util": "Utilization/GPU",
    "gpu_power_readings/power_draw": "GPU Power Readings/Power Draw",
    "gpu_power_readings/current_power_limit": "GPU Power Readings/Current Power Limit",
    "power_readings/power_draw": "GPU Power Readings/Power Draw",
    "power_readings/power_limit": "GPU Power Readings/Current Power Limit",
    "clocks/sm_clock": "Clocks/SM",
    "max_clocks/sm_clock": "Max Clocks/SM",
} | {
    f"clocks_{word}_reasons/clocks_{word}_reason_{key}": f"Clocks Event Reasons/{name}"
    for word in ("event", "throttle")
    for key, name in _REASONS.items()
}
