"""Laws that every predicted collective obeys, on random groups."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.catalog.clusters import cluster, load_cluster
from assay.errors import InputError, UnknownNameError
from assay.fabric.collective import Options, collective_time
from assay.fabric.curve import SIZES, curve
from assay.fabric.operations import OPERATIONS, busbw_factor, operation
from assay.fabric.parameters import shipped
from assay.fabric.placement import Placement
from assay.fabric.situation import ground

SYSTEMS = st.sampled_from(["dgx-h100", "dgx-a100", "dgx-b200", "hgx-h100-roce", "aws-p5-h100"])
OPS = st.sampled_from(OPERATIONS)
BYTES = st.floats(1, 2.0**36)
NODES = st.integers(1, 64)
PER_NODE = st.sampled_from([1, 2, 4, 8])

laws = settings(max_examples=60, deadline=None)


@laws
@given(system=SYSTEMS, op=OPS, per_node=PER_NODE, nodes=NODES, a=BYTES, b=BYTES)
def test_more_bytes_are_never_sooner_done(
    system: str, op: str, per_node: int, nodes: int, a: float, b: float
) -> None:
    if per_node * nodes < 2:
        return
    times = collective_time(cluster(system), op, [min(a, b), max(a, b)], Placement.of(per_node, nodes))
    assert times.time_s[0] <= times.time_s[1] * (1 + 1e-12)
    assert np.all(times.low_s <= times.time_s)
    assert np.all(times.time_s <= times.high_s)


@laws
@given(
    system=SYSTEMS,
    op=st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "broadcast"]),
    nodes=st.integers(1, 63),
    size=BYTES,
)
def test_more_nodes_are_never_sooner_done_by_a_ring(system: str, op: str, nodes: int, size: float) -> None:
    ring = Options(algorithm="RING")
    times = [
        collective_time(cluster(system), op, size, Placement.of(8, n), options=ring)
        for n in (nodes, nodes + 1)
    ]
    if len(set(map(_choice, times))) == 1:
        assert float(times[0].time_s) <= float(times[1].time_s)


@laws
@given(
    system=st.sampled_from(["dgx-h100", "dgx-a100", "dgx-b200", "l40s-pcie"]),
    op=st.sampled_from(["all_reduce", "all_gather", "all_to_all"]),
    ranks=st.sampled_from([2, 4]),
    size=BYTES,
)
def test_more_ranks_of_a_node_are_never_sooner_done_by_a_ring(
    system: str, op: str, ranks: int, size: float
) -> None:
    ring = Options(algorithm="RING")
    times = [
        collective_time(
            cluster(system), op, size * n if op == "all_to_all" else size, Placement.of(n), options=ring
        )
        for n in (ranks, 2 * ranks)
    ]
    if len(set(map(_choice, times))) == 1:
        assert float(times[0].time_s) <= float(times[1].time_s)


def _choice(times: object) -> str:
    return f"{times.algorithm}{times.protocol}"  # type: ignore[attr-defined]


@laws
@given(system=SYSTEMS, per_node=PER_NODE, nodes=NODES, size=BYTES)
def test_never_under_the_bandwidth_bound_of_the_wires(
    system: str, per_node: int, nodes: int, size: float
) -> None:
    if per_node * nodes < 2:
        return
    found = cluster(system)
    time = float(collective_time(found, "all_gather", size, Placement.of(per_node, nodes)).time_s)
    n = per_node * nodes
    gpu = found.node.gpu
    assert gpu is not None
    assert gpu.links_Bps is not None
    if per_node > 1:
        assert time >= size * (per_node - 1) / n / gpu.links_Bps
    if nodes > 1:
        assert time >= size * (nodes - 1) / nodes / found.node.nic_Bps


@laws
@given(system=SYSTEMS, op=OPS, nodes=st.integers(2, 64))
def test_never_under_the_latency_bound(system: str, op: str, nodes: int) -> None:
    time = float(collective_time(cluster(system), op, 8, Placement.of(8, nodes)).time_s)
    assert time >= 2e-6 + 1.5e-6  # a launch, and one hop of the fastest network


@laws
@given(factor=st.floats(1.0, 8.0), op=OPS, nodes=st.sampled_from([1, 2, 16]))
def test_a_wider_link_is_never_slower(factor: float, op: str, nodes: int) -> None:
    narrow = ground(cluster("dgx-h100"), 8, 1, inter=nodes > 1, nccl=(2, 27), nvls=True, collnet=False)
    wide = dataclasses.replace(narrow, link_Bps=narrow.link_Bps * factor, nic_Bps=narrow.nic_Bps * factor)
    before, after = (curve(g, op, nodes, 1.0, None, "nccl", shipped()).time_s for g in (narrow, wide))
    assert np.all(after <= before * (1 + 1e-9))


def test_arrays_of_sizes_and_groups_broadcast() -> None:
    sizes = np.array([1e3, 1e6, 1e9])[:, None]
    times = collective_time(cluster("dgx-h100"), "all_reduce", sizes, Placement.of([8, 8, 1], [1, 4, 4]))
    assert times.time_s.shape == (3, 3)
    one = collective_time(cluster("dgx-h100"), "all_reduce", 1e6, Placement.of(8, 4))
    assert times.time_s[1, 1] == pytest.approx(float(one.time_s))


def test_a_group_of_one_takes_no_time() -> None:
    times = collective_time(cluster("dgx-h100"), "all_reduce", 1e9, Placement.of(1, 1))
    assert float(times.time_s) == 0.0
    assert float(times.busbw_Bps) == 0.0


def test_groups_that_share_nics_are_slower() -> None:
    alone = collective_time(cluster("dgx-h100"), "all_reduce", 1e9, Placement.of(4, 8))
    both = collective_time(cluster("dgx-h100"), "all_reduce", 1e9, Placement.of(4, 8, concurrent=None))
    assert float(both.time_s) >= float(alone.time_s)


def test_nvls_speeds_up_a_large_all_reduce_in_a_node() -> None:
    on, off = (
        float(
            collective_time(
                cluster("dgx-h100"), "all_reduce", 2**33, Placement.of(8), options=Options(nvls=nvls)
            ).busbw_Bps
        )
        for nvls in (True, False)
    )
    assert on == pytest.approx(476e9, rel=0.05)  # nccl-tests on DGX H100
    assert off == pytest.approx(366e9, rel=0.05)


def test_the_choice_is_the_one_that_was_logged() -> None:
    times = collective_time(cluster("dgx-h200"), "all_reduce", [2.0**20, 2.0**21], Placement.of(8))
    assert [f"{a}/{p}" for a, p in zip(times.algorithm, times.protocol, strict=True)] == [
        "RING/LL",
        "NVLS/SIMPLE",
    ]


def test_hashed_routes_slow_an_all_to_all_between_leaves() -> None:
    fixed, adaptive = (
        float(
            collective_time(
                cluster("hgx-h100-roce"),
                "all_to_all",
                2**30,
                Placement.of(8, 64),
                options=Options(adaptive_routing=on),
            ).time_s
        )
        for on in (False, True)
    )
    assert fixed > adaptive


def test_a_group_that_does_not_fit_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(InputError, match="4 ranks at stride 4 span 13 GPUs, but a node of dgx-h100 has 8"):
        collective_time(cluster("dgx-h100"), "all_reduce", 1e6, Placement.of(4, 1, stride=4))
    with pytest.raises(InputError, match="over 200 nodes, but dgx-h100 has 127"):
        collective_time(cluster("dgx-h100"), "all_reduce", 1e6, Placement.of(8, 200))


def test_unknown_names_suggest() -> None:
    with pytest.raises(UnknownNameError, match="all_reduce"):
        operation("all_reduces")
    with pytest.raises(UnknownNameError, match="nccl"):
        Options(library="ncll")


def test_busbw_factors_are_those_of_nccl_tests() -> None:
    assert float(busbw_factor("all_reduce", 8)) == pytest.approx(1.75)
    assert float(busbw_factor("all_gather", 8)) == pytest.approx(0.875)
    assert float(busbw_factor("broadcast", 8)) == 1.0


def test_an_nvlink_domain_of_several_nodes_counts_as_one() -> None:
    inside = collective_time(cluster("gb200-nvl72"), "all_gather", 2**33, Placement.of(4, 18))
    assert str(inside.bound_by) == "nvlink"
    assert float(inside.busbw_Bps) == pytest.approx(750e9, rel=0.15)


def test_gloo_takes_the_measured_network() -> None:
    text = """\
