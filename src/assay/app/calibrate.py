"""`assay calibrate`: fit the model to a measured run, and say how well it fits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.options import json_option
from assay.app.say import say, say_json, say_wrote
from assay.codec.answer import headed
from assay.units import percent

if TYPE_CHECKING:
    from assay.api.calibrating import Calibrated
    from assay.predict.calibrate import QuantityFit


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="RUN|FILE…"
)
@click.option(
    "--base",
    metavar="NAME|FILE",
    help="The system that was measured.  [default: the first shipped one with the run's GPU]",
)
@click.option("--collective", metavar="OP", help="What an nccl-tests file ran, where it does not say so.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the measured cluster as a file for 'assay predict --cluster'.",
)
@json_option
def calibrate(
    paths: tuple[Path, ...], base: str | None, collective: str | None, out: Path | None, as_json: bool
) -> int:
    """Fit the model's few factors to measured readings, and say how well they fit.

    A RUN is a folder that assay wrote (one of each machine); a FILE is a result of nccl-tests, or a CSV of
    matrix products, and needs --base. Factors multiply what the model has for the system; a prediction with
    the written cluster, or with the run itself as --cluster, uses them.
    """
    from assay.api.calibrating import calibrate as fit
    from assay.api.calibrating import write_cluster_file

    done = fit(paths, base=base, collective=collective)
    if out:
        write_cluster_file(done, out)
        say_wrote(out)
    if as_json:
        say_json(_answer(done, out))
    else:
        _show(done, out)
    return 0


def _answer(done: Calibrated, out: Path | None) -> dict[str, object]:
    from assay.app.prediction import input_object

    calibration = done.fit.calibration
    return headed("calibrate") | {
        "cluster": done.cluster.id,
        "base": done.base,
        "base_reason": None
        if done.base
        else "no datasheet describes the device: it is made from its readings",
        "nodes": done.cluster.count,
        "source": calibration.source,
        "file": str(out) if out else None,
        "parameters": [
            {"name": f.name, "value": f.value, "low": f.low, "high": f.high, "n": f.n, "meaning": meaning}
            for f, meaning in done.fit.parameters
        ],
        "inputs": [input_object(one) for one in done.inputs],
        "fit": [_quantity(one) for one in done.fit.by_quantity],
        "residuals": [
            {
                "quantity": r.quantity,
                "recipe": r.recipe.as_dict(),
                "unit": r.unit,
                "measured": r.measured,
                "before": r.before,
                "after": r.after,
                "before_error_frac": r.before_error_frac,
                "after_error_frac": r.after_error_frac,
                "fitted": r.fitted,
            }
            for r in done.fit.residuals
        ],
        "not_fitted": [{"name": name, "reason": reason} for name, reason in done.fit.missing],
        "assumptions": list(done.assumed),
    }


def _quantity(one: QuantityFit) -> dict[str, object]:
    return {
        "quantity": one.quantity,
        "n": one.n,
        "fitted": one.fitted,
        "before_median_abs_error_frac": one.before_frac,
        "median_abs_error_frac": one.after_frac,
        "worst_abs_error_frac": one.worst_frac,
        "bias_frac": one.bias_frac,
    }


def _show(done: Calibrated, out: Path | None) -> None:
    from assay.units import show

    fit = done.fit
    say(f"{done.cluster.name}: {fit.calibration.source}")
    say(f"\n{'parameter':<34} {'factor':>8} {'95 %':>18} {'n':>4}")
    for factor, _ in fit.parameters:
        span = "–" if factor.low is None else f"{factor.low:.4g} … {factor.high:.4g}"
        say(f"{factor.name:<34} {factor.value:8.4g} {span:>18} {factor.n or '–':>4}")
    say("\nwhat that makes of the cluster")
    for one in done.inputs:
        told = f" (datasheet {show(one.datasheet, one.unit)})" if one.datasheet is not None else ""
        say(f"  {one.name}: {show(one.value, one.unit)}{told}, {one.origin.value}", hang=4)
    say("\nhow well it fits (absolute errors of the model against what was measured)")
    say(f"{'quantity':<34} {'n':>3} {'before':>8} {'after':>8} {'worst':>8} {'bias':>8}")
    for line in fit.by_quantity:
        errors = (line.before_frac, line.after_frac, line.worst_frac)
        cells = [*map(percent, errors), percent(line.bias_frac, sign=True)]
        name = line.quantity if line.fitted else f"{line.quantity} *"
        say(f"{name:<34} {line.n:3d} " + " ".join(f"{cell:>8}" for cell in cells))
    if any(not line.fitted for line in fit.by_quantity):
        say("* takes no part in the fit: a check")
    for name, reason in fit.missing:
        say(f"not fitted: {name}: {reason}", hang=12)
    for text in done.assumed:
        say(f"assumed: {text}", hang=9)
    if out is None:
        say("\n--out FILE writes this cluster for 'assay predict --cluster FILE'")
