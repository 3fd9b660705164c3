"""A predicted step as trace events: Chrome's format, which Perfetto opens.

The step is one process, which Perfetto opens unfolded, unlike several. Its rows are the stages' compute, what
they send each way, gradients and weights, and waiting. Times are whole microseconds, because a viewer drops a
slice that overlaps the one before it by a rounding error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from assay.predict.explain import STEP
from assay.predict.prediction import Prediction
from assay.predict.timeline import BACKWARD, FORWARD, WEIGHT_GRADIENT, Pass, pipeline

Event = dict[str, object]

#: Blocks of rows from the top, a row for each stage. Perfetto shows a row's number behind its name.
COMPUTE, SEND_FORWARD, SEND_BACKWARD, DATA, WAITING = range(5)
_BLOCKS = {
    COMPUTE: "stage {} computes: row",
    SEND_FORWARD: "stage {} sends activations: row",
    SEND_BACKWARD: "stage {} sends gradients: row",
    DATA: "stage {} gradients, weights: row",
    WAITING: "stage {} waits: row",
}

#: Perfetto colours a slice by its name without the numbers: these are far apart.
_NAMES = {FORWARD: "Fwd", BACKWARD: "Bwd", WEIGHT_GRADIENT: "Wgrad"}

#: What follows the pipeline, in order: the term, its row and its name.
_TAIL = (
    ("dp_gradients", DATA, "Reduce gradients (exposed)"),
    ("optimizer", COMPUTE, "Optimizer"),
    ("dp_weights", DATA, "Gather weights (exposed)"),
    ("step_host", COMPUTE, "Host work"),
    ("input", WAITING, "Wait for data"),
    ("checkpoint", WAITING, "Checkpoint"),
    ("jitter", WAITING, "Wait for the slowest rank"),
)

#: Terms of a step that are inside its passes.
_INSIDE = ("gemm", "attention", "elementwise", "quantise", "recompute", "host", "tp", "cp", "ep")


def step_passes(p: Prediction, *, micro_batches: int | None = None) -> list[Pass]:
    """The passes of a predicted step, or of one with fewer micro-batches."""
    layout = p.situation.layout
    return pipeline(
        p.stage,
        pp=layout.pp,
        vpp=layout.vpp,
        micro_batches=p.micro_batches if micro_batches is None else micro_batches,
        zero_bubble=layout.schedule == "zero-bubble",
    )


def step_trace(p: Prediction, *, cluster: str) -> dict[str, object]:
    """The whole step in Chrome's trace format; by what the schedule and the formula differ is said in it.

    Raises `InputError` where the schedule cannot run or has too many passes.
    """
    passes = step_passes(p)
    end_s = max(one.end_s for one in passes)
    rows = _Rows(stages=p.situation.layout.pp)
    model = p.situation.workload.model.name
    events = [*rows.names(f"{model}, predicted step"), *_passes(p, passes, rows), *_sends(p, passes, rows)]
    events += [*_bubbles(passes, end_s, rows), *_hidden(p, passes, end_s, rows), *_after(p, end_s, rows)]
    return {
        "traceEvents": [event for event in events if event["ph"] != "X" or event["dur"]],
        "displayTimeUnit": "ms",
        "otherData": {
            "cluster": cluster,
            "layout": p.situation.layout.product,
            "shown": "one rank of each stage",
            "predicted_step_s": p.step_time_s.value,
            "drawn_step_s": end_s + sum(p.breakdown_s[term] for term, _, _ in _TAIL),
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The rows of one process, from 1 on. Its number is that of no row: that would be the main thread."""

    stages: int

    @property
    def process(self) -> int:
        return len(_BLOCKS) * self.stages + 1

    def row(self, stage: int, block: int) -> Event:
        return {"pid": self.process, "tid": block * self.stages + stage + 1}

    def names(self, title: str) -> Iterator[Event]:
        yield {"ph": "M", "pid": self.process, "name": "process_name", "args": {"name": title}}
        for block, name in _BLOCKS.items():
            for stage in range(self.stages):
                row = self.row(stage, block) | {"ph": "M"}
                yield row | {"name": "thread_name", "args": {"name": name.format(stage)}}
                yield row | {"name": "thread_sort_index", "args": {"sort_index": row["tid"]}}

    def slice(
        self, stage: int, block: int, name: str, category: str, start_s: float, end_s: float, args: Event
    ) -> Event:
        start, end = _us(start_s), _us(end_s)
        told: Event = {"ph": "X", "name": name, "cat": category, "ts": start, "dur": max(0, end - start)}
        return told | self.row(stage, block) | {"args": args}


def _us(seconds: float) -> int:
    return round(seconds * 1e6)


