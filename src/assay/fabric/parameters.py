"""The few fitted numbers of the collective model, with what each means, and the ranges that go with them."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources

import numpy as np

from assay.errors import InputError

#: What a parameter is, by the first part of its name.
MEANINGS = {
    "launch": "thousand clock cycles: kernel launch and first synchronisation, by GPU generation",
    "start": "s: set up once by a protocol or algorithm, beyond a launch",
    "hop": "1: one GPU to the next inside a node over NCCL's figure, by protocol and link",
    "chunk": "s: a step's full chunk on one channel, by protocol and link",
    "wire": "1: datasheet rate over what is reached inside a node, by protocol and link",
    "copy": "1: rate of a GPU's memory over the rate at which it copies its own block",
    "fill": "1: part of the first chunks that nothing overlaps, by protocol",
    "peer": "s: one more peer in a node in an all-to-all",
    "net-peer": "s: one more peer in another node in an all-to-all",
    "net-start": "s: the network's share of a start, by transport and its kind",
    "net-hop": "1: one node to the next over NCCL's figure, by protocol and transport",
    "net": "1: line rate of the NICs over what is reached, by transport; sharp adds up in the switches",
    "net-fill": "1: part of the first buffers on the NICs that nothing overlaps, by transport",
    "host": "s: what the launcher needs for one GPU (thread, torch) or one peer-to-peer call (thread-p2p)",
}

#: Parameters cannot be less, by the longest matching name: physics, not fit.
LEAST = {
    "wire": 1.0,
    "wire/LL": 2.0,
    "wire/LL128": 128 / 120,
    "net": 400
    / 390,  # the best that ib_write_bw reaches of a port's line rate (validation/collectives/p2p.csv)
    "net/sharp": 0.0,
    "launch": 4.0,
    "hop": 0.5,
    "net-hop": 0.5,
}

#: What is taken for true until measurements say otherwise. Hops: NCCL's own figures. A switch that adds up:
#: half of it runs while the node adds. PCIe both ways at once: 18.7 of 31 GB/s through the host, 55.7 of 63
#: between peers (validation/collectives/p2p.csv, P036 and P037).
PRIOR = {
    "hop/LL": 1.0,
    "hop/LL128": 1.0,
    "hop/SIMPLE": 1.0,
    "net-hop/LL": 1.0,
    "net-hop/LL128": 1.0,
    "net-hop/SIMPLE": 1.0,
    "net/sharp": 0.5,
    "wire/SIMPLE/host": 31 / 18.7,
    "wire/P2P/host": 31 / 18.7,
    "wire/SIMPLE/pcie": 63 / 55.7,
    "wire/P2P/pcie": 63 / 55.7,
}

#: Parameters whose last part is a protocol or a special way: what one is says nothing of the others.
_SINGLE = ("start", "fill", "host", "peer", "net-peer", "net/sharp")

#: Networks that write into the far GPU's memory themselves; what goes on in others is not known.
RDMA = frozenset({"infiniband", "roce", "efa"})

#: The range of a class with too few rows: where errors are alike → factors.
_UNSEEN = {"node": (0.7, 1.4), "host": (0.5, 2.0), "across": (0.6, 1.8), "cloud": (0.5, 3.0)}

#: Borders between the classes of size whose errors are kept apart.
SMALL_BYTES, LARGE_BYTES = 2**20, 2**26


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Name → value, and per class the factors that an 80 % interval spans around a prediction."""

    values: Mapping[str, float] = field(hash=False)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, value in self.values.items():
            if family(name) not in MEANINGS:
                raise InputError(f"unknown parameter {name!r} of the collective model")
            if not np.isfinite(value) or value < least(name) * (1 - 1e-9):
                raise InputError(f"parameter {name} = {value:g} is below {least(name):g}, its physical limit")

    def value(self, name: str) -> float:
        """The fitted value; for a link, transport or generation never measured, that of its family."""
        for at in (name, stem(name)):
            if at in self.values:
                return self.values[at]
            if at in PRIOR:
                return PRIOR[at]
        siblings = [v for other, v in self.values.items() if stem(other) == stem(name)]
        return float(np.median(siblings)) if siblings else least(name)

    def unknown(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those names that no measurement stands behind."""
        return tuple(sorted(name for name in names if name not in self.values))

    def range_of(self, sizes: np.ndarray, place: str) -> tuple[np.ndarray, np.ndarray]:
        """Low and high factor for each size."""
        size_class = np.digitize(sizes, [SMALL_BYTES, LARGE_BYTES])
        table = [self.ranges.get(class_name(at, place), _UNSEEN[place]) for at in range(3)]
        low, high = np.array([t[0] for t in table]), np.array([t[1] for t in table])
        return low[size_class], high[size_class]


def family(name: str) -> str:
    """The first part of a parameter's name."""
    return name.partition("/")[0]


def least(name: str) -> float:
    """The physical limit of a parameter."""
    while name:
        if name in LEAST:
            return LEAST[name]
        name = name.rpartition("/")[0]
    return 0.0


def place_of(names: Iterable[str]) -> str:
    """Where errors are alike, by the terms that count: direct links, PCIe, RDMA networks, or other ones."""
    counted = set(names)
    transports = {name.rpartition("/")[2] for name in counted if family(name) == "net-start"}
    if transports:
        return "across" if transports <= RDMA else "cloud"
    indirect = any(name.startswith("wire/") and name.endswith(("/host", "/pcie")) for name in counted)
    return "host" if indirect else "node"


def class_name(size_class: int, place: str) -> str:
    """The name of a class of errors: where, and how large."""
    return f"{place}/{('small', 'middle', 'large')[size_class]}"


def stem(name: str) -> str:
    """The name of the family that a link's, transport's or generation's own parameter belongs to."""
    if family(name) in _SINGLE or name in _SINGLE:
        return name
    return name.rpartition("/")[0] or name


@functools.cache
def shipped() -> Parameters:
    """The parameters fitted to the published measurements in validation/."""
    text = resources.files("assay.fabric").joinpath("data", "collectives.toml").read_text(encoding="utf-8")
    return read_parameters(text)


def read_parameters(text: str) -> Parameters:
    """Parameters from the TOML that `write_parameters` writes."""
    data = tomllib.loads(text)
    return Parameters(
        values=dict(data["values"]), ranges={k: (v[0], v[1]) for k, v in data["ranges"].items()}
    )


def write_parameters(parameters: Parameters, *, head: str) -> str:
    """TOML text, one parameter a line below the meaning of its family."""
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    lines += ["", "[values]"]
    shown = ""
    for name in sorted(parameters.values):
        if family(name) != shown:
            shown = family(name)
            lines.append(f"# {shown}: {MEANINGS[shown]}")
        lines.append(f'"{name}" = {parameters.values[name]:.4g}')
    lines += [
        "",
        "# Measured over predicted: the tenth and ninetieth percentile when a source is left out.",
        "[ranges]",
    ]
    lines += [
        f'"{name}" = [{low:.4g}, {high:.4g}]' for name, (low, high) in sorted(parameters.ranges.items())
    ]
    return "\n".join(lines) + "\n"
