"""What carried messages: what was loaded and chosen, what was asked for, and what devices counted of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from assay.errors import InputError

#: Ways that bytes can take; `nvlink` leads to switches, `nvlink_pair` to single other cards.
WAYS = ("rdma", "netdev", "nvlink", "nvlink_pair")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One thing that is known of a transport, or None with the reason why it is not."""

    value: str | None
    reason: str | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.reason):
            raise InputError(
                f"told of a transport: {self.value!r} and the reason {self.reason!r}",
                fix="give the value, or say why it is missing",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """What was asked for `count` times: an operation of `bytes` over `ranks` on `nodes`.

    `here` counts the ranks on this node; `bytes` is what nccl-tests prints as size. The operation
    `send` is one message from this rank to another.
    """

    op: str
    bytes: int
    ranks: int
    nodes: int
    here: int
    count: int

    def __post_init__(self) -> None:
        if not (1 <= self.here <= self.ranks and 1 <= self.nodes <= self.ranks and self.count >= 1):
            raise InputError(
                f"calls of {self.op}: {self.count} times over {self.ranks} ranks on {self.nodes} nodes, "
                f"{self.here} of them here"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Bytes that one device sent meanwhile, by its own counter `source`; None with the reason."""

    over: str
    device: str
    bytes: float | None
    reason: str | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if self.over not in WAYS:
            raise InputError(f"bytes counted over {self.over!r}", fix=f"one of {', '.join(WAYS)}")
        if (self.bytes is None) != bool(self.reason) or (self.bytes is not None and self.bytes < 0):
            raise InputError(f"{self.device} counted {self.bytes} bytes with the reason {self.reason!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """What one rank can tell of the transport of one benchmark in one restart.

    `channels` are the connections that the library made; `memory` says how the network reaches the card's;
    `rails` are the channels that send through each RDMA port. Bytes of a node's devices are counted by its
    first rank, those of NVLink by each.
    """

    benchmark: str
    replicate: int
    rank: int
    host: str
    transport: str
    library: Told
    version: Told
    network: Told
    plugin: Told
    channels: Told
    memory: Told
    calls: tuple[Calls, ...]
    counted: tuple[Counted, ...]
    rails: tuple[tuple[str, int], ...] = ()
    source: str = ""


#: What a rank tells in words, in the order in which it is shown.
TOLD = ("library", "version", "network", "plugin", "channels", "memory")


class Standing(str, Enum):
    """What the counters say of a node in one restart."""

    ATTESTED = "attested"
    SOCKETS = "sockets"
    UNATTESTED = "unattested"
    WITHIN = "within"
    TOO_LITTLE = "too_little"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Bytes expected at the least beside those counted, where their ratio is lowest: a node in one restart.

    `device` is one of the node's where the row is about that alone.
    """

    over: str
    node: str
    replicate: int
    expected_bytes: float | None
    counted_bytes: float | None
    reason: str | None = None
    device: str = ""

    @property
    def share_frac(self) -> float | None:
        """Counted over expected."""
        if self.counted_bytes is None or not self.expected_bytes:
            return None
        return self.counted_bytes / self.expected_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Attested:
    """The transport of the results of one benchmark; of one operation and size where those are apart.

    `standings` counts the nodes, restart by restart, in each standing. Counters are read before and after the
    whole benchmark, so that `ways` and `rails` are about all of its calls.
    """

    benchmark: str
    op: str | None
    bytes: int | None
    ranks: int | None
    transport: str
    library: Told
    version: Told
    network: Told
    plugin: Told
    channels: Told
    memory: Told
    algorithm: Told
    registration: Told
    standings: tuple[tuple[Standing, int], ...]
    ways: tuple[Way, ...]
    rails: tuple[Way, ...] = ()

    @property
    def id(self) -> str:
        """Its name in an answer: `collectives/all_reduce/8388608/16`, `pairs`."""
        parts = (self.benchmark, self.op, self.bytes, self.ranks)
        return "/".join(str(part) for part in parts if part is not None)

    @property
    def standing(self) -> Standing:
        """The worst of the standings."""
        found = {standing for standing, _ in self.standings}
        worst = (Standing.SOCKETS, Standing.UNATTESTED, Standing.TOO_LITTLE, Standing.WITHIN)
        return next((standing for standing in worst if standing in found), Standing.ATTESTED)
