"""A network cable by cable: adapters, switches, and which port of one is joined to which port of another."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay.errors import InputError, did_you_mean, unknown_name

#: Tiers of switches by what people call them; an adapter is tier 0.
TIERS = ("adapter", "leaf", "spine", "core")

_RAIL = re.compile(r"(?P<node>.+?)[ /:](?:mlx5_|mthca|HCA-|nic|rail|ib|eth)(?P<rail>\d+)$")
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """An adapter or a switch. `tier` is 0 for an adapter, 1 leaf, 2 spine, 3 core; None is not known.

    `node` and `rail` are an adapter's. `line` is where a file names it.
    """

    name: str
    tier: int | None
    node: str = ""
    rail: int | None = None
    plane: int = 0
    guid: str = ""
    line: int | None = None

    @property
    def is_adapter(self) -> bool:
        """Whether it is a NIC and not a switch."""
        return self.tier == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """One cable by both ends; `Bps` is one direction, `rate` how the tool printed it ("4xHDR")."""

    a: str
    a_port: int
    b: str
    b_port: int
    Bps: float
    rate: str = ""
    line: int | None = None

    @property
    def ends(self) -> frozenset[tuple[str, int]]:
        """Both ends, without order."""
        return frozenset(((self.a, self.a_port), (self.b, self.b_port)))

    def far(self, device: str) -> tuple[str, int]:
        """The end that is not at `device`."""
        return (self.b, self.b_port) if self.a == device else (self.a, self.a_port)

    def __str__(self) -> str:
        return f"{self.a}[{self.a_port}] – {self.b}[{self.b_port}]"


@dataclass(frozen=True, slots=True)
class Network:
    """Devices by name, and the cables between them. `name` is the file or design it comes from."""

    name: str
    devices: Mapping[str, Device]
    cables: tuple[Cable, ...]
    _cache: dict[str, object] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        seen: dict[tuple[str, int], Cable] = {}
        for cable in self.cables:
            for end in ((cable.a, cable.a_port), (cable.b, cable.b_port)):
                if end[0] not in self.devices:
                    raise InputError(
                        f"a cable ends at {end[0]!r}, which is not described",
                        where=self._where(cable.line),
                        fix=did_you_mean(end[0], self.devices),
                    )
                if end in seen:
                    raise InputError(
                        f"port {end[0]}[{end[1]}] has two cables: {seen[end]} and {cable}",
                        where=self._where(cable.line),
                        fix="is the file of two fabrics, or of two times?",
                    )
                seen[end] = cable

    @property
    def adapters(self) -> list[Device]:
        """All adapters, in the order of the file."""
        return [device for device in self.devices.values() if device.is_adapter]

    def switches(self, tier: int | None = None) -> list[Device]:
        """All switches, or those of one tier."""
        return [d for d in self.devices.values() if not d.is_adapter and tier in (None, d.tier)]

    def at_ports(self) -> Mapping[tuple[str, int], Cable]:
        """The cable at each port that has one."""
        return {end: cable for cable in self.cables for end in cable.ends}

    def without(self, cables: Iterable[Cable]) -> Network:
        """The same network, some cables pulled."""
        gone = {cable.ends for cable in cables}
        return Network(self.name, self.devices, tuple(c for c in self.cables if c.ends not in gone))

    def named(self, text: str) -> Device:
        """The device that `text` names; leading zeros do not matter. Raises with the nearest names."""
        if text in self.devices:
            return self.devices[text]
        found = self._by_plain_name().get(plain_name(text))
        if found is None:
            raise unknown_name("device", text, self._by_plain_name())
        return self.devices[found]

    def _by_plain_name(self) -> dict[str, str]:
        found = self._cache.get("plain")
        if not isinstance(found, dict):
            found = {plain_name(name): name for name in self.devices}
            self._cache["plain"] = found
        return found

    def _where(self, line: int | None) -> str:
        return f"{self.name}:{line}" if line else self.name


@functools.lru_cache(maxsize=65536)
def plain_name(name: str) -> str:
    """A name for comparison: `leaf003` is `leaf3`, and case and blanks do not matter."""
    return _ZEROS.sub("", name.strip().lower().replace(" ", "/"))


def node_and_rail(name: str) -> tuple[str, int | None]:
    """The node and the rail that an adapter's name says: `node07 mlx5_3` is (node07, 3); HCA-1 is rail 0."""
    match = _RAIL.fullmatch(name.strip())
    if match is None:
        return name.strip(), None
    rail = int(match["rail"][:4])
    return match["node"], rail - 1 if "HCA-" in name and rail > 0 else rail
