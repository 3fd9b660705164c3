"""Hardware as published: GPUs, links, NICs and switches, each number with the document it comes from.

Bandwidths are one direction, peaks are dense (no structured sparsity), memory is what software can
address. A value that no public source gives is None, and `missing` says why.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from assay.errors import InputError

#: Number formats whose peak is a FLOP/s; int8 counts operations and stands apart. `fp64_tc` is FP64 on
#: tensor or matrix units, every format below fp32 is on them, and fp32 itself is the vector rate.
PEAK_DTYPES = ("fp64", "fp64_tc", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4")

#: What a GPU is mounted as.
FORMS = ("sxm", "pcie", "nvl", "oam", "superchip")

#: The direct links between accelerators: NVIDIA NVLink, AMD xGMI, Huawei HCCS and its successor UB.
LINKS = ("nvlink", "xgmi", "hccs", "ub")

#: What travels on a NIC's or switch's port.
PROTOCOLS = ("infiniband", "ethernet", "nvlink")

_ID = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")
_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A public document. `date` is its publication, or the reading of a page that prints none.

    `verified` is True where the numbers were read in the document or in a copy that `note` names, and
    False where they are quoted from general knowledge of it and only cross-checked by arithmetic.
    """

    id: str
    title: str
    url: str
    date: str
    verified: bool
    note: str = ""

    def __post_init__(self) -> None:
        _require(bool(_ID.fullmatch(self.id)), f"source id {self.id!r} is not lower-case words with hyphens")
        _require(bool(self.title.strip()), f"source {self.id}: the title is empty")
        _require(self.url.startswith(("https://", "http://")), f"source {self.id}: {self.url!r} is not a URL")
        _require(
            bool(_DATE.fullmatch(self.date)),
            f"source {self.id}: date {self.date!r} is not YYYY, YYYY-MM or YYYY-MM-DD",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What every catalogue entry has: names, and the origin of each of its numbers.

    `source` is the id of the document behind all numbers but those in `sources` (field → source id);
    `missing` gives the reason (field → text) for each field that is None. A peak is addressed as
    `peak_flop_per_s.fp8`.
    """

    id: str
    name: str
    vendor: str
    source: str
    aliases: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    missing: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for word in (self.id, *self.aliases):
            _require(bool(_ID.fullmatch(word)), f"{self.id}: {word!r} is not lower-case words with hyphens")
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                _require(
                    math.isfinite(value) and value > 0, f"{self.id}: {entry.name} = {value:g} is not positive"
                )
        for path in (*self.sources, *self.missing):
            _require(self.has_field(path), f"{self.id}: there is no field {path!r}")
        for path, reason in self.missing.items():
            _require(bool(reason.strip()), f"{self.id}: missing.{path} gives no reason")
            _require(self.value(path) is None, f"{self.id}: {path} has a value and a reason for having none")

    def has_field(self, path: str) -> bool:
        """Whether `path` names a field of this record, or `peak_flop_per_s.<dtype>`."""
        head, _, rest = path.partition(".")
        known = head in {entry.name for entry in fields(self)}
        return known and (not rest or (head == "peak_flop_per_s" and rest in PEAK_DTYPES))

    def value(self, path: str) -> object:
        """The value of a field, or of one peak; None where it is not known."""
        head, _, rest = path.partition(".")
        value = getattr(self, head)
        return value.get(rest) if rest else value

    def source_id(self, path: str) -> str:
        """The id of the document behind one field."""
        return self.sources.get(path) or self.sources.get(path.partition(".")[0]) or self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkGeneration(Device):
    """One NVLink generation; `link_Bps` is one link in one direction (vendors print both directions)."""

    generation: int
    link_Bps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieGeneration(Device):
    """One PCI Express generation; a transfer is one bit of a lane, as "32 GT/s" counts.

    Of `coded_bits` on the wire `data_bits` carry packets: line code, or from generation 6 the part of
    a FLIT that is neither CRC nor FEC.
    """

    generation: int
    lane_transfer_per_s: float
    data_bits: int
    coded_bits: int

    def __post_init__(self) -> None:
        Device.__post_init__(self)
        _require(
            self.data_bits <= self.coded_bits,
            f"{self.id}: {self.data_bits} data bits do not fit in {self.coded_bits} coded bits",
        )

    @property
    def encoding(self) -> str:
        """The line code as people write it: 128b/130b."""
        return f"{self.data_bits}b/{self.coded_bits}b"

    def one_way_Bps(self, lanes: int = 16) -> float:
        """Bandwidth in one direction after line code, before packet headers: lanes × rate × code / 8."""
        _require(1 <= lanes <= 32, f"{self.id}: {lanes} lanes; a PCIe link has 1 to 32")
        return lanes * self.lane_transfer_per_s * self.data_bits / self.coded_bits / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Device):
    """One accelerator as software sees it: a superchip or package counts per device.

    `nvml_names` are the product names that nvidia-smi, amd-smi or the framework prints. Vector rates
    follow `boost_clock_Hz`, tensor rates `tensor_clock_Hz`. `link*` is the direct connection to other
    accelerators (None: the card has none); `links` × `link_Bps` is one direction.
    """

    architecture: str
    form: str
    nvml_names: tuple[str, ...]
    memory_bytes: int
    memory_Bps: float
    peak_flop_per_s: Mapping[str, float] = field(hash=False)
    int8_op_per_s: float | None = None
    sm_count: int | None = None
    boost_clock_Hz: float | None = None
    tensor_clock_Hz: float | None = None
    link: str | None = None
    nvlink_generation: int | None = None
    links: int | None = None
    link_Bps: float | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    tdp_W: float | None = None

    def __post_init__(self) -> None:
        Device.__post_init__(self)
        _require(self.form in FORMS, f"{self.id}: form {self.form!r} is none of {', '.join(FORMS)}")
        for dtype, peak in self.peak_flop_per_s.items():
            _require(dtype in PEAK_DTYPES, f"{self.id}: peak of unknown dtype {dtype!r}")
            _require(
                math.isfinite(peak) and peak > 0, f"{self.id}: peak of {dtype} = {peak:g} is not positive"
            )
        _require("fp16" in self.peak_flop_per_s, f"{self.id}: has no fp16 peak")
        self._check_links()
        silent = [name for name in _MAY_BE_UNKNOWN if self.value(name) is None and name not in self.missing]
        _require(not silent, f"{self.id}: {', '.join(silent)} is None without a reason in `missing`")

    def _check_links(self) -> None:
        _require(self.link is None or self.link in LINKS, f"{self.id}: link {self.link!r} is unknown")
        counted = self.links is not None and self.link_Bps is not None
        _require(
            counted == (self.link is not None),
            f"{self.id}: link {self.link}, links {self.links}, link_Bps {self.link_Bps} must go together",
        )
        _require(
            (self.nvlink_generation is not None) == (self.link == "nvlink"),
            f"{self.id}: link {self.link} with NVLink generation {self.nvlink_generation}",
        )
        _require(
            (self.pcie_generation is None) == (self.pcie_lanes is None),
            f"{self.id}: PCIe generation {self.pcie_generation} with {self.pcie_lanes} lanes",
        )

    @property
    def links_Bps(self) -> float | None:
        """All direct links together, one direction; None where the card has none."""
        return None if self.links is None or self.link_Bps is None else self.links * self.link_Bps

    def peak(self, dtype: str) -> float | None:
        """Dense peak in FLOP/s (for int8 in OP/s), or None; `why_no_peak` gives the reason."""
        return self.int8_op_per_s if dtype == "int8" else self.peak_flop_per_s.get(dtype)

    def why_no_peak(self, dtype: str) -> str | None:
        """Why there is no peak for this dtype, or None where there is one."""
        if self.peak(dtype) is not None:
            return None
        path = "int8_op_per_s" if dtype == "int8" else f"peak_flop_per_s.{dtype}"
        return self.missing.get(path, f"the {self.architecture} architecture has no {dtype} unit")


#: Fields of a Gpu whose None must be explained; no link at all explains itself.
_MAY_BE_UNKNOWN = (
    "int8_op_per_s",
    "sm_count",
    "boost_clock_Hz",
    "tensor_clock_Hz",
    "pcie_generation",
    "tdp_W",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic(Device):
    """A network adapter: `ports` of at most `rate_Bps` each, one direction, behind one PCIe link.

    `hca_types` are the strings of /sys/class/infiniband/*/hca_type, `pci_ids` those of lspci -n.
    Several ports together may exceed the slot.
    """

    ports: int
    rate_Bps: float
    pcie_generation: int
    pcie_lanes: int
    protocols: tuple[str, ...]
    hca_types: tuple[str, ...] = ()
    pci_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Device.__post_init__(self)
        _check_protocols(self.id, self.protocols)
        for pci in self.pci_ids:
            _require(bool(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}", pci)), f"{self.id}: {pci!r} is no PCI id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Device):
    """A switch: `ports` (its radix) at `port_Bps` each, one direction, all of them at once.

    `reduction` is what it can compute on the way (SHARPv3, NVLS), or None.
    """

    family: str
    protocols: tuple[str, ...]
    ports: int
    port_Bps: float
    reduction: str | None = None

    def __post_init__(self) -> None:
        Device.__post_init__(self)
        _check_protocols(self.id, self.protocols)
        _require(
            self.reduction is not None or "reduction" in self.missing,
            f"{self.id}: reduction is None without a reason in `missing`",
        )

    @property
    def total_Bps(self) -> float:
        """What goes in at once: ports × rate, one direction (vendors often print twice that)."""
        return self.ports * self.port_Bps


def _check_protocols(name: str, protocols: tuple[str, ...]) -> None:
    _require(bool(protocols), f"{name}: no protocol")
    for protocol in protocols:
        _require(protocol in PROTOCOLS, f"{name}: protocol {protocol!r} is none of {', '.join(PROTOCOLS)}")


def _require(true: bool, what: str) -> None:
    if not true:
        raise InputError(what)
