"""A step predicted from a trace: JSON, and a page of text or HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.codec.answer import headed

if TYPE_CHECKING:
    from assay.api.tracing import FromTrace
    from assay.catalog.messages import Texts
    from assay.domain.message import MessageValue
    from assay.report.answer_page import Page


def answer(done: FromTrace) -> dict[str, object]:
    """The JSON object; what a trace cannot tell is null beside a reason."""
    p = done.prediction
    t = p.step_time_s
    unknown = "a trace does not tell the model: give --workload for a prediction by formulas"
    return headed("predict") | {
        "cluster": done.cluster.id,
        "nodes": done.cluster.count,
        "gpus": p.ranks,
        "from_trace": done.traced.file,
        "step_time_s": {"value": t.value, "low": t.low, "high": t.high},
        "tokens_per_s_per_gpu": done.tokens_per_s_per_gpu,
        "tokens_reason": None if done.tokens else "give --global-batch and --seq-len of the larger job",
        "model_flop_per_s": None,
        "mfu_frac": None,
        "mfu_formula": None,
        "mfu_reason": unknown,
        "speedup_frac": done.speedup_frac,
        "breakdown": p.breakdown_s,
        "memory_bytes": None,
        "memory_reason": unknown,
        "traced": {
            "world": p.world,
            "steps": done.traced.steps,
            "step_time_s": p.measured_s,
            "breakdown": p.measured_breakdown_s,
            "replayed_step_time_s": p.replayed_s,
            "replay_error_frac": p.replayed_s / p.measured_s - 1,
            "launch_s": done.traced.launch_s,
        },
        "assumptions": [*p.assumptions, *done.assumed],
        "sensitivity": [],
        "extrapolated": [],
    }


def page(done: FromTrace, texts: Texts) -> Page:
    """The step, where it goes beside where the traced one went, and what the replay is worth."""
    from assay.domain.message import Message
    from assay.report.answer_page import Page, Section, Table
    from assay.report.prediction_page import breakdown_bars
    from assay.units import show

    def say(code: str, **values: MessageValue) -> str:
        return texts.say(Message.of(f"trace.{code}", **values))

    p, label = done.prediction, texts.label
    t = p.step_time_s
    lead = [
        say("step", step_s=t.value, low_s=t.low, high_s=t.high),
        say("traced", step_s=p.measured_s),
        say("replay", step_s=p.replayed_s, error=f"{p.replayed_s / p.measured_s - 1:+.1%}"),
        say("speedup", kept=f"{done.speedup_frac:.1%}"),
    ]
    if done.tokens_per_s_per_gpu is not None:
        lead.append(say("rate", rate=f"{done.tokens_per_s_per_gpu:,.0f}"))

    def row(name: str) -> tuple[str, ...]:
        new, old = p.breakdown_s.get(name), p.measured_breakdown_s.get(name)
        share = f"{new / t.value:.1%}" if new else ""
        return label(name), show(new, "s") if new else "–", share, show(old, "s") if old else "–"

    names = dict.fromkeys((*p.breakdown_s, *p.measured_breakdown_s))
    heads = tuple(label(f"trace.head.{name}") for name in ("part", "predicted", "share", "traced"))
    return Page(
        kind="trace.page",
        title=say("title", file=done.traced.file, ranks=p.world, steps=done.traced.steps),
        lead=(say("on", cluster=done.cluster.name, nodes=done.cluster.count, gpus=p.ranks), *lead),
        sections=(
            Section(
                title=label("prediction.breakdown"),
                table=Table(headers=heads, rows=tuple(map(row, names))),
                figures=(lambda: breakdown_bars(p.breakdown_s, texts),),
            ),
        ),
        notes=tuple(say("assumed", text=label(line)) for line in (*p.assumptions, *done.assumed)),
    )
