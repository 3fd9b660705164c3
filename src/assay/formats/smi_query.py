"""`nvidia-smi --query-gpu=… --format=csv`: columns under the paths that `nvidia-smi -q` gives them.

Also `--query-remapped-rows`. The columns are named by the first line, or by the command that was typed.
"""

from __future__ import annotations

import re

from assay.formats.nvidia_smi import SmiGpu

_REASONS = {
    "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown",
    "hw_thermal_slowdown": "HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
}
#: Bits of the mask that `clocks_event_reasons.active` prints, from NVML's nvmlClocksEventReason* constants.
_BITS = {0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x20: "sw_thermal_slowdown"} | {
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
_PATHS = {
    "name": "Product Name",
    "gpu_name": "Product Name",
    "pstate": "Performance State",
    "pcie.link.gen.current": "PCI/GPU Link Info/PCIe Generation/Current",
    "pcie.link.gen.gpucurrent": "PCI/GPU Link Info/PCIe Generation/Current",
    "pcie.link.gen.max": "PCI/GPU Link Info/PCIe Generation/Max",
    "pcie.link.gen.gpumax": "PCI/GPU Link Info/PCIe Generation/Device Max",
    "pcie.link.width.current": "PCI/GPU Link Info/Link Width/Current",
    "pcie.link.width.max": "PCI/GPU Link Info/Link Width/Max",
    "clocks.sm": "Clocks/SM",
    "clocks.current.sm": "Clocks/SM",
    "temperature.gpu": "Temperature/GPU Current Temp",
    "utilization.gpu": "Utilization/GPU",
    "power.draw": "GPU Power Readings/Power Draw",
    "power.draw.instant": "GPU Power Readings/Instantaneous Power Draw",
    "power.limit": "GPU Power Readings/Current Power Limit",
    "enforced.power.limit": "GPU Power Readings/Enforced Power Limit",
    "remapped_rows.pending": "Remapped Rows/Pending",
    "remapped_rows.failure": "Remapped Rows/Remapping Failure Occurred",
    "ecc.errors.uncorrected.volatile.total": "ECC Errors/Volatile/Total Uncorrectable",
    "ecc.errors.uncorrected.volatile.dram": "ECC Errors/Volatile/DRAM Uncorrectable",
    "mig.mode.current": "MIG Mode/Current",
    "fabric.state": "Fabric/State",
} | {
    f"clocks_{word}_reasons.{key}": f"Clocks Event Reasons/{name}"
    for word in ("event", "throttle")
    for key, name in _REASONS.items()
}
_BUS = ("pci.bus_id", "gpu_bus_id", "gpu.bus_id")
_KNOWN = frozenset(_PATHS) | frozenset(_BUS) | {"index", "timestamp", "uuid", "gpu_uuid", "driver_version"}
_QUERY = re.compile(r"nvidia-smi\b.*--query-(?:gpu|remapped-rows)=(?P<columns>[\w.,]+)")


class CsvReader:
    """Rows of a query, one GPU each."""

    kind = "nvidia-smi -q"

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._columns: list[str] = []

    def command(self, command: str) -> None:
        """A pasted command names the columns, also of an answer without a head."""
        found = _QUERY.search(command)
        self._columns = found["columns"].split(",") if found and "noheader" in command else []

    def feed(self, line: str, number: int) -> bool:
        """Take the head, and the rows that have as many fields."""
        if "," not in line:
            self._columns = []
            return False
        fields = [part.strip() for part in line.split(",")]
        names = [name.split(" [")[0] for name in fields]
        if len(_KNOWN.intersection(names)) >= 2:
            self._columns = names
            return True
        if len(self._columns) < 2 or len(fields) != len(self._columns):
            return False
        row = dict(zip(self._columns, fields, strict=True))
        values = {
            _PATHS[name]: (_spelled(name, text), number) for name, text in row.items() if name in _PATHS
        }
        for name, text in row.items():
            if name.endswith("_reasons.active") and re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", text):
                active = (key for bit, key in _BITS.items() if int(text, 16) & bit)
                values |= {f"Clocks Event Reasons/{_REASONS[key]}": ("Active", number) for key in active}
        bus = next((row[name] for name in _BUS if name in row), row.get("index", ""))
        self.records.append(SmiGpu(file=self.file, line=number, busid=bus.lower(), values=values))
        return True


def _spelled(name: str, text: str) -> str:
    """`nvidia-smi` writes 1 in a query of remapped rows and Yes in its listing."""
    return {"0": "No", "1": "Yes"}.get(text, text) if name.startswith("remapped_rows.") else text
