"""Node by node and restart by restart: the bytes that had to go, those counted, and the standing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.domain.attestation import Attestation, Calls, Counted, Standing, Way
from assay.domain.reading import Origin, Reading
from assay.fabric.traffic import algorithm_of, least_leaving_bytes, least_nvlink_bytes

#: Of the bytes that had to go, the part that must have been counted. Counters are read a moment before and
#: after, and lag by milliseconds.
COUNTED_FRAC = 0.9
#: Fewer bytes prove nothing: other programs send as well.
LEAST_BYTES = 16 << 20
#: A rail that NCCL sends through and that counts less than this part of its share is not doing its work.
RAIL_FRAC = 0.25
#: Libraries that use RDMA where there is any.
RDMA_TRANSPORTS = ("nccl", "rccl")
_NO_DEVICE = {"rdma": "the node has no active RDMA port"}
_OLD_QUANTITY = "network.counted_share"

#: What NCCL took for a call: operation, bytes, ranks -> `RING/SIMPLE`.
Choices = Mapping[tuple[str, int, int], str]
Key = tuple[str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One node in one restart of one benchmark. `told` are its ranks' attestations, the counting one first.

    A `silent` one ended before it told anything.
    """

    benchmark: str
    replicate: int | None
    node: str
    transport: str
    told: tuple[Attestation, ...] = ()
    ways: tuple[Way, ...] = ()
    rails: tuple[Way, ...] = ()
    has_rdma: bool = False
    silent: bool = False
    source: str = ""

    @property
    def expected_bytes(self) -> float:
        """What had to leave the node, at the least."""
        return next((w.expected_bytes or 0.0 for w in self.ways if w.over == "netdev"), 0.0)

    def share_frac(self, over: str) -> float | None:
        """Counted over expected by one kind of device; None where it is not known."""
        return next((w.share_frac for w in self.ways if w.over == over), None)

    def counts_enough(self, over: str) -> bool:
        """Whether that kind of device accounts for the bytes."""
        return (self.share_frac(over) or 0.0) >= COUNTED_FRAC

    @property
    def network(self) -> str:
        """The network that the library named in its log; empty where it is not known."""
        return next((a.network.value for a in self.told if a.network.value), "")

    @property
    def says_sockets(self) -> bool:
        """Whether the log names sockets: their bytes also pass an InfiniBand port where IP runs over it."""
        return self.network.lower().startswith("socket")

    @property
    def over_nvlink(self) -> bool:
        """Whether nodes share NVLink, and its counters account for what had to leave this one."""
        shares = any("P2P/MNNVL" in (a.channels.value or "") for a in self.told)
        sent = next((w.counted_bytes for w in self.ways if w.over == "nvlink"), None)
        return shares and sent is not None and sent >= COUNTED_FRAC * self.expected_bytes

    @property
    def standing(self) -> Standing:
        """Which way its bytes are shown to have gone."""
        if self.silent:
            return Standing.UNATTESTED
        if not self.expected_bytes:
            return Standing.WITHIN
        if self.expected_bytes < LEAST_BYTES:
            return Standing.TOO_LITTLE
        could_rdma = self.has_rdma and self.transport in RDMA_TRANSPORTS
        if self.over_nvlink:
            return Standing.ATTESTED
        if could_rdma and self.says_sockets:
            return Standing.SOCKETS
        if self.counts_enough("rdma"):
            return Standing.ATTESTED
        if not self.counts_enough("netdev"):
            return Standing.UNATTESTED
        if not could_rdma:
            return Standing.ATTESTED
        # Where the library says RDMA and the ports show no counter, other devices count what is not its own.
        unseen = self.share_frac("rdma") is None and self.network
        return Standing.UNATTESTED if unseen else Standing.SOCKETS

    @property
    def nvlink_idle(self) -> bool:
        """Whether switched NVLinks counted less than the cards of this node had to send each other."""
        return any(
            way.over == "nvlink"
            and way.share_frac is not None
            and way.share_frac < COUNTED_FRAC
            and (way.expected_bytes or 0.0) >= LEAST_BYTES
            for way in self.ways
        )

    @property
    def idle_rails(self) -> tuple[Way, ...]:
        """RDMA ports that NCCL sends through and that hardly count, on a node whose bytes are attested."""
        if self.standing is not Standing.ATTESTED or len(self.rails) < 2:
            return ()
        return tuple(w for w in self.rails if w.share_frac is not None and w.share_frac < RAIL_FRAC)


def cases_of(attestations: Iterable[Attestation], choices: Choices) -> tuple[Case, ...]:
    """One case per node and restart of each benchmark. A rank that told twice is heard the second time."""
    heard = {(a.benchmark, a.replicate, a.host, a.rank): a for a in attestations}
    grouped: dict[Key, list[Attestation]] = defaultdict(list)
    for (benchmark, replicate, host, _), a in sorted(heard.items()):
        grouped[benchmark, replicate, host].append(a)
    return tuple(_case(tuple(told), choices) for told in grouped.values())


