"""Layouts: what multiplies out, what does not, and the words that say so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.domain.layout import Layout, parse_layout
from assay.errors import InputError, UnknownNameError


def test_data_parallel_degree_fills_the_gpus() -> None:
    found = parse_layout("tp=4,pp=4,vpp=5,cp=2", gpus=1024)
    assert (found.dp, found.ranks, found.schedule) == (32, 1024, "interleaved")


def test_a_layout_that_does_not_multiply_out_says_the_product() -> None:
    layout = Layout(tp=8, pp=4, dp=3)
    with pytest.raises(
        InputError, match=r"tp × pp × cp × dp = 8 × 4 × 1 × 3 = 96, but the cluster has 128 GPUs"
    ):
        layout.check(gpus=128, layers=96, heads=96, seq_len=2048)


def test_degrees_that_do_not_divide_the_gpus_say_the_product() -> None:
    with pytest.raises(InputError, match=r"tp × pp × cp = 3 × 1 × 1 = 3 does not divide 8 GPUs") as caught:
        parse_layout("tp=3", gpus=8)
    assert "take 6 or 9 GPUs" in str(caught.value)


def test_what_does_not_divide_names_its_neighbours_that_do() -> None:
    with pytest.raises(InputError, match="does not divide tp × cp × dp") as caught:
        parse_layout("tp=4,ep=3", gpus=16)
    assert "2 or 4" in str(caught.value)
    with pytest.raises(InputError, match="tp = 16 does not divide 40") as caught:
        Layout(tp=16).check(gpus=16, layers=4, heads=40, seq_len=64)
    assert "10 or 20" in str(caught.value)


def test_an_unknown_key_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown layout key 'microbatch'") as caught:
        parse_layout("microbatch=2", gpus=8)
    assert "micro_batch" in str(caught.value)


def test_an_unknown_recompute_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="recompute"):
        parse_layout("recompute=selctive", gpus=8)


@pytest.mark.parametrize(
    ("text", "sharding"), [("sharding=fsdp", "zero3"), ("zero=2", "zero2"), ("zero=0", "none")]
)
def test_sharding_is_understood_as_people_say_it(text: str, sharding: str) -> None:
    assert parse_layout(text, gpus=8).sharding == sharding


def test_a_batch_that_does_not_divide_shows_the_numbers_and_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"global batch 100 is no multiple of dp × micro_batch = 16 × 2 = 32"
    ) as e:
        Layout(dp=16, micro_batch=2).micro_batches(100)
    assert "take 96" in str(e.value)


def test_expert_degrees_must_divide_what_they_are_carved_from() -> None:
    with pytest.raises(
        InputError, match=r"ep × etp = 3 × 1 = 3 does not divide tp × cp × dp = 1 × 1 × 8 = 8"
    ):
        Layout(dp=8, ep=3)


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 64),
)
def test_ranks_are_the_product_of_the_degrees(tp: int, pp: int, cp: int, dp: int) -> None:
    assert Layout(tp=tp, pp=pp, cp=cp, dp=dp).ranks == tp * pp * cp * dp
