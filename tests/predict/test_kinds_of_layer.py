"""What recipes, stacks and kinds of layer change in a step, each against the count that its formula gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from predict_fixtures import h100_network, situation

from assay.catalog.models import model
from assay.errors import InputError
from assay.predict.physics import FITTED
from assay.predict.situation import Situation, columns
from assay.predict.stack import stack
from assay.predict.step import step_times


def terms(one: Situation) -> dict[str, float]:
    """The terms of one step, in seconds."""
    found = step_times(columns([one]), h100_network(), FITTED).terms
    return {name: float(seconds[0]) for name, seconds in found.items()}


def test_a_hybrid_has_the_weights_and_layers_of_its_paper() -> None:
    hybrid = model("nemotron-h-56b")
    assert hybrid.parameters == pytest.approx(56.1e9, rel=0.01)
    # Gate and values of 16,384 each, inputs and outputs of 8 groups of 256 states, 256 time steps; and out.
    projected = 2 * 16384 + 2 * 8 * 256 + 256
    assert hybrid.mixing_weights == 10 * hybrid.attention_weights + 54 * 8192 * (projected + 16384)
    assert hybrid.dense_layers == 54
    assert hybrid.attention_layers == 10


def test_a_hybrid_cut_to_half_keeps_its_mixture() -> None:
    half = model("nemotron-h-56b").with_layers(32)
    assert (half.ssm_layers, half.bare_layers, half.dense_layers) == (27, 5, 27)


def test_more_states_make_a_scan_slower() -> None:
    hybrid = situation("nemotron-h-56b", tp=8, pp=1, dp=4, batch=32)
    wider = replace(hybrid.workload.model, ssm_state=512)
    more = replace(hybrid, workload=replace(hybrid.workload, model=wider))
    assert terms(more)["attention"] > 1.4 * terms(hybrid)["attention"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ssm_layers": 65}, "65 of 64 layers mix by a state space"),
        ({"ssm_state": 0}, "256 heads of 64, 0 states, 8 groups; none may be 0"),
        ({"bare_layers": 65}, "of 64 layers 0 carry experts and 65 no feed-forward block"),
    ],
)
def test_a_hybrid_that_cannot_be_says_why(changes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(model("nemotron-h-56b"), **changes)  # type: ignore[arg-type]


def test_quantised_values_halve_what_sequence_parallelism_gathers() -> None:
    plain = situation("llama-3.1-70b", tp=4, pp=4, dp=2, batch=64)
    narrow = replace(plain, layout=replace(plain.layout, precision="fp8"))
    tail = FITTED.tail
    # A gather and a scatter a block forward; backward a gather, and the tails of a scatter and of a gather.
    expected = (1.5 + 0.5 + tail + 0.5 * tail) / (2 + 1 + tail + tail)
    assert terms(narrow)["tp"] / terms(plain)["tp"] == pytest.approx(expected)


def test_sums_of_input_gradients_run_behind_weight_gradients_unless_there_are_none() -> None:
    hidden = situation("llama-3.1-70b", tp=4, pp=4, dp=2, batch=64)
    waited = replace(hidden, stack=replace(hidden.stack, wgrad_hides_tp=False))
    assert terms(hidden)["tp"] < 0.85 * terms(waited)["tp"]
    both = [replace(one, workload=replace(one.workload, task="lora")) for one in (hidden, waited)]
    assert terms(both[0])["tp"] == terms(both[1])["tp"]


def test_a_small_head_waits_for_its_launches() -> None:
    small = situation(
        "mpt-7b", gpu_id="a100-sxm-80gb", stack_id="megatron-deepspeed", tp=1, pp=1, dp=8, batch=8
    )
    narrow = replace(small.workload.model, hidden=768, heads=12, kv_heads=12, head_dim=64, value_dim=64)
    small = replace(small, workload=replace(small.workload, model=narrow, seq_len=128))
    swift = replace(small, stack=replace(small.stack, launch_s=1e-7))
    assert terms(small)["head"] > 1.05 * terms(swift)["head"]


def test_ranks_quantise_only_their_part_of_what_is_gathered() -> None:
    tp4 = situation("llama-3.1-70b", gpu_id="b200", tp=4, pp=1, dp=1, batch=8, precision="mxfp8")
    gathering = terms(tp4)["quantise"]
    whole = terms(replace(tp4, layout=replace(tp4.layout, sp=False)))["quantise"]
    assert gathering < 0.75 * whole


def test_pieces_of_context_parallelism_cost_more_than_their_share() -> None:
    alone = situation("llama-3.1-8b", tp=1, pp=1, dp=8, batch=64)
    cut = replace(alone, layout=replace(alone.layout, cp=2, dp=4))
    shared = 0.5 * terms(alone)["attention"] * 2
    assert shared < terms(cut)["attention"] < 1.5 * shared


def test_recomputing_spares_the_last_product_where_it_stops_early() -> None:
    whole = situation("mpt-7b", stack_id="fsdp", tp=1, pp=1, dp=8, batch=64, recompute="full")
    early = terms(whole)["recompute"]
    late = terms(replace(whole, stack=replace(whole.stack, stops_early=False)))["recompute"]
    # A feed-forward of four times the width: the last product is a third of all, the attention apart.
    assert 0.6 < early / late < 0.8


@pytest.mark.parametrize("batch", [32, 512])
def test_deferred_gradients_of_the_head_fill_the_drain(batch: int) -> None:
    now = situation("llama-3.1-70b", stack_id="nemo", tp=4, pp=4, vpp=5, dp=2, batch=batch)
    then = replace(now, stack=replace(now.stack, deferred_head=False))
    assert 0 <= terms(now)["imbalance"] < terms(then)["imbalance"]
    assert terms(now)["bubble"] == terms(then)["bubble"]


def test_deepspeed_cuts_what_it_sends_over_the_tensor_ranks_both_ways_since_2023() -> None:
    cut = situation(
        "gpt3-175b", gpu_id="a100-sxm-80gb", stack_id="megatron-deepspeed", tp=8, pp=4, dp=1, batch=16
    )
    cut = replace(cut, layout=replace(cut.layout, sp=False))
    half = replace(cut, stack=stack("megatron-deepspeed-2022"))
    whole = replace(cut, stack=replace(cut.stack, split_sends=False, split_gradient_sends=False))
    assert terms(cut)["pp"] < terms(half)["pp"] < terms(whole)["pp"]


def test_fp16_sums_of_deepspeed_travel_in_two_bytes() -> None:
    both = [
        situation(gpu_id="a100-sxm-80gb", stack_id="megatron-deepspeed", precision=p)
        for p in ("fp16", "bf16")
    ]
    assert list(columns(both).grad_bytes) == [2, 4]


def test_bf16_sums_of_deepspeed_are_reduced_for_every_rank() -> None:
    cut = situation("gpt3-175b", gpu_id="a100-sxm-80gb", stack_id="megatron-deepspeed", tp=8, pp=4, dp=8)
    cut = replace(cut, layout=replace(cut.layout, sharding="zero1", precision="bf16"))
    half = replace(cut, layout=replace(cut.layout, precision="fp16"))
    # Twice the bytes, there and back.
    assert terms(cut)["dp_gradients"] / terms(half)["dp_gradients"] == pytest.approx(4, rel=0.01)


def test_a_host_that_need_not_count_tokens_is_sooner_done() -> None:
    counted = situation("qwen3-30b-a3b", stack_id="megatron-bridge", tp=1, pp=1, dp=8, ep=8, batch=64)
    dropped = replace(counted, dropped_tokens=True)
    assert terms(dropped)["host"] < 0.7 * terms(counted)["host"]
    assert np.isclose(terms(dropped)["gemm"], terms(counted)["gemm"])