def _case(told: tuple[Attestation, ...], choices: Choices) -> Case:
    counting = next((a for a in told if any(c.over in ("rdma", "netdev") for c in a.counted)), told[0])
    told = (counting, *(a for a in told if a is not counting))
    shared = [c for c in counting.calls if c.op != "send"]
    calls = [*shared, *(c for a in told for c in a.calls if c.op == "send")]

    def algorithm(call: Calls) -> str | None:
        return algorithm_of(choices.get((call.op, call.bytes, call.ranks)))

    leaving = sum(least_leaving_bytes(call, algorithm(call)) for call in calls)
    within = [least_nvlink_bytes(call, algorithm(call)) for call in calls]
    nvlink = None if None in within else sum(part or 0.0 for part in within)
    counted = [c for a in told for c in a.counted]
    switched = [c for c in counted if c.over == "nvlink"]
    paired = [c for c in counted if c.over == "nvlink_pair"]
    ports = [c for c in counting.counted if c.over == "rdma"]
    ways = [
        _way("rdma", counting, leaving, ports),
        _way("netdev", counting, leaving, [c for c in counting.counted if c.over == "netdev"]),
        *([_way("nvlink", counting, nvlink, switched)] if switched else []),
        *([_way("nvlink_pair", counting, None, paired)] if paired else []),
    ]
    return Case(
        benchmark=counting.benchmark,
        replicate=counting.replicate,
        node=counting.host,
        transport=counting.transport,
        told=told,
        ways=tuple(ways),
        rails=_rails(counting, told, leaving, ports),
        has_rdma=bool(ports),
        source=counting.source,
    )


def _way(over: str, of: Attestation, expected: float | None, counted: list[Counted]) -> Way:
    """The sum over devices of one kind. Of NVLink each card's count is needed, of ports those known."""
    known = [c.bytes for c in counted if c.bytes is not None]
    unknown = [f"{c.device}: {c.reason}" for c in counted if c.bytes is None]
    lacking = unknown or [_NO_DEVICE.get(over, "no device counts bytes")]
    told = bool(known) and not (unknown and over in ("nvlink", "nvlink_pair"))
    return Way(
        over=over,
        node=of.host,
        replicate=of.replicate,
        expected_bytes=expected,
        counted_bytes=sum(known) if told else None,
        reason=None if told else lacking[0],
    )


def _rails(
    counting: Attestation, told: Sequence[Attestation], leaving: float, ports: Iterable[Counted]
) -> tuple[Way, ...]:
    """Each RDMA port beside its share of what had to leave the node, by the channels that send through it."""
    channels: dict[str, int] = defaultdict(int)
    for a in told:
        for port, count in a.rails:
            channels[port] += count
    every = sum(channels.values())
    if any(call.op == "send" for a in told for call in a.calls):
        every = 0  # channels tell how collectives are spread, not single messages
    return tuple(
        Way(
            over="rdma",
            node=counting.host,
            replicate=counting.replicate,
            device=port.device,
            expected_bytes=leaving * channels.get(port.device, 0) / every if every else None,
            counted_bytes=port.bytes,
            reason=port.reason,
        )
        for port in ports
    )


def cases_of_shares(readings: Iterable[Reading]) -> tuple[Case, ...]:
    """The same from runs that kept shares of what had to leave a node, as readings, and no attestations."""
    counted: dict[tuple[str, int | None, str, str], dict[str, Reading]] = defaultdict(dict)
    for r in readings:
        if r.quantity == _OLD_QUANTITY and r.origin is Origin.MEASURED:
            told = r.recipe.as_dict()
            key = (str(told.get("benchmark")), r.replicate, r.subject.name, str(told.get("transport")))
            counted[key][str(told.get("over"))] = r
    return tuple(
        Case(
            benchmark=benchmark,
            replicate=replicate,
            node=node,
            transport=transport,
            ways=tuple(_old_way(over, node, replicate or 0, r) for over, r in found.items()),
            has_rdma="rdma" in found and found["rdma"].number is not None,
            source=next((r.source for r in found.values()), ""),
        )
        for (benchmark, replicate, node, transport), found in counted.items()
    )


def _old_way(over: str, node: str, replicate: int, share: Reading) -> Way:
    """A share of bytes that are not known any more; at least `LEAST_BYTES`, or it was not written."""
    sent = None if share.number is None else share.number * LEAST_BYTES
    return Way(
        over=over,
        node=node,
        replicate=replicate,
        expected_bytes=float(LEAST_BYTES),
        counted_bytes=sent,
        reason=share.reason,
    )
