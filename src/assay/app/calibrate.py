"""`assay calibrate`: fit the model to a measured run, and say how well it fits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.app.answers import show_answer
from assay.app.options import json_option, page_options
from assay.app.say import say_wrote
from assay.codec.answer import headed
from assay.units import percent

if TYPE_CHECKING:
    from assay.api.calibrating import Calibrated
    from assay.catalog.messages import Texts
    from assay.domain.message import MessageValue
    from assay.predict.calibrate import QuantityFit
    from assay.report.answer_page import Page, Table


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
@page_options
@json_option
def calibrate(
    paths: tuple[Path, ...],
    base: str | None,
    collective: str | None,
    out: Path | None,
    html: Path | None,
    lang: str,
    as_json: bool,
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
    show_answer(
        lambda _: _answer(done, out),
        lambda texts: _page(done, out, texts),
        lang=lang,
        html=html,
        as_json=as_json,
    )
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


def _page(done: Calibrated, out: Path | None, texts: Texts) -> Page:
    from assay.domain.message import Message
    from assay.report.answer_page import Page, Section
    from assay.report.validation_page import calibration_scatter

    def say(code: str, **values: MessageValue) -> str:
        return texts.say(Message.of(f"calibrate.{code}", **values))

    label = texts.label
    sections = (
        Section(title=label("calibrate.factors"), table=_factors(done, texts)),
        Section(title=label("calibrate.inputs"), table=_inputs(done, texts)),
        Section(
            title=label("calibrate.fit"),
            lines=(label("calibrate.fit.caption"),),
            table=_errors(done, texts),
            figures=(lambda: calibration_scatter(done.fit.residuals, texts),) if done.fit.residuals else (),
        ),
    )
    notes = [say("not_fitted", name=name, text=reason) for name, reason in done.fit.missing]
    notes += [texts.say(Message.of("trace.assumed", text=label(line))) for line in done.assumed]
    return Page(
        kind="calibrate.page",
        title=done.cluster.name,
        lead=(done.fit.calibration.source,),
        sections=sections,
        notes=(*notes, *(() if out else (label("calibrate.out"),))),
    )


def _factors(done: Calibrated, texts: Texts) -> Table:
    from assay.report.answer_page import Table

    rows = tuple(
        (
            f.name,
            f"{f.value:.4g}",
            "–" if f.low is None else f"{f.low:.4g} … {f.high:.4g}",
            str(f.n or "–"),
            texts.label(meaning),
        )
        for f, meaning in done.fit.parameters
    )
    heads = ("parameter", "factor", "interval", "n", "meaning")
    named = tuple(texts.label(f"calibrate.head.{head}") for head in heads)
    return Table(headers=named, rows=rows, words=frozenset({0, 4}), wide=frozenset({4}))


def _inputs(done: Calibrated, texts: Texts) -> Table:
    from assay.report.answer_page import Table
    from assay.units import show

    rows = tuple(
        (
            texts.label(one.name),
            show(one.value, one.unit),
            "–" if one.datasheet is None else show(one.datasheet, one.unit),
            texts.label(f"origin.{one.origin.value}"),
        )
        for one in done.inputs
    )
    codes = ("prediction.input", "prediction.value", "origin.datasheet", "prediction.origin")
    return Table(headers=tuple(map(texts.label, codes)), rows=rows, words=frozenset({0, 3}))


def _errors(done: Calibrated, texts: Texts) -> Table:
    from assay.report.answer_page import Table

    rows = tuple(
        (
            line.quantity if line.fitted else f"{line.quantity} *",
            str(line.n),
            percent(line.before_frac),
            percent(line.after_frac),
            percent(line.worst_frac),
            percent(line.bias_frac, sign=True),
        )
        for line in done.fit.by_quantity
    )
    heads = ("quantity", "n", "before", "after", "worst", "bias")
    return Table(headers=tuple(texts.label(f"calibrate.head.{head}") for head in heads), rows=rows)
