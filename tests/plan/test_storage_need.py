"""Checkpoint sizes against printed ones, write times, and what input leaves of the GPUs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_fixtures import small_model

from assay.catalog.models import model
from assay.domain.layout import Layout
from assay.domain.workload import Workload
from assay.errors import InputError
from assay.plan.storage import (
    CLASSES,
    Storage,
    checkpoint,
    checkpoint_bytes,
    input_need,
    rank_bytes,
    scaled,
)

FAST = Storage(
    id="fast",
    read_Bps=100e9,
    write_Bps=50e9,
    node_read_Bps=10e9,
    node_write_Bps=5e9,
    read_4k_per_s=1e6,
    latency_s=1e-3,
)


@pytest.mark.parametrize(
    ("name", "printed_GiB"),
    [("llama-3.1-8b", 105), ("llama-3.1-70b", 920), ("llama-3.1-405b", 5200)],
)
def test_checkpoints_have_the_printed_sizes_once_gb_is_read_as_gib(name: str, printed_GiB: float) -> None:
    size = checkpoint_bytes(Workload(model=model(name), seq_len=8192))
    assert size / 2**30 == pytest.approx(printed_GiB, rel=0.03)


@given(
    tp=st.sampled_from([1, 2, 4]),
    pp=st.sampled_from([1, 2]),
    dp=st.sampled_from([1, 2, 8]),
    sharding=st.sampled_from(["none", "zero1", "zero3"]),
)
def test_what_ranks_write_adds_up_to_the_checkpoint(tp: int, pp: int, dp: int, sharding: str) -> None:
    workload = Workload(model=small_model(), seq_len=2048)
    layout = Layout(tp=tp, pp=pp, dp=dp, sharding=sharding)
    writers = layout.ranks if sharding != "none" else tp * pp
    assert rank_bytes(workload, layout) * writers == pytest.approx(checkpoint_bytes(workload))


def test_a_write_is_bound_by_the_system_or_by_the_nodes_that_write() -> None:
    workload = Workload(model=model("llama-3.1-70b"), seq_len=8192)
    wide = Layout(tp=8, pp=4, dp=16)
    total = checkpoint_bytes(workload)
    assert checkpoint(workload, wide, FAST, nodes=64).write_s == pytest.approx(total / 50e9)
    few = Layout(tp=8, pp=2, dp=1, sharding="none")
    assert checkpoint(workload, few, FAST, nodes=2).write_s == pytest.approx(total / 10e9)


def test_an_asynchronous_save_stops_training_for_the_copy_alone() -> None:
    workload = Workload(model=model("llama-3.1-70b"), seq_len=8192)
    layout = Layout(tp=8, pp=4, dp=16)
    behind = checkpoint(workload, layout, FAST, nodes=64)
    waiting = checkpoint(workload, layout, FAST, nodes=64, asynchronous=False)
    assert behind.blocking_s == pytest.approx(behind.rank_bytes / 12.5e9)
    assert behind.blocking_s < waiting.blocking_s == waiting.write_s
    assert behind.fits_in(behind.write_s)
    assert not behind.fits_in(behind.write_s - behind.blocking_s - 1)


def test_input_is_bound_by_whatever_gives_least() -> None:
    def need(**how: float) -> tuple[float, str]:
        got = input_need(FAST, samples_per_s=how["rate"], sample_bytes=how["size"], nodes=int(how["nodes"]))
        return got.utilisation_frac, got.bound_by

    assert need(rate=10, size=32768, nodes=4) == (1.0, "gpus")
    # Ten nodes read 100 GB/s at most; 3 images of 150 kB a millisecond and node are 4.5e5 kB/ms.
    frac, bound = need(rate=2e6, size=4096, nodes=1000)
    assert (bound, frac) == ("iops", pytest.approx(0.5))
    frac, bound = need(rate=64000, size=4096, nodes=1)
    assert (bound, frac) == ("latency", pytest.approx(0.5))


def test_large_reads_are_bound_by_bandwidth() -> None:
    got = input_need(FAST, samples_per_s=1000, sample_bytes=2e8, nodes=64, read_bytes=1e8)
    assert (got.bound_by, got.utilisation_frac) == ("bandwidth", pytest.approx(0.5))


def test_classes_grow_with_the_cluster_and_are_ordered() -> None:
    for name in ("read_Bps", "write_Bps", "node_read_Bps", "node_write_Bps"):
        good, better, best = (getattr(CLASSES[c], name) for c in ("good", "better", "best"))
        assert good < better < best
    assert scaled(CLASSES["good"], 8).write_Bps == CLASSES["good"].write_Bps
    assert scaled(CLASSES["good"], 128).write_Bps == 4 * CLASSES["good"].write_Bps
    with pytest.raises(InputError, match="read_Bps"):
        Storage(
            id="none",
            read_Bps=0,
            write_Bps=1,
            node_read_Bps=1,
            node_write_Bps=1,
            read_4k_per_s=1,
            latency_s=math.inf,
        )
