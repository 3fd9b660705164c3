"""A network as matrices: adapters on leaves, cables from leaves to spines and from spines to cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.errors import InputError
from assay.fabric.topology.network import Device, Network

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """One plane of a fat tree. `up` [leaf, spine] and `top` [spine, core] are B/s of all cables of a bundle,
    `up_count` and `top_count` their number; `leaf_of` [adapter] is where each adapter's cable ends (−1:
    nowhere) and `nic_Bps` [adapter] its rate.
    """

    leaves: tuple[str, ...]
    spines: tuple[str, ...]
    cores: tuple[str, ...]
    adapters: tuple[Device, ...]
    leaf_of: Ints
    nic_Bps: Floats
    up: Floats
    top: Floats
    up_count: Ints
    top_count: Ints

    @classmethod
    def of(cls, network: Network, plane: int = 0) -> Tiers:
        """The matrices of one plane; raises `InputError` where switches have no tier or skip one."""
        rows = [[d.name for d in network.switches(tier) if d.plane == plane] for tier in (1, 2, 3)]
        adapters = tuple(network.adapters)
        index = [{name: at for at, name in enumerate(names)} for names in rows]
        place = {device.name: at for at, device in enumerate(adapters)}
        leaf_of = np.full(len(adapters), -1)
        nic = np.zeros(len(adapters))
        up, top = np.zeros((len(rows[0]), len(rows[1]))), np.zeros((len(rows[1]), len(rows[2])))
        up_count, top_count = np.zeros(up.shape, np.int64), np.zeros(top.shape, np.int64)
        for cable in network.cables:
            low, high = sorted(
                (network.devices[cable.a], network.devices[cable.b]),
                key=lambda d: -1 if d.tier is None else d.tier,
            )
            if plane not in (low.plane, high.plane) or high.plane != plane:
                continue
            if (low.tier, high.tier) == (0, 1):
                leaf_of[place[low.name]], nic[place[low.name]] = index[0][high.name], cable.Bps
            elif (low.tier, high.tier) == (1, 2):
                at = index[0][low.name], index[1][high.name]
                up[at] += cable.Bps
                up_count[at] += 1
            elif (low.tier, high.tier) == (2, 3):
                at = index[1][low.name], index[2][high.name]
                top[at] += cable.Bps
                top_count[at] += 1
            else:
                raise InputError(
                    f"{cable} joins {_tier(low)} to {_tier(high)}",
                    where=f"{network.name}:{cable.line}" if cable.line else network.name,
                    fix="cables go from adapters to leaves, from leaves to spines, from spines to cores",
                )
        return cls(
            leaves=tuple(rows[0]),
            spines=tuple(rows[1]),
            cores=tuple(rows[2]),
            adapters=adapters,
            leaf_of=leaf_of,
            nic_Bps=nic,
            up=up,
            top=top,
            up_count=up_count,
            top_count=top_count,
        )


def _tier(device: Device) -> str:
    kinds = ("an adapter", "a leaf", "a spine", "a core")
    return "a switch of no tier" if device.tier is None else kinds[device.tier]
