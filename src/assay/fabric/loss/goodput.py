"""What packet loss leaves of a connection's rate, by how its transport repeats what was lost.

    lossless     credits keep senders from overrunning buffers: nothing is lost but to bit errors
    go-back-n    a loss costs the packet and all that were in flight behind it (RoCE on older NICs)
    selective    a loss costs the packet alone (RoCE with selective repeat, IRN)
    reno, cubic  TCP halves or shrinks its window at a loss
    bbr          TCP that paces by measured bandwidth

Sources: go-back-N and selective repeat: Bertsekas, Gallager, Data Networks (1992), section 2.4; RoCE's
go-back-N against selective repeat: Mittal et al., Revisiting Network Support for RDMA, SIGCOMM 2018; Reno:
Mathis, Semke, Mahdavi, Ott (1997); CUBIC's response function: RFC 9438, section 5.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from assay.errors import InputError, unknown_name

REPEATS = ("lossless", "go-back-n", "selective", "reno", "cubic", "bbr")
#: RFC 9438: C = 0.4, β = 0.7.
_CUBIC_C, _CUBIC_BETA = 0.4, 0.7
#: Reno's mean window in units of 1/√p for random loss and delayed acknowledgements (Mathis et al., table 2).
_RENO = 0.93


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A path as one connection sees it: rate of its narrowest link, round trip, packet, way of repeating.

    `timeout_s` is how long a sender waits for an acknowledgement before it repeats by itself.
    """

    repeat: str
    rate_Bps: float
    round_trip_s: float
    packet_bytes: int = 4096
    timeout_s: float = 4.3

    def __post_init__(self) -> None:
        if self.repeat not in REPEATS:
            raise unknown_name("way of repeating", self.repeat, REPEATS)
        if min(self.rate_Bps, self.round_trip_s, self.packet_bytes) <= 0:
            raise InputError(
                f"a connection of {self.rate_Bps:g} B/s, {self.round_trip_s:g} s, {self.packet_bytes} B each"
            )

    @property
    def in_flight(self) -> float:
        """Packets that are on the way at full rate: the bandwidth-delay product."""
        return max(1.0, self.rate_Bps * self.round_trip_s / self.packet_bytes)


def goodput_frac(connection: Connection, loss_frac: float) -> float:
    """The part of the rate that a long transfer keeps when each packet is lost with this probability."""
    p = checked_loss(loss_frac)
    if p == 0 or connection.repeat == "lossless":
        return 1.0
    if connection.repeat == "go-back-n":
        return (1 - p) / (1 - p + p * connection.in_flight)
    if connection.repeat in ("selective", "bbr"):
        return 1 - p
    window = _RENO / math.sqrt(p)
    if connection.repeat == "cubic":
        window = max(window, _cubic_window(p, connection.round_trip_s))
    return min(1.0, window / connection.in_flight) * (1 - p)


def checked_loss(loss_frac: float) -> float:
    """The loss itself; raises `InputError` where it is no probability below 1."""
    if not 0 <= loss_frac < 1:
        raise InputError(f"a loss of {loss_frac:g}", fix="write the part of packets lost, for example 1e-4")
    return loss_frac


def _cubic_window(p: float, round_trip_s: float) -> float:
    """CUBIC's mean window in packets where it grows faster than Reno."""
    factor = (_CUBIC_C * (3 + _CUBIC_BETA) / (4 * (1 - _CUBIC_BETA))) ** 0.25
    return float(factor * round_trip_s**0.75 / p**0.75)
