"""A step's time: terms that add up, limits, and columns that equal single predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predict_fixtures import h100_network, situation

from assay.domain.layout import Layout
from assay.errors import InputError
from assay.predict.doubt import class_of, extrapolations, width
from assay.predict.network import LinkNetwork
from assay.predict.physics import FITTED, Physics
from assay.predict.prediction import predict, require_fit, speedup_frac
from assay.predict.sensitivity import sensitivity
from assay.predict.situation import Situation, columns, with_layouts
from assay.predict.step import TERMS, step_times
from assay.predict.timeline import StageTimes, pipeline

layouts = st.builds(
    Layout,
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.sampled_from([1, 2, 4, 8]),
    cp=st.sampled_from([1, 2]),
    dp=st.sampled_from([1, 2, 8, 32]),
    micro_batch=st.sampled_from([1, 2]),
    sharding=st.sampled_from(["none", "zero1", "zero2", "zero3"]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    precision=st.sampled_from(["bf16", "fp8", "mxfp8"]),
)


def base(layout: Layout, batch: int = 512) -> Situation:
    return replace(situation(), layout=layout, global_batch=batch)


@settings(deadline=None, max_examples=25)
@given(layouts)
def test_terms_add_up_and_are_never_negative(layout: Layout) -> None:
    steps = step_times(columns([base(layout)]), h100_network(), FITTED)
    assert set(steps.terms) == set(TERMS)
    assert sum(float(v[0]) for v in steps.terms.values()) == pytest.approx(float(steps.time_s[0]))
    assert all(float(v[0]) >= -1e-12 for v in steps.terms.values())


@settings(deadline=None, max_examples=25)
@given(layouts)
def test_no_step_is_faster_than_its_model_flops_at_peak(layout: Layout) -> None:
    result = predict(base(layout), h100_network())
    assert result.mfu_frac is not None
    assert 0 < result.mfu_frac < 0.9


@settings(deadline=None, max_examples=25)
@given(layouts)
def test_full_recomputation_is_never_faster_and_never_needs_more_memory(layout: Layout) -> None:
    plain = predict(base(replace(layout, recompute="none")), h100_network())
    full = predict(base(replace(layout, recompute="full")), h100_network())
    assert full.step_time_s.value >= plain.step_time_s.value * (1 - 1e-9)
    assert full.memory_bytes["activations"] <= plain.memory_bytes["activations"] * 1.6


@settings(deadline=None, max_examples=25)
@given(st.lists(layouts, min_size=2, max_size=6))
def test_a_grid_of_layouts_equals_each_alone(several: list[Layout]) -> None:
    together = step_times(with_layouts(base(several[0]), several), h100_network(), FITTED).time_s
    alone = [float(step_times(columns([base(one)]), h100_network(), FITTED).time_s[0]) for one in several]
    assert np.asarray(together) == pytest.approx(alone)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from([2, 4, 8]), st.sampled_from([1, 2, 4]), st.integers(1, 4))
def test_the_bubble_is_that_of_the_simulated_pipeline(pp: int, vpp: int, rounds: int) -> None:
    m = pp * rounds
    passes = pipeline(StageTimes(forward_s=1.0, backward_s=2.0), pp=pp, vpp=vpp, micro_batches=m)
    makespan = max(one.end_s for one in passes)
    assert makespan == pytest.approx(3.0 * m + 3.0 * (pp - 1) / vpp)


def test_interleaving_shrinks_the_bubble_and_zero_bubble_shrinks_it_too(network: LinkNetwork) -> None:
    plain = predict(situation(dp=2, batch=32), network).breakdown_s["bubble"]
    interleaved = situation(dp=2, batch=32, vpp=6, schedule="interleaved")
    zero = situation(dp=2, batch=32, schedule="zero-bubble")
    assert predict(interleaved, network).breakdown_s["bubble"] < 0.5 * plain
    assert predict(zero, network).breakdown_s["bubble"] < 0.6 * plain


def test_a_faster_wire_is_never_slower(network: LinkNetwork) -> None:
    one = situation(pp=1, tp=8, dp=64, sharding="zero3", batch=1024, stack_id="fsdp")
    faster = replace(network, nic_Bps=network.nic_Bps * 2, link_Bps=network.link_Bps * 2)
    assert predict(one, faster).step_time_s.value <= predict(one, network).step_time_s.value


def test_weak_scaling_loses_a_little_and_not_much(network: LinkNetwork) -> None:
    small = predict(situation(dp=2, batch=128), network).tokens_per_s_per_gpu
    large = predict(situation(dp=256, batch=128 * 128), network).tokens_per_s_per_gpu
    assert 0.9 < large / small < 1.0


def test_the_interval_holds_the_value_and_widens_when_extrapolated(network: LinkNetwork) -> None:
    one = situation()
    far = situation(dp=512, batch=1024 * 8)
    near_result, far_result = predict(one, network), predict(far, network)
    assert near_result.step_time_s.low < near_result.step_time_s.value < near_result.step_time_s.high
    assert not extrapolations(one)
    assert "32768 GPUs" in far_result.extrapolated[0]
    assert width(far) > width(one)
    assert class_of(one) == "dense hopper"


def test_sensitivity_says_when_an_input_changed_nothing(network: LinkNetwork) -> None:
    effects = {effect.input: effect for effect in sensitivity(situation(), network)}
    assert effects["time of matrix products"].step_frac > 0.03
    assert not effects["expert traffic"].changes
    assert not effects["time of quantisation"].changes


def test_the_speedup_against_one_replica_is_below_one(network: LinkNetwork) -> None:
    one = situation(dp=16, batch=1536)
    ratio = speedup_frac(predict(one, network), lambda nodes: network, node_gpus=8)
    assert ratio is not None
    assert 0.9 < ratio <= 1.0


def test_a_model_that_does_not_fit_names_the_term_and_the_change(network: LinkNetwork) -> None:
    one = situation(tp=2, pp=4, dp=16, micro_batch=4, batch=1024)
    result = predict(one, network)
    assert not result.fits
    with pytest.raises(InputError, match="the largest term is") as caught:
        require_fit(result)
    assert caught.value.fix is not None


def test_days_follow_from_tokens_and_rate(network: LinkNetwork) -> None:
    result = predict(situation(), network)
    tokens_per_s = result.tokens_per_s_per_gpu * 1024
    assert result.days(tokens_per_s * 86400 * 3) == pytest.approx(3)


def test_physics_survives_the_trip_through_its_vector() -> None:
    assert Physics.of(FITTED.vector()) == FITTED
    assert len(Physics.names()) == len(Physics.widths())


def test_router_imbalance_slows_experts(network: LinkNetwork) -> None:
    even = situation("mixtral-8x7b", tp=1, pp=1, dp=32, ep=8, batch=256)
    uneven = replace(even, workload=replace(even.workload, imbalance=1.5))
    assert predict(uneven, network).step_time_s.value > predict(even, network).step_time_s.value * 1.1


def test_short_packed_documents_make_attention_cheaper(network: LinkNetwork) -> None:
    one = situation("llama-3.1-8b", tp=1, pp=1, dp=16, batch=64)
    packed = replace(one, workload=replace(one.workload, packed_len=512))
    assert (
        predict(packed, network).breakdown_s["attention"] < predict(one, network).breakdown_s["attention"] / 3
    )


def test_a_rank_inside_an_island_gets_each_token_once() -> None:
    # Mixtral: 2 of 8 experts on 8 ranks; a token meets 8·(1 − (7/8)²) = 1.875 of them instead of 2.
    once = situation("mixtral-8x7b", batch=64, stack_id="megatron-bridge", tp=1, pp=1, dp=8, ep=8)
    copies = replace(once, stack=replace(once.stack, ep_once_a_node=False))
    sent = [float(step_times(columns([c]), h100_network(), FITTED).terms["ep"][0]) for c in (once, copies)]
    assert sent[0] / sent[1] == pytest.approx(1.875 / 2)


@pytest.mark.parametrize(
    ("gpu_id", "precision", "moved_bytes"),
    [("h100-sxm", "fp8", 4), ("b200", "fp8", 3), ("b200", "fp8-current", 5), ("b200", "mxfp8", 4.1)],
)
def test_blackwell_needs_no_transposed_copy_of_whole_tensor_scales(
    gpu_id: str, precision: str, moved_bytes: float
) -> None:
    assert columns([situation(gpu_id=gpu_id, precision=precision)]).cast_bytes[0] == moved_bytes


@pytest.mark.parametrize(
    ("stack_id", "precision", "moved_bytes"),
    [
        ("megatron", "bf16", 6),
        ("torchtitan", "bf16", 12),
        ("megatron-deepspeed", "fp16", 6),
        ("megatron-deepspeed", "bf16", 18),
    ],
)
def test_gradient_sums_follow_the_stack_and_the_precision(
    stack_id: str, precision: str, moved_bytes: float
) -> None:
    one = columns([situation(gpu_id="a100-sxm-80gb", stack_id=stack_id, precision=precision)])
    assert one.sum_bytes[0] == moved_bytes


def test_numbers_of_one_kind_share_most_of_their_prior() -> None:
    names, cov = Physics.names(), Physics.covariance()
    at = {name: names.index(name) for name in names}
    assert np.allclose(np.sqrt(np.diag(cov)), Physics.widths())
    assert np.all(np.linalg.eigvalsh(cov) > 0)
    alike, apart = (cov[at["traffic_ampere"], at[other]] for other in ("traffic_blackwell", "cast_blackwell"))
    assert alike > 0
    assert apart == 0
