"""Answers of `assay predict fabric` beyond the size: failures, SHARP, shared jobs, who talks to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.app.predict_impact import impact_object, show_impact
from assay.app.say import say

if TYPE_CHECKING:
    from assay.api.predicting_fabric import Answers
    from assay.fabric.sharp_trees import SharpTrees


def answers_object(answers: Answers) -> dict[str, object]:
    """The keys of what was asked; nothing of what was not."""
    found: dict[str, object] = {"nvlink_domain_limit_gpus": answers.domain_limit}
    if answers.impact is not None:
        found |= impact_object(answers.impact)
    if answers.sweep:
        found["sweep"] = [
            {
                "class": one.name,
                "count": one.count,
                "failure": str(one.failure),
                "remaining_frac": one.left.pattern_frac,
                "bisection_frac": one.left.bisection_frac,
                "stranded_flows": one.left.stranded,
            }
            for one in answers.sweep
        ]
    if answers.sharp is not None:
        found["sharp"] = _sharp_object(answers.sharp)
    if answers.jobs:
        found["jobs"] = [
            {"job": one.job, "flows": one.flows, "alone_Bps": one.alone_Bps, "shared_Bps": one.shared_Bps}
            for one in answers.jobs
        ]
    if answers.incast:
        found["incast"] = {
            name: {
                "dropped_frac": one.dropped_frac,
                "queue_s": one.queue_s,
                "finish_s": one.finish_s,
                "pauses": one.pauses,
            }
            for name, one in answers.incast.items()
        }
    if answers.talks:
        found["talks"] = [
            {
                "first": one.first,
                "second": one.second,
                "way": one.way,
                "library": one.library,
                "Bps": one.Bps,
                "why": one.why,
            }
            for one in answers.talks
        ]
    return found


def show_answers(answers: Answers) -> None:
    """The same for people."""
    from assay.units import show

    if answers.impact is not None:
        show_impact(answers.impact)
    if answers.sharp is not None:
        _show_sharp(answers.sharp)
    if answers.sweep:
        patterns = f"{'ring':>7} {'tree':>7} {'all-to-all':>11}"
        say(f"\n{'one fails of':<16} {'alike':>8} {patterns} {'bisection':>10}")
    for swept in answers.sweep:
        part = swept.left.pattern_frac
        say(
            f"{swept.name:<16} {swept.count:8,} {part['ring']:7.1%} {part['tree']:7.1%} "
            f"{part['all_to_all']:11.1%} {swept.left.bisection_frac:10.2%}"
        )
    if answers.jobs:
        say(f"\n{'slowest flow of':<32} {'alone':>12} {'together':>12}")
    for job in answers.jobs:
        say(f"{job.job:<32} {show(job.alone_Bps, 'B/s'):>12} {show(job.shared_Bps, 'B/s'):>12}")
    if answers.incast:
        say(f"\n{'incast':<10} {'dropped':>8} {'longest queue':>14} {'least time':>11}")
    for name, one in answers.incast.items():
        paused = "  senders are paused" if one.pauses else ""
        times = f"{show(one.queue_s, 's'):>14} {show(one.finish_s, 's'):>11}"
        say(f"{name:<10} {one.dropped_frac:8.1%} {times}{paused}")
    if answers.talks:
        say("\nwho talks to whom")
    for talk in answers.talks:
        how = f"{talk.way}, {talk.library or 'no GPU library'}, {show(talk.Bps, 'B/s')} a pair"
        say(f"  {talk.first} – {talk.second}: {how} ({talk.why})")


def _sharp_object(found: SharpTrees) -> dict[str, object]:
    from assay.fabric.sharp_trees import ADDS

    return {
        "version": found.version,
        "trees": [
            {"root": t.root, "switches": t.switches, "depth": t.depth, "adapters": t.adapters}
            for t in found.trees
        ],
        "jobs_at_once": found.jobs_at_once,
        "adds": list(ADDS),
        "does_not_add": list(found.adds_not),
        "gain": [{"bytes": size, "speedup": speedup} for size, speedup in found.gain],
    }


def _show_sharp(found: SharpTrees) -> None:
    from assay.units import show_bytes

    first = found.trees[0]
    say(
        f"\nSHARP {found.version}: {len(found.trees)} trees of {first.switches} switches, {first.depth} deep;"
        f" {found.jobs_at_once} jobs at once through a switch; not for {', '.join(found.adds_not)}"
    )
    gains = ", ".join(f"{show_bytes(size)} {speedup:.2f}×" for size, speedup in found.gain)
    say(f"  all-reduce over all nodes against NCCL's choice without: {gains}")
