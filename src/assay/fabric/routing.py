"""What fixed, hashed routes (ECMP) cost against routes that adapt: the fullest link of a bundle decides."""

from __future__ import annotations

import math

from assay.domain.fabric import Fabric, Wiring


def hashing_slowdown(fabric: Fabric, op: str, nodes: int) -> float:
    """Expected load of the fullest uplink over the mean, for flows that leave their leaf.

    Of k flows a link over m links, the fullest is expected to carry about k + √(2k·ln m) (Raab and Steger,
    "Balls into Bins", 1998, for k ≥ ln m). A ring on rails leaves a leaf once per rail; an all-to-all has a
    flow to every other node. Within one leaf nothing is hashed.
    """
    down = fabric.radix // 2
    if fabric.wiring in (Wiring.SINGLE, Wiring.OPAQUE) or nodes <= down:
        return 1.0
    if op not in ("all_to_all",) and fabric.wiring is Wiring.RAIL:
        return 1.0
    flows = max(1.0, nodes - down) if op == "all_to_all" else 1.0
    fullest = flows + math.sqrt(2 * flows * math.log(down))
    return fullest / flows
