"""How long until a fabric has healed: detect, sweep, reroute; and whether the job waits that long.

InfiniBand with tables: the switch sends a trap, the subnet manager sweeps and writes new tables. Adaptive:
the switch itself takes another port. Ethernet: the port goes down, routing protocols take the path away.
A reliable connection repeats a lost packet after 4.096 µs · 2^timeout, `retries` times (InfiniBand
specification, local ACK timeout); NCCL's defaults are 20 and 7 (NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.domain.fabric import Transport
from assay.fabric.failures.breakage import Failure

#: Adapters → seconds of a heavy sweep with min-hop routing: opensm 3.3.23 on ibsim, on two cores. A
#: manager on a real fabric waits for real switches instead; it is of this order.
_SWEEP_S = ((64, 0.12), (512, 0.45), (1024, 1.5), (2048, 1.6), (8192, 21.0))
#: A trap over the fabric; and a switch that finds a port dead and takes another.
_TRAP_S, _ADAPT_S = 0.01, 1e-3
#: Carrier loss to withdrawn routes on Ethernet: three missed hellos of 100 ms, then an update.
_ETHERNET_DETECT_S, _ETHERNET_REROUTE_S = 0.3, 0.2
_ACK_UNIT_S = 4.096e-6
#: A dead NIC or GPU ends the communicator; PyTorch's watchdog waits ten minutes unless NCCL says so before.
_RESTART = ("nic", "gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happens `at_s` after the failure."""

    at_s: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """The timeline, when the fabric carries all traffic again, and what the job loses.

    `stall_s` is how long a job that goes on stands still; None where it ends and must be started again.
    """

    moments: tuple[Moment, ...]
    healed_s: float
    stall_s: float | None

    @property
    def survives(self) -> bool:
        """Whether the job goes on by itself."""
        return self.stall_s is not None


def sweep_s(adapters: int) -> float:
    """Seconds of a heavy sweep: on straight lines of logarithms between and beyond the measured sizes."""
    size, time = np.log(np.array(_SWEEP_S)).T
    at = math.log(max(adapters, 1))
    if at > size[-1]:
        slope = (time[-1] - time[-2]) / (size[-1] - size[-2])
        return float(math.exp(time[-1] + slope * (at - size[-1])))
    return float(np.exp(np.interp(at, size, time)))


def recovery(
    failures: Sequence[Failure],
    adapters: int,
    transport: Transport,
    routing: str,
    *,
    ack_timeout: int = 20,
    retries: int = 7,
) -> Recovery:
    """The timeline of the failures, all at once; what is only slower needs none."""
    dead = [failure for failure in failures if not failure.part]
    if not dead:
        return Recovery(moments=(), healed_s=0.0, stall_s=0.0)
    ack_s = _ACK_UNIT_S * 2**ack_timeout
    patience_s = ack_s * (retries + 1)
    moments = [Moment(at_s=0.0, what=f"fails: {', '.join(map(str, dead))}")]
    healed_s = _heal(moments, adapters, transport, routing)
    if any(failure.kind in _RESTART for failure in dead):
        gone = next(failure for failure in dead if failure.kind in _RESTART)
        what = f"connections of {gone} give up after {retries} repeats; the job ends and starts without it"
        moments.append(Moment(at_s=patience_s, what=what))
        return _ordered(moments, healed_s, None)
    if healed_s > patience_s:
        moments.append(
            Moment(at_s=patience_s, what=f"connections give up after {retries} repeats; the job ends")
        )
        return _ordered(moments, healed_s, None)
    # What was on the way is lost; with its route back it is asked for again by the next packet (NAK), but a
    # sender that stood still waits for its own timer.
    stall_s = healed_s if routing == "adaptive" else math.ceil(healed_s / ack_s) * ack_s
    moments.append(Moment(at_s=stall_s, what="lost packets are repeated; the job goes on"))
    return _ordered(moments, healed_s, stall_s)


def _heal(moments: list[Moment], adapters: int, transport: Transport, routing: str) -> float:
    if transport is not Transport.INFINIBAND:
        detect = _ADAPT_S if routing == "adaptive" else _ETHERNET_DETECT_S
        heal = detect + (0.0 if routing == "adaptive" else _ETHERNET_REROUTE_S)
        moments.append(Moment(at_s=detect, what="detect: the port is down"))
        moments.append(Moment(at_s=heal, what="reroute: flows are hashed over the paths left"))
        return heal
    if routing == "adaptive":
        moments.append(Moment(at_s=_ADAPT_S, what="reroute: the switch takes another port by itself"))
    sweep = _TRAP_S + sweep_s(adapters)
    moments.append(Moment(at_s=_TRAP_S, what="detect: the switch's trap reaches the subnet manager"))
    moments.append(Moment(at_s=sweep, what="sweep and reroute: new tables are in all switches"))
    return _ADAPT_S if routing == "adaptive" else sweep


def _ordered(moments: list[Moment], healed_s: float, stall_s: float | None) -> Recovery:
    return Recovery(moments=tuple(sorted(moments, key=lambda m: m.at_s)), healed_s=healed_s, stall_s=stall_s)
