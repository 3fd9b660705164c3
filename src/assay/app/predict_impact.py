"""What failures, loss and routing do to a prediction, in JSON and in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.app.say import say

if TYPE_CHECKING:
    from assay.fabric.failures.impact import Impact


def impact_object(
    impact: Impact, healthy_s: float | None = None, now_s: float | None = None
) -> dict[str, object]:
    """The keys that every prediction gets when something is wrong; an endless time is null."""
    heal, left = impact.recovery, impact.left
    stalled = None if heal.stall_s is None or not now_s else heal.stall_s / now_s
    return {
        "failures": [str(failure) for failure in impact.conditions.failures],
        "routing": impact.routing,
        "remaining_frac": left.pattern_frac,
        "bisection_frac": left.bisection_frac,
        "rails_frac": left.rails_frac,
        "stranded_flows": left.stranded,
        "nodes_out": list(left.out),
        "hashing_slowdown": impact.hashing,
        "loss": {
            "loss_frac": impact.conditions.loss_frac,
            "repeat": impact.connection.repeat,
            "packets_in_flight": impact.connection.in_flight,
            "goodput_frac": impact.goodput_frac,
        },
        "slowdown": {
            name: value if math.isfinite(value) else None for name, value in impact.slowdown.items()
        },
        "gpu_part": impact.gpu_part,
        "recovery": {
            "moments": [{"at_s": moment.at_s, "what": moment.what} for moment in heal.moments],
            "healed_s": heal.healed_s,
            "stall_s": heal.stall_s,
            "job_survives": heal.survives,
            "stalled_steps": stalled,
        },
        "healthy_s": healthy_s,
    }


def show_impact(impact: Impact, healthy_s: float | None = None, now_s: float | None = None) -> None:
    """The same for people."""
    title, *lines = impact_lines(impact, healthy_s, now_s)
    say(f"\n{title}")
    for line in lines:
        say(f"  {line}")


def impact_lines(impact: Impact, healthy_s: float | None = None, now_s: float | None = None) -> Iterator[str]:
    """What is wrong, then what it does, a line each."""
    from assay.units import show

    left, heal = impact.left, impact.recovery
    said = [str(failure) for failure in impact.conditions.failures] or ["nothing failed"]
    if impact.conditions.loss_frac:
        said.append(f"{impact.conditions.loss_frac:g} of packets lost")
    yield (f"what is wrong: {', '.join(said)}; routing {impact.routing}")
    if healthy_s is not None and now_s is not None:
        yield (f"healthy {show(healthy_s, 's')}, now {show(now_s, 's')}: {now_s / healthy_s - 1:+.1%}")
    yield (f"{'pattern':<12} {'bandwidth left':>15} {'hashing':>9} {'time':>9}")
    for name, part in left.pattern_frac.items():
        slower = impact.slowdown[name]
        times = f"{slower:8.2f}×" if math.isfinite(slower) else "  endless"
        yield (f"{name:<12} {part:15.1%} {impact.hashing[name]:8.2f}× {times}")
    yield (f"bisection left {left.bisection_frac:.2%}; the poorest node keeps {left.rails_frac:.1%} NICs")
    if impact.conditions.loss_frac:
        c = impact.connection
        yield (
            f"loss: {c.repeat} with {c.in_flight:,.0f} packets in flight "
            f"keeps {impact.goodput_frac:.1%} of the rate"
        )
    if left.stranded:
        yield (f"{left.stranded:,} flows have no way")
    if left.out:
        yield (f"out: {', '.join(left.out[:8])}{' …' if len(left.out) > 8 else ''}")
    for moment in heal.moments:
        yield (f"{show(moment.at_s, 's'):>9}  {moment.what}")
    if heal.stall_s and now_s:
        yield (f"the stall costs {heal.stall_s / now_s:,.1f} steps")
