"""Pipelines as timelines: dependencies hold, stages do one thing at a time, and the file is a trace."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from assay.errors import InputError
from assay.predict.timeline import pipeline, trace_events


@pytest.mark.parametrize(("pp", "vpp", "m"), [(1, 1, 3), (4, 1, 8), (4, 2, 8), (4, 3, 4), (8, 4, 16)])
def test_every_pass_runs_once_and_a_stage_does_one_thing_at_a_time(pp: int, vpp: int, m: int) -> None:
    passes = pipeline(pp=pp, vpp=vpp, micro_batches=m, forward_s=1.0, backward_s=2.0, send_s=0.01)
    assert len(passes) == 2 * pp * vpp * m
    assert len({(p.stage, p.chunk, p.micro_batch, p.forward) for p in passes}) == len(passes)
    for stage in range(pp):
        mine = sorted((p for p in passes if p.stage == stage), key=lambda p: p.start_s)
        assert all(a.end_s <= b.start_s + 1e-12 for a, b in pairwise(mine))


def test_a_forward_waits_for_the_stage_before_it() -> None:
    passes = pipeline(pp=4, vpp=1, micro_batches=4, forward_s=1.0, backward_s=2.0, send_s=0.5)
    done = {(p.stage, p.micro_batch): p for p in passes if p.forward}
    for (stage, mb), one in done.items():
        if stage:
            assert one.start_s >= done[stage - 1, mb].end_s + 0.5


def test_interleaving_needs_whole_rounds_of_micro_batches() -> None:
    with pytest.raises(InputError, match="6 micro-batches are no multiple of pp = 4"):
        pipeline(pp=4, vpp=2, micro_batches=6, forward_s=1.0, backward_s=2.0)


def test_the_trace_is_json_with_a_track_a_stage() -> None:
    passes = pipeline(pp=2, vpp=1, micro_batches=2, forward_s=1.0, backward_s=2.0)
    trace = json.loads(json.dumps(trace_events(passes, name="step", tail={"optimizer": 0.1, "input": 0.0})))
    names = [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"]
    assert names == ["stage 0", "stage 1"]
    assert sum(e["ph"] == "X" and e["name"] == "optimizer" for e in trace["traceEvents"]) == 2
    assert not any(e["name"] == "input" for e in trace["traceEvents"])
