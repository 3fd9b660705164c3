"""Pipelines as timelines: dependencies hold, stages do one thing at a time, and the file is a trace."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from predict_fixtures import h100_network, situation

from assay.errors import InputError
from assay.predict.prediction import predict
from assay.predict.timeline import BACKWARD, FORWARD, WEIGHT_GRADIENT, StageTimes, pipeline
from assay.predict.trace_file import step_trace

TIMES = StageTimes(forward_s=1.0, backward_s=2.0)


@pytest.mark.parametrize(("pp", "vpp", "m"), [(1, 1, 3), (4, 1, 8), (4, 2, 8), (4, 3, 4), (8, 4, 16)])
def test_every_pass_runs_once_and_a_stage_does_one_thing_at_a_time(pp: int, vpp: int, m: int) -> None:
    times = StageTimes(forward_s=1.0, backward_s=2.0, send_s=0.01, head_s=0.3, last_frac=0.9)
    passes = pipeline(times, pp=pp, vpp=vpp, micro_batches=m)
    assert len(passes) == 2 * pp * vpp * m
    assert len({(p.stage, p.chunk, p.micro_batch, p.kind) for p in passes}) == len(passes)
    for stage in range(pp):
        mine = [p for p in passes if p.stage == stage]
        assert all(a.end_s <= b.start_s + 1e-12 for a, b in pairwise(mine))


def test_a_forward_waits_for_the_stage_before_it() -> None:
    times = StageTimes(forward_s=1.0, backward_s=2.0, send_s=0.5)
    passes = pipeline(times, pp=4, vpp=1, micro_batches=4)
    done = {(p.stage, p.micro_batch): p for p in passes if p.kind == FORWARD}
    for (stage, mb), one in done.items():
        if stage:
            assert one.start_s >= done[stage - 1, mb].end_s + 0.5


def test_a_stage_sends_one_thing_at_a_time_each_way() -> None:
    times = StageTimes(forward_s=1.0, backward_s=2.0, send_s=1.7)
    passes = pipeline(times, pp=3, vpp=1, micro_batches=6)
    for stage in range(3):
        for kind in (FORWARD, BACKWARD):
            sent = [p.sent_s for p in passes if p.stage == stage and p.kind == kind and p.to is not None]
            assert all(b - a >= 1.7 - 1e-12 for a, b in pairwise(sent))


def test_weight_gradients_fill_the_bubble_of_a_zero_bubble_schedule() -> None:
    plain = pipeline(TIMES, pp=4, vpp=1, micro_batches=8)
    filled = pipeline(TIMES, pp=4, vpp=1, micro_batches=8, zero_bubble=True)
    assert max(p.end_s for p in plain) == pytest.approx(3.0 * 8 + 3 * 3.0)
    # ZB-H1: (pp - 1) times forward + input gradient - weight gradient is left of the bubble.
    assert max(p.end_s for p in filled) == pytest.approx(3.0 * 8 + 3 * 1.0)
    taken = {(p.stage, p.micro_batch): p for p in filled if p.kind == BACKWARD}
    for one in (p for p in filled if p.kind == WEIGHT_GRADIENT):
        assert one.start_s >= taken[one.stage, one.micro_batch].end_s


def test_interleaving_needs_whole_rounds_of_micro_batches() -> None:
    with pytest.raises(InputError, match="6 micro-batches are no multiple of pp = 4"):
        pipeline(TIMES, pp=4, vpp=2, micro_batches=6)


LAYOUTS: list[dict[str, Any]] = [
    {"dp": 2, "pp": 8},
    {"dp": 2, "pp": 8, "vpp": 2, "schedule": "interleaved"},
    {"dp": 2, "pp": 4, "schedule": "zero-bubble"},
    {"dp": 4, "pp": 1, "tp": 8, "sharding": "zero3"},
]
NAMES = ["1f1b", "interleaved", "zero-bubble", "fsdp"]


@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_the_schedule_takes_what_the_formula_says(layout: dict[str, Any]) -> None:
    data = step_trace(predict(situation(batch=64, **layout), h100_network()), cluster="x")["otherData"]
    assert isinstance(data, dict)
    assert data["drawn_step_s"] == pytest.approx(data["predicted_step_s"], rel=0.01)


@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_a_viewer_finds_no_slice_that_overlaps_and_no_arrow_that_hangs(layout: dict[str, Any]) -> None:
    """What Perfetto drops with a data-loss error: a slice that begins before the one before it has ended."""
    trace = step_trace(predict(situation(batch=48, **layout), h100_network()), cluster="x")
    rows, arrows = defaultdict(list), defaultdict(list)
    for event in json.loads(json.dumps(trace))["traceEvents"]:
        if event["ph"] == "X":
            rows[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] in "stf":
            arrows[event["id"]].append(event)
    for slices in rows.values():
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(slices)))
    for steps in arrows.values():
        assert [event["ph"] for event in steps] == ["s", "t", "f"]
        assert [event["ts"] for event in steps] == sorted(event["ts"] for event in steps)
        for event in steps:
            assert any(begin <= event["ts"] < end for begin, end in rows[event["tid"]])


def test_the_rows_are_named_and_a_stage_is_busy_or_waits() -> None:
    layout: dict[str, Any] = {"dp": 2, "pp": 4, "vpp": 2, "schedule": "interleaved"}
    prediction = predict(situation(batch=32, **layout), h100_network())
    events = step_trace(prediction, cluster="x")["traceEvents"]
    assert isinstance(events, list)
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert [names[tid] for tid in sorted(names)][:4] == [f"stage {s} computes: row" for s in range(4)]
    assert len(names) == 5 * 4
    busy: dict[str, int] = defaultdict(int)
    for event in events:
        if event["ph"] == "X" and event["cat"] in (FORWARD, BACKWARD, "bubble"):
            busy[names[event["tid"]].split()[1]] += event["dur"]
    assert len(set(busy.values())) == 1
    one = next(e for e in events if e["name"] == "Bwd 0 chunk 1")
    assert one["args"]["layers"] == 12
    assert one["args"]["model_flop_per_gpu"] > 1e12
