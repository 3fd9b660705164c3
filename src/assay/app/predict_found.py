"""A fabric as found, in `assay predict fabric --from`: counts, what is wrong, what its routes carry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.say import say, say_json

if TYPE_CHECKING:
    from assay.api.predicting_found import Found
    from assay.catalog.messages import Texts
    from assay.fabric.failures.impact import Conditions
    from assay.fabric.failures.remaining import Remaining


def show_found(
    files: Sequence[Path],
    *,
    against: str | None,
    placement: str | None,
    conditions: Conditions,
    lang: str,
    as_json: bool,
) -> int:
    """Read, print, and say by the exit code whether the cabling is as it should be."""
    from assay.api.predicting_found import read_found
    from assay.catalog.messages import Texts

    found, texts = read_found(files, against=against, placement=placement, conditions=conditions), Texts(lang)
    if as_json:
        say_json(_answer(found, texts))
    else:
        _show(found, texts)
    return 1 if found.findings else 0


def _answer(found: Found, texts: Texts) -> dict[str, object]:
    from assay.codec.answer import finding_object, headed

    def words(code: str) -> tuple[str, Sequence[str]]:
        text = texts.finding(code)
        return text.title, text.fixes

    return headed("predict fabric") | {
        "from": found.network.name,
        "against": None if found.design is None else found.design.name,
        "adapters": len(found.network.adapters),
        "nodes": len({device.node for device in found.network.adapters}),
        "switches": {"leaf": found.count(1), "spine": found.count(2), "core": found.count(3)},
        "cables": {
            "node_leaf": found.cables(0, 1),
            "leaf_spine": found.cables(1, 2),
            "spine_core": found.cables(2, 3),
        },
        "bisection_Bps": found.bisection_Bps,
        "ignored": found.ignored,
        "loads": [
            {
                "pattern": load.pattern,
                "flows": load.count,
                "worst_link": load.worst,
                "worst_link_flows": load.flows,
                "slowdown": load.slowdown,
                "stranded_flows": load.stranded,
                "routes": load.routes,
            }
            for load in found.loads
        ],
        **({} if found.left is None else _left_object(found.left)),
        "findings": [finding_object(finding, texts.say, words) for finding in found.findings],
    }


def _left_object(left: Remaining) -> dict[str, object]:
    return {
        "remaining_frac": left.pattern_frac,
        "bisection_frac": left.bisection_frac,
        "rails_frac": left.rails_frac,
        "stranded_flows": left.stranded,
        "nodes_out": list(left.out),
    }


def _show(found: Found, texts: Texts) -> None:
    from assay.units import show

    say(f"{found.network.name}: {len(found.network.adapters):,} adapters")
    for key, tier in (("leaf", 1), ("spine", 2), ("core", 3)):
        say(f"  {texts.label('fabric.' + key):38s} {found.count(tier):,}")
    cables = " + ".join(f"{found.cables(low, low + 1):,}" for low in range(3))
    say(f"  {texts.label('fabric.cables'):38s} {cables}")
    say(f"  {texts.label('fabric.bisection'):38s} {show(found.bisection_Bps, 'B/s')}")
    if found.loads:
        say(f"\n{'pattern':<12} {'flows':>10} {'slowdown':>9}  fullest link ({found.loads[0].routes})")
    for load in found.loads:
        lost = f"; {load.stranded:,} flows have no way" if load.stranded else ""
        say(
            f"{load.pattern:<12} {load.count:10,} {load.slowdown:9.2f}  "
            f"{load.worst}: {load.flows:,.4g} flows{lost}"
        )
    if found.left is not None:
        parts = ", ".join(f"{name} {part:.1%}" for name, part in found.left.pattern_frac.items())
        say(f"\nleft after the failures: {parts}; bisection {found.left.bisection_frac:.2%}")
    for number, finding in enumerate(found.findings, 1):
        text = texts.finding(finding.code)
        say(f"\n{number}. {text.title} ({finding.code}, {finding.severity.value})")
        say(f"   {texts.say(finding.because)}")
        for proof in finding.evidence:
            say(f"   {proof.file}:{proof.line}")
        click.echo("".join(f"   • {fix}\n" for fix in text.fixes), nl=False)
    if not found.findings:
        say("\nno fault in the cabling" + ("" if found.design else " (no design was given: --against)"))
