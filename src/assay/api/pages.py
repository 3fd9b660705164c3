"""Predictions and validations as HTML files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from assay import __version__
from assay.api.predicting import Predicted
from assay.api.predicting_collective import PredictedCollective
from assay.catalog.messages import Texts
from assay.codec.text_file import write_text
from assay.domain.score import Validation
from assay.errors import InputError
from assay.predict.timeline import Pass
from assay.predict.trace_file import step_passes
from assay.report.collective_page import render_collective
from assay.report.prediction_page import PredictionData, render_prediction
from assay.report.validation_page import render_validation

#: A timeline of more passes is drawn with fewer micro-batches.
PASSES_DRAWN = 640


def write_prediction_page(done: Predicted, path: Path, *, lang: str, answer: Mapping[str, object]) -> None:
    """The prediction as a page; needs the report extra."""
    passes, shown = _passes(done)
    data = PredictionData(
        prediction=done.prediction,
        cluster=done.cluster,
        speedup_frac=done.speedup_frac,
        curve=done.curve,
        inputs=done.inputs,
        effects=done.effects,
        fix=done.fix,
        tokens=done.tokens,
        passes=passes,
        shown_micro_batches=shown,
        why_no_mfu=done.why_no_mfu,
        why_no_speedup=done.why_no_speedup,
        assay_version=__version__,
    )
    write_text(path, render_prediction(data, Texts(lang), answer_json=_text(answer)))


def write_validation_page(
    result: Validation, path: Path, *, lang: str, command: str, answer: Mapping[str, object]
) -> None:
    """A validation as a page; needs the report extra."""
    page = render_validation(
        result, Texts(lang), command=command, assay_version=__version__, answer_json=_text(answer)
    )
    write_text(path, page)


def write_collective_page(
    done: PredictedCollective, path: Path, *, lang: str, library: str, answer: Mapping[str, object]
) -> None:
    """A collective's curve as a page; needs the report extra."""
    page = render_collective(
        done.times,
        Texts(lang),
        cluster=done.cluster.name,
        library=library,
        measured_s=done.measured_s,
        assay_version=__version__,
        answer_json=_text(answer),
    )
    write_text(path, page)


def _text(answer: Mapping[str, object]) -> str:
    return json.dumps(answer, ensure_ascii=False)


def _passes(done: Predicted) -> tuple[tuple[Pass, ...], int]:
    """The pipeline with as many micro-batches as the picture holds, in whole groups of its stages."""
    p = done.prediction
    layout = p.situation.layout
    if layout.pp == 1:
        return (), 0
    most = max(1, PASSES_DRAWN // (2 * layout.pp * layout.vpp))
    shown = min(p.micro_batches, max(layout.pp, most - most % layout.pp))
    try:
        found = step_passes(p, micro_batches=shown)
    except InputError:
        # A schedule that cannot be laid out is no reason to withhold the page.
        return (), 0
    return tuple(found), shown
