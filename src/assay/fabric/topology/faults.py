"""Cabling faults: what differs from a design, and what does not fit together where there is none.

Found and wanted cables are laid over each other at the ports. Where they differ, alternating chains of wanted
and found cables are followed: a wanted cable alone is missing, two that exchanged an end are swapped, and
so on. So each fault is told once, at the ports that it has, and at no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assay.errors import InputError, did_you_mean
from assay.fabric.topology.network import TIERS, Cable, Device, Network, plain_name

End = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: its finding code, the two ends that name it, and what stands beside them.

    `wanted` is where the first end should lead, None where nothing is to be there; `found` where it leads.
    """

    code: str
    ends: tuple[str, str]
    wanted: str | None = None
    found: str | None = None
    line: int | None = None
    count: int | None = None
    of: int | None = None

    @property
    def devices(self) -> set[str]:
        """The devices at the ends."""
        return {end.partition("[")[0] for end in self.ends}


def against_design(found: Network, design: Network) -> tuple[Fault, ...]:
    """What of the cabling is not as designed. Raises `InputError` where the two are of different fabrics."""
    names = _matched(found, design)
    here = _renamed(found, names)
    absent = {name for name in design.devices if name not in here.devices}
    down = _down(design, absent)
    faults = [Fault(code="FABRIC_DEVICE_MISSING", ends=(name, "")) for name in down]
    gone = {name for name in absent if name in down or design.devices[name].node in down}
    want, have = design.at_ports(), here.at_ports()
    wrong_wanted = [c for c in design.cables if not _same(have.get((c.a, c.a_port)), c)]
    wrong_found = [c for c in here.cables if not _same(want.get((c.a, c.a_port)), c)]
    wrong_wanted = [c for c in wrong_wanted if c.a not in gone and c.b not in gone]
    for wanted, lies in _chains(wrong_wanted, wrong_found):
        faults.extend(_told(wanted, lies, design, absent))
    faults.extend(_slow(design, have))
    return tuple(faults)


def alone(network: Network) -> tuple[Fault, ...]:
    """What cannot be right whatever the design: levels, rails, bundles and rates that do not fit together."""
    faults = [*_levels(network), *_rails(network), *_bundles(network)]
    rates = Counter(cable.Bps for cable in network.cables)
    usual = max(rates, key=lambda rate: (rates[rate], rate)) if rates else 0.0
    for cable in network.cables:
        if cable.Bps < usual:
            faults.append(_one("CABLE_SLOW", cable, found=cable.rate, wanted=_rate_of(network, usual)))
    return tuple(faults)


def _matched(found: Network, design: Network) -> dict[str, str]:
    """Found name → designed name; a found device that the design lacks is refused, with its line."""
    plain = {plain_name(name): name for name in design.devices}
    names: dict[str, str] = {}
    for device in found.devices.values():
        wanted = plain.get(plain_name(device.name)) or plain.get(_by_rail(device))
        if wanted is None:
            kinds = "adapters" if device.is_adapter else "switches"
            counts = [len(n.adapters) if device.is_adapter else len(n.switches()) for n in (found, design)]
            raise InputError(
                f"{device.name} is not in the design, which has {counts[1]} {kinds}; "
                f"the file has {counts[0]}",
                where=f"{found.name}:{device.line}" if device.line else found.name,
                fix=f"correct nodes, rails, radix or names of {design.name}; "
                + did_you_mean(device.name, design.devices),
            )
        names[device.name] = wanted
    if 2 * len(names) < len(design.devices):
        raise InputError(
            f"{len(names)} of {len(design.devices)} designed devices are in the file",
            where=found.name,
            fix=f"is the file cut off, or {design.name} of another fabric?",
        )
    return names


def _by_rail(device: Device) -> str:
    return plain_name(f"{device.node}/mlx5_{device.rail}") if device.rail is not None else ""


def _renamed(found: Network, names: dict[str, str]) -> Network:
    cables = tuple(
        Cable(
            a=names[c.a],
            a_port=c.a_port,
            b=names[c.b],
            b_port=c.b_port,
            Bps=c.Bps,
            rate=c.rate,
            line=c.line,
        )
        for c in found.cables
    )
    return Network(found.name, {names[name]: device for name, device in found.devices.items()}, cables)


def _same(found: Cable | None, wanted: Cable) -> bool:
    return found is not None and found.ends == wanted.ends


def _chains(wanted: Sequence[Cable], found: Sequence[Cable]) -> Iterator[tuple[list[Cable], list[Cable]]]:
    """Wanted and found cables that share ends, chain by chain."""
    at: dict[End, list[tuple[int, Cable]]] = {}
    for kind, cables in enumerate((wanted, found)):
        for cable in cables:
            for end in cable.ends:
                at.setdefault(end, []).append((kind, cable))
    done: set[tuple[int, frozenset[End]]] = set()
    for kind, cables in enumerate((wanted, found)):
        for first in cables:
            if (kind, first.ends) in done:
                continue
            chain: tuple[list[Cable], list[Cable]] = ([], [])
            todo = [(kind, first)]
            while todo:
                key, cable = todo.pop()
                if (key, cable.ends) in done:
                    continue
                done.add((key, cable.ends))
                chain[key].append(cable)
                todo.extend(near for end in cable.ends for near in at[end])
            yield chain


def _down(design: Network, absent: set[str]) -> list[str]:
    """Absent switches, and nodes of which no adapter is there; a single absent adapter is a missing cable."""
    nodes: dict[str, list[str]] = {}
    for device in design.adapters:
        nodes.setdefault(device.node, []).append(device.name)
    whole = [node for node, names in nodes.items() if len(names) > 1 and absent.issuperset(names)]
    return [d.name for d in design.switches() if d.name in absent] + whole


