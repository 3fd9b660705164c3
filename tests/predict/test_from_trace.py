"""A job's own trace with other durations of its collectives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predict_fixtures import h100_network

from assay.errors import InputError
from assay.formats.kineto_steps import Call, TracedSteps
from assay.predict.from_trace import predict_from_trace, replay


def call(start: float, end: float, op: str = "all_reduce", stream: str = "a", **more: object) -> Call:
    said = {"bytes": 2.0**24, "ranks": 8, "members": tuple(range(8))} | more
    return Call(op=op, stream=stream, start_s=start, end_s=end, **said)  # type: ignore[arg-type]


def traced(busy, calls, end: float, optimizer=(), steps: int = 1) -> TracedSteps:
    return TracedSteps(
        file="t.json",
        rank=0,
        world=8,
        steps=steps,
        start_s=0.0,
        end_s=end,
        busy=tuple(busy),
        calls=tuple(sorted(calls, key=lambda c: c.start_s)),
        optimizer_s=tuple(optimizer),
        launch_s=None,
    )


def own(one: Call) -> float:
    return one.end_s - one.start_s


@st.composite
def traces(draw) -> TracedSteps:
    """Busy spans and collectives of two streams anywhere; those of one stream apart."""
    edges = sorted(draw(st.lists(st.integers(0, 400), min_size=2, max_size=16, unique=True)))
    busy = [(a / 10, b / 10) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    calls = []
    for stream in ("a", "b"):
        at = sorted(draw(st.lists(st.integers(0, 420), max_size=8, unique=True)))
        for a, b in zip(at[::2], at[1::2], strict=False):
            op = draw(st.sampled_from(["all_reduce", "all_gather"]))
            calls.append(call(a / 10, b / 10, op, stream))
    updates = draw(st.lists(st.integers(0, 400), max_size=2))
    return traced(busy, calls, 42.0, sorted(u / 10 for u in updates))


@settings(max_examples=80)
@given(traces())
def test_with_its_own_durations_a_trace_takes_its_own_time(one):
    again = replay(one, own)
    assert again.total_s == pytest.approx(42.0)
    assert again.compute_s == pytest.approx(sum(end - begin for begin, end in one.busy))


@settings(max_examples=80)
@given(traces(), st.floats(1.0, 5.0))
def test_slower_collectives_never_make_a_faster_step(one, factor):
    slower = replay(one, lambda c: factor * own(c))
    assert slower.total_s >= replay(one, own).total_s - 1e-9
    assert slower.compute_s == pytest.approx(replay(one, own).compute_s)


def test_a_hidden_reduction_that_outgrows_the_backward_delays_the_optimizer():
    step = traced([(0, 10), (10, 11)], [call(2, 4)], 11.0, optimizer=[10.0])
    assert replay(step, lambda _: 7.0).total_s == pytest.approx(11.0)
    late = replay(step, lambda _: 12.0)
    assert late.total_s == pytest.approx(15.0)
    assert late.waits_s == {"all_reduce over 8": pytest.approx(4.0)}


def test_a_prefetched_gather_is_due_when_the_next_one_begins():
    gathers = [call(0, 1, "all_gather"), call(1, 2, "all_gather"), call(5, 6, "all_gather")]
    step = traced([(1, 5), (5, 9)], gathers, 9.0)
    assert replay(step, lambda c: 6.0 if c.start_s == 1 else own(c)).total_s == pytest.approx(11.0)


def test_host_gaps_stay():
    step = traced([(0, 1), (3, 4)], [], 4.0)
    assert replay(step, own).gaps_s == pytest.approx(2.0)


def test_data_parallel_groups_grow_and_model_parallel_ones_stay():
    tensor = call(1, 1.1, ranks=2, members=(0, 1), bytes=1e6)
    data = call(3, 3.1, ranks=4, members=(0, 2, 4, 6), bytes=1e9)
    step = traced([(0, 1), (1.1, 3), (3.1, 4)], [tensor, data], 4.0)
    result = predict_from_trace(step, h100_network(), node_ranks=8, nodes=4)
    assert result.ranks == 32
    assert {"all_reduce over 2", "all_reduce over 16"} <= result.breakdown_s.keys()
    assert sum(result.breakdown_s.values()) == pytest.approx(result.step_time_s.value)
    assert result.step_time_s.low < result.step_time_s.value < result.step_time_s.high


def test_shards_kept_inside_a_node_gather_there_and_sum_across():
    gather, shard = call(1, 1.1, "all_gather", bytes=1e9), call(2, 2.1, "reduce_scatter", bytes=1e9)
    step = traced([(0, 1), (1.1, 2), (2.1, 3)], [gather, shard], 3.0)
    result = predict_from_trace(step, h100_network(), node_ranks=8, nodes=16, shard_ranks=8).breakdown_s
    network = h100_network()
    assert result["all_gather over 8"] == pytest.approx(network.time_s("all_gather", 1e9, 8, 1).item())
    both = network.time_s("reduce_scatter", 1e9, 8, 1) + network.time_s("all_reduce", 1e9 / 8, 16, 8)
    assert result["reduce_scatter over 16"] == pytest.approx(both.item())


def test_more_nodes_never_take_less_time():
    step = traced([(0, 1), (1.1, 2)], [call(1, 1.1, bytes=1e9)], 2.0)
    times = [
        predict_from_trace(step, h100_network(), node_ranks=8, nodes=n).step_time_s.value
        for n in (1, 2, 8, 64)
    ]
    assert times == sorted(times)


def test_a_collective_without_its_size_is_an_error_with_the_fix():
    step = traced([(0, 1)], [call(0, 0.5, bytes=None)], 1.0)
    with pytest.raises(InputError, match="size of its collectives") as caught:
        predict_from_trace(step, h100_network(), node_ranks=8, nodes=2)
    assert "record_shapes" in str(caught.value)


def test_a_trace_without_collectives_tells_nothing_of_more_ranks():
    lonely = traced([(0, 1)], [], 1.0)
    assert predict_from_trace(lonely, h100_network(), node_ranks=8, nodes=1).step_time_s.value == 1.0
    with pytest.raises(InputError, match=r"holds no collective.*16 ranks exchange"):
        predict_from_trace(lonely, h100_network(), node_ranks=8, nodes=2)


def test_ranks_without_a_gpu_are_said_to_need_their_cores():
    step = traced([(0, 1)], [call(1, 2)], 2.0)
    same, larger = (
        predict_from_trace(step, h100_network(), node_ranks=8, nodes=n).assumptions for n in (1, 2)
    )
    assert not any("cores" in said for said in same)
    assert any("as many cores" in said for said in larger)


def test_ranks_that_do_not_multiply_out_show_the_numbers():
    with pytest.raises(InputError, match="12 ranks, no multiple of the 8"):
        predict_from_trace(traced([(0, 1)], [], 1.0), h100_network(), node_ranks=4, nodes=3)
