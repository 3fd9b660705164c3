"""Many senders to one receiver: what its port can carry, and what the buffer in front of it cannot hold."""

from __future__ import annotations

from dataclasses import dataclass

from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Incast:
    """`senders` bursts of `burst_bytes` arrive at one port. `dropped_frac` of the bytes finds no room where
    nothing stops the senders; `queue_s` is the longest wait in the buffer, `finish_s` the least time of all
    bursts. `pauses`: the buffer fills and pause frames or credits hold the senders, and others behind them.
    """

    dropped_frac: float
    queue_s: float
    finish_s: float
    pauses: bool


def incast(
    senders: int,
    burst_bytes: float,
    *,
    port_Bps: float,
    buffer_bytes: float,
    lossless: bool,
    marks_at_bytes: float | None = None,
) -> Incast:
    """Bursts of all senders at once, each at the port's rate. `marks_at_bytes`: where ECN starts to slow.

    While s senders send a burst, s·burst come in and one burst goes out. Lossless links (credits, PFC) hold
    the rest back at the senders; ECN keeps the queue near its mark, once it has acted.
    """
    if senders < 1 or burst_bytes <= 0 or port_Bps <= 0 or buffer_bytes <= 0:
        raise InputError(f"an incast of {senders} senders with {burst_bytes:g} B each")
    total = senders * burst_bytes
    backlog = (senders - 1) * burst_bytes
    if marks_at_bytes is not None:
        backlog = min(backlog, marks_at_bytes + senders * min(burst_bytes, 4096.0))
    over = max(0.0, backlog - buffer_bytes)
    dropped = 0.0 if lossless else over / total
    return Incast(
        dropped_frac=dropped,
        queue_s=min(backlog, buffer_bytes) / port_Bps,
        finish_s=total / port_Bps,
        pauses=lossless and over > 0,
    )
