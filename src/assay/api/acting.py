"""Doing what was decided on an incident: each order is recorded, whether it was done, failed or refused."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence

from assay.catalog.messages import Texts
from assay.codec.watching import WatchPlan
from assay.domain.incident import Change
from assay.domain.ledger import Entry, Taken
from assay.watch.actions import Decider, Order

_LONGEST_S = 20.0


def actor(plan: WatchPlan, texts: Texts) -> Callable[[Change], Sequence[Entry]] | None:
    """What to do on each change, by the plan; None where it names no action."""
    if not plan.actions:
        return None
    decider = Decider(
        plans=plan.actions, nodes=len(plan.nodes), say=lambda incident: texts.say(incident.lead.because)
    )

    def act(change: Change) -> list[Entry]:
        return [carried_out(order, change.time_s) for order in decider.decide(change)]

    return act


def carried_out(order: Order, time_s: float) -> Taken:
    """Do it if it is live and allowed; the record says what came of it."""
    done, text = False, order.text
    if order.live and not order.refusal:
        fault = _sent(order) if order.url else _ran(order)
        done, text = not fault, f"{order.text}: {fault}" if fault else order.text
    return Taken(
        action=order.kind,
        incident=order.incident,
        time_s=time_s,
        target=order.target,
        dry_run=not order.live,
        done=done,
        text=text,
    )


def _sent(order: Order) -> str:
    """Post the body; the fault as text, empty where there is none."""
    request = urllib.request.Request(
        order.url, data=order.body.encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=_LONGEST_S):
            return ""
    except (urllib.error.URLError, OSError, ValueError) as fault:
        return str(fault)


def _ran(order: Order) -> str:
    try:
        done = subprocess.run(
            order.words,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return str(fault)
    return "" if done.returncode == 0 else (done.stderr.strip() or f"ended with {done.returncode}")[:200]