def _passes(p: Prediction, passes: list[Pass], rows: _Rows) -> Iterator[Event]:
    """Every pass with its layers, its model FLOPs on one GPU, and what it is made of."""
    one = p.situation
    layout, model = one.layout, one.workload.model
    inside = {
        f"{term}_ms": round(p.breakdown_s[term] / p.micro_batches / layout.vpp * 1e3, 4)
        for term in _INSIDE
        if p.breakdown_s[term] > 0
    }
    tokens = layout.micro_batch * one.workload.seq_len / layout.cp
    head = 2.0 * model.hidden * model.vocab
    layer_flop = (model.forward_flop_per_token(one.workload.seq_len) - head) / model.layers
    inner_layers = model.layers / (layout.pp - 1 + p.stage.last_frac) / layout.vpp
    ways = 1 if layout.schedule == "zero-bubble" else 2
    for run in passes:
        last = run.stage == layout.pp - 1
        has_head = last and run.chunk == layout.vpp - 1
        layers = inner_layers * (p.stage.last_frac if last else 1.0)
        args: Event = {
            "micro_batch": run.micro_batch,
            "chunk": run.chunk,
            "layers": round(layers, 3),
            "output_head": has_head,
            "tokens": tokens,
            "forward_and_backward_of_an_inner_chunk": inside,
        }
        if one.workload.task != "lora":
            flop = tokens / layout.tp * (layers * layer_flop + head * has_head)
            args["model_flop_per_gpu"] = flop * (ways if run.kind == BACKWARD else 1)
        name = _name(run, layout.vpp)
        yield rows.slice(run.stage, COMPUTE, name, run.kind, run.start_s, run.end_s, args)


def _name(run: Pass, vpp: int) -> str:
    return f"{_NAMES[run.kind]} {run.micro_batch}" + (f" chunk {run.chunk}" if vpp > 1 else "")


def _sends(p: Prediction, passes: list[Pass], rows: _Rows) -> Iterator[Event]:
    """Each send on its row, and an arrow from the pass that made it to the pass that waits for it."""
    taken = {(run.kind, run.stage, run.chunk, run.micro_batch): run for run in passes}
    number = count(1)
    for run in passes:
        if run.to is None or _us(p.stage.send_s) == 0:
            continue
        block = SEND_FORWARD if run.kind == FORWARD else SEND_BACKWARD
        to = taken[run.kind, *run.to, run.micro_batch]
        name = f"{_name(run, p.situation.layout.vpp)} to stage {to.stage}"
        args: Event = {
            "bytes": p.sent.send_bytes,
            "formula": "2 bytes × tokens × hidden / ranks that split it",
        }
        yield rows.slice(run.stage, block, name, "send", run.sent_s, run.sent_s + p.stage.send_s, args)
        arrow: Event = {"name": "send", "cat": "send", "id": next(number)}
        yield arrow | {"ph": "s", "ts": _us(run.start_s)} | rows.row(run.stage, COMPUTE)
        yield arrow | {"ph": "t", "ts": _us(run.sent_s)} | rows.row(run.stage, block)
        yield arrow | {"ph": "f", "bp": "e", "ts": _us(to.start_s)} | rows.row(to.stage, COMPUTE)


def _bubbles(passes: list[Pass], end_s: float, rows: _Rows) -> Iterator[Event]:
    """What a stage waits between its passes, and from its last one until all stages are done."""
    free: dict[int, float] = {}
    for run in passes:
        before = free.get(run.stage, 0.0)
        yield rows.slice(run.stage, WAITING, "Bubble", "bubble", before, run.start_s, {})
        free[run.stage] = run.end_s
    for stage, done_s in free.items():
        yield rows.slice(stage, WAITING, "Bubble", "bubble", done_s, end_s, {})


def _hidden(p: Prediction, passes: list[Pass], end_s: float, rows: _Rows) -> Iterator[Event]:
    """Traffic of gradients and weights behind the passes; what they do not hide follows the pipeline."""
    sent, zero3 = p.sent, p.situation.layout.sharding == "zero3"
    gather, reduce = _data_args(p, "dp_weights"), _data_args(p, "dp_gradients")
    behind = "behind compute"
    if sent.rounds == 1:
        gather_s = sent.gather_s - p.breakdown_s["dp_weights"]
        reduce_s = sent.reduce_s - p.breakdown_s["dp_gradients"]
        for stage in range(rows.stages):
            yield rows.slice(stage, DATA, "Gather weights", behind, 0.0, gather_s, gather)
            begun_s = max(end_s - reduce_s, gather_s)
            yield rows.slice(stage, DATA, "Reduce gradients", behind, begun_s, end_s, reduce)
        return
    names = {FORWARD: "Gather weights", BACKWARD: "Reduce gradients" + ", gather weights" * zero3}
    takes_s = {FORWARD: sent.gather_s, BACKWARD: sent.reduce_s + sent.gather_s * zero3}
    for run in passes:
        until_s = min(run.start_s + takes_s[run.kind], run.end_s)
        args = gather if run.kind == FORWARD else reduce
        yield rows.slice(run.stage, DATA, names[run.kind], behind, run.start_s, until_s, args)


def _data_args(p: Prediction, term: str) -> Event:
    size = p.sent.reduce_bytes if term == "dp_gradients" else p.sent.gather_bytes
    return {"bytes": size, "times_a_step": p.sent.rounds} | _reason(term)


def _reason(term: str) -> Event:
    return {"formula": STEP[term].formula, "source": STEP[term].source}


def _after(p: Prediction, end_s: float, rows: _Rows) -> Iterator[Event]:
    """Terms that follow the pipeline, one after the other on every stage."""
    for term, block, name in _TAIL:
        seconds = p.breakdown_s[term]
        args = _data_args(p, term) if block == DATA else _reason(term)
        for stage in range(rows.stages):
            yield rows.slice(stage, block, name, term, end_s, end_s + seconds, args)
        end_s += seconds