def _told(wanted: list[Cable], found: list[Cable], design: Network, absent: set[str]) -> Iterator[Fault]:
    """The faults of one chain: each found cable that should not be, or wanted cables of which none is."""
    pairs = [Counter(frozenset((c.a, c.b)) for c in cables) for cables in (wanted, found)]
    if pairs[0] == pairs[1]:
        return  # the same devices by other ports of the same bundle: no harm
    at_found = {end for cable in found for end in cable.ends}
    want = {end: cable for cable in wanted for end in cable.ends}
    for cable in found:
        low, high = _ordered(cable, design)
        place = want.get(low)
        yield Fault(
            code=_kind(cable, design, swapped=len(found) > 1),
            ends=(_end(low), _end(high)),
            wanted=None if place is None else _end(place.far(low[0])),
            found=_end(high),
            line=cable.line,
        )
    for cable in wanted:
        if not cable.ends & at_found or cable.a in absent:
            yield _one("CABLE_MISSING", cable)


def _kind(cable: Cable, design: Network, *, swapped: bool) -> str:
    low, high = (design.devices[end[0]] for end in _ordered(cable, design))
    if low.tier is not None and high.tier is not None and high.tier - low.tier != 1:
        return "CABLE_WRONG_LEVEL"
    if low.is_adapter and low.rail is not None:
        rails = {
            design.devices[c.a].rail
            for c in design.cables
            if c.b == high.name and design.devices[c.a].is_adapter
        }
        if rails and low.rail not in rails:
            return "CABLE_CROSS_RAIL"
    return "CABLE_SWAPPED" if swapped else "CABLE_MISPLACED"


def _ordered(cable: Cable, network: Network) -> tuple[End, End]:
    """The lower end first."""
    ends = ((cable.a, cable.a_port), (cable.b, cable.b_port))
    tiers = [network.devices[end[0]].tier or 0 for end in ends]
    return ends if tiers[0] <= tiers[1] else (ends[1], ends[0])


def _slow(design: Network, have: Mapping[End, Cable]) -> Iterator[Fault]:
    for wanted in design.cables:
        cable = have.get((wanted.a, wanted.a_port))
        if cable is not None and cable.ends == wanted.ends and cable.Bps < wanted.Bps * 0.999:
            low, high = _ordered(cable, design)
            yield Fault(
                code="CABLE_SLOW",
                ends=(_end(low), _end(high)),
                wanted=wanted.rate or f"{wanted.Bps * 8e-9:g} Gbit/s",
                found=cable.rate or f"{cable.Bps * 8e-9:g} Gbit/s",
                line=cable.line,
            )


def _levels(network: Network) -> Iterator[Fault]:
    for cable in network.cables:
        low, high = (network.devices[end[0]] for end in _ordered(cable, network))
        if low.tier is None or high.tier is None or high.tier - low.tier != 1:
            words = [TIERS[d.tier] if d.tier is not None else "?" for d in (low, high)]
            yield _one("CABLE_WRONG_LEVEL", cable, found=" – ".join(words))


def _rails(network: Network) -> Iterator[Fault]:
    """Adapters on a leaf whose rail is not that of most adapters on it."""
    on_leaf: dict[str, list[tuple[Device, Cable]]] = {}
    for cable in network.cables:
        low, high = (network.devices[end[0]] for end in _ordered(cable, network))
        if low.is_adapter and low.rail is not None and high.tier == 1:
            on_leaf.setdefault(high.name, []).append((low, cable))
    for plugged in on_leaf.values():
        rails = Counter(device.rail for device, _ in plugged)
        usual, times = rails.most_common(1)[0]
        if times * 2 <= len(plugged):
            continue  # a leaf that takes all NICs of its nodes has no rail
        for device, cable in plugged:
            if device.rail != usual:
                yield _one("CABLE_CROSS_RAIL", cable, found=f"rail {device.rail}", wanted=f"rail {usual}")


def _bundles(network: Network) -> Iterator[Fault]:
    """Pairs of switches that have more or fewer cables than most pairs of their tiers."""
    counts: dict[tuple[int, int], Counter[tuple[str, str]]] = {}
    for cable in network.cables:
        low, high = (network.devices[end[0]] for end in _ordered(cable, network))
        if low.tier and high.tier and high.tier - low.tier == 1:
            counts.setdefault((low.tier, high.tier), Counter())[low.name, high.name] += 1
    for (tier, above), bundles in counts.items():
        pairs = len(network.switches(tier)) * len(network.switches(above))
        usual = Counter(bundles.values()).most_common(1)[0][0]
        full = pairs == len(bundles) or 2 * len(bundles) > pairs
        every = (
            [(a.name, b.name) for a in network.switches(tier) for b in network.switches(above)]
            if full
            else list(bundles)
        )
        for low_name, high_name in every:
            count = bundles[low_name, high_name]
            if count != usual:
                yield Fault(code="BUNDLE_UNEQUAL", ends=(low_name, high_name), count=count, of=usual)


def _one(code: str, cable: Cable, *, found: str | None = None, wanted: str | None = None) -> Fault:
    return Fault(
        code=code,
        ends=(_end((cable.a, cable.a_port)), _end((cable.b, cable.b_port))),
        found=found,
        wanted=wanted,
        line=cable.line,
    )


def _end(end: End) -> str:
    return f"{end[0]}[{end[1]}]"


def _rate_of(network: Network, Bps: float) -> str:
    return next((c.rate for c in network.cables if c.Bps == Bps and c.rate), f"{Bps * 8e-9:g} Gbit/s")