schema: 1
id: laptops
name: two machines
nodes: 2
node: {gpu: l40s, gpus: 1, interconnect: none, cpu: amd-genoa, nic_rate: 10 Gbit/s, nics: 1}
fabric: {transport: tcp, wiring: opaque, latency: 100 us, node_bandwidth: 1 GB/s}
"""
    times = collective_time(
        load_cluster(text, "laptops.yaml"),
        "all_reduce",
        1e9,
        Placement.of(1, 2),
        options=Options(library="gloo"),
    )
    assert float(times.time_s) == pytest.approx(2 * 100e-6 + 1.0)


def test_a_curve_is_worked_out_at_every_size() -> None:
    found = curve(
        ground(cluster("dgx-h100"), 8, 1, inter=False, nccl=(2, 27), nvls=True, collnet=False),
        "all_reduce", 1, 1.0, None, "nccl", shipped(),
    )  # fmt: skip
    assert np.all(np.diff(found.time_s) >= 0)
    assert found.time_s.shape == SIZES.shape
    assert set(found.algorithm) == {"RING", "NVLS"}


def test_host_memory_that_gpus_share_slows_large_messages_and_not_small_ones() -> None:
    sizes = [2.0**12, 2.0**30]
    two, four = (
        collective_time(cluster("l40s-pcie"), "all_gather", sizes, Placement.of(n)).time_s for n in (2, 4)
    )
    assert four[0] / two[0] < 3
    assert four[1] / two[1] > 4  # three quarters of the bytes for a half, and four times as slow


@pytest.mark.parametrize(
    ("version", "wanted"),
    [((2, 4), {"TREE/LL", "TREE/SIMPLE", "RING/LL", "RING/SIMPLE"}), ((2, 16), {"TREE/LL128"})],
)
def test_versions_choose_among_what_they_have(version: tuple[int, int], wanted: set[str]) -> None:
    sizes = 2.0 ** np.arange(3, 34)
    times = collective_time(
        cluster("dgx-h100"), "all_reduce", sizes, Placement.of(8, 4), options=Options(nccl=version)
    )
    taken = {f"{a}/{p}" for a, p in zip(times.algorithm, times.protocol, strict=True)}
    assert not any("NVLS" in way for way in taken)
    assert taken <= wanted if version < (2, 5) else taken >= wanted


def test_ll_was_slower_before_2_21() -> None:
    old, new = (
        float(
            collective_time(
                cluster("dgx-a100"),
                "all_gather",
                2.0**19,
                Placement.of(8),
                options=Options(nccl=version, algorithm="RING"),
            ).time_s
        )
        for version in ((2, 20), (2, 27))
    )
    assert new < old < 2 * new
