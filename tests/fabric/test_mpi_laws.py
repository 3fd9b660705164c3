"""Laws and published costs of MPI's collectives."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.catalog.clusters import cluster
from assay.errors import UnknownNameError
from assay.fabric.collective import Options, collective_time
from assay.fabric.mpi import ALGORITHMS, Wires, wires_of
from assay.fabric.mpich import mpi_times, ways
from assay.fabric.operations import OPERATIONS
from assay.fabric.placement import Placement

laws = settings(max_examples=80, deadline=None)
OPS = st.sampled_from(OPERATIONS)
BYTES = st.floats(1, 2.0**34)
PAIRS = st.sampled_from([(op, name) for op in ALGORITHMS for name in ALGORITHMS[op]])


@st.composite
def wires(draw: st.DrawFn) -> Wires:
    """Any group of at least two ranks."""
    nodes = draw(st.integers(1, 40))
    port = draw(st.floats(1e9, 1e11))
    return Wires(
        per_node=draw(st.integers(2 if nodes == 1 else 1, 9)),
        nodes=nodes,
        node_s=5e-7,
        net_s=draw(st.floats(5e-7, 5e-5)),
        link_Bps=draw(st.floats(1e9, 1e12)),
        port_Bps=port,
        nic_Bps=port * draw(st.sampled_from([1, 2, 8])),
        add_Bps=draw(st.floats(1e9, 1e12)),
    )


@laws
@given(w=wires(), op=OPS, size=BYTES)
def test_never_under_the_latency_bound(w: Wires, op: str, size: float) -> None:
    steps = 1 if op == "send_recv" else math.ceil(math.log2(w.ranks))
    across = 1 if op == "send_recv" and w.nodes > 1 else math.ceil(math.log2(w.nodes))
    time = mpi_times(op, w, np.array([size])).time_s[0]
    assert time >= max(steps * w.node_s, across * w.net_s) * (1 - 1e-12)


@laws
@given(w=wires(), pair=PAIRS, size=BYTES)
def test_never_under_the_bandwidth_bound(w: Wires, pair: tuple[str, str], size: float) -> None:
    op, name = pair
    sizes = np.array([size])
    n, g = w.ranks, w.per_node
    twice = 2 if op == "all_reduce" else 1
    # What a node must send or receive, whoever of its ranks does it.
    away = {"all_to_all": g * (n - g) / n, "send_recv": g if w.nodes > 1 else 0}
    least_s = size * away.get(op, twice * (w.nodes - 1) / w.nodes) / w.nic_Bps
    if w.nodes == 1:
        whole = op in ("send_recv", "broadcast", "reduce")
        least_s = size * (1 if whole and name != "RING" else twice * (g - 1) / g) / w.link_Bps
        if op in ("broadcast", "reduce") and name != "BINOMIAL":
            least_s = size * (g - 1) / g / w.link_Bps
    assert mpi_times(op, w, sizes, name).time_s[0] >= least_s * (1 - 1e-9)
    assert mpi_times(op, w, sizes).time_s[0] >= (least_s if w.nodes > 1 else 0) * (1 - 1e-9)


@laws
@given(w=wires(), op=OPS, a=BYTES, b=BYTES)
def test_more_bytes_are_never_sooner_done(w: Wires, op: str, a: float, b: float) -> None:
    edges = [way.limit_bytes for way in ways(op, w)[:-1]]
    sizes = np.sort(np.array([a, b, *edges, *(edge * (1 + 1e-9) for edge in edges)]))
    assert np.all(np.diff(mpi_times(op, w, sizes).time_s) >= -1e-15)


@laws
@given(w=wires(), pair=PAIRS, per_node=st.sampled_from([1, 2, 4, 8]), bit=st.integers(1, 6), size=BYTES)
def test_twice_the_nodes_are_never_sooner_done_by_one_algorithm(
    w: Wires, pair: tuple[str, str], per_node: int, bit: int, size: float
) -> None:
    # As in any machine: inside a node nothing is slower than between nodes.
    fast = dataclasses.replace(w, link_Bps=max(w.link_Bps, w.port_Bps), per_node=per_node)
    few, many = (
        mpi_times(pair[0], dataclasses.replace(fast, nodes=2**power), np.array([size]), pair[1]).time_s[0]
        for power in (bit, bit + 1)
    )
    assert few <= many * (1 + 1e-9)


@laws
@given(w=wires(), op=OPS, size=BYTES, factor=st.floats(1.0, 8.0))
def test_a_wider_link_is_never_slower(w: Wires, op: str, size: float, factor: float) -> None:
    wide = dataclasses.replace(
        w, link_Bps=w.link_Bps * factor, port_Bps=w.port_Bps * factor, nic_Bps=w.nic_Bps * factor
    )
    before, after = (mpi_times(op, x, np.array([size])).time_s[0] for x in (w, wide))
    assert after <= before * (1 + 1e-12)


#: Eight nodes with one rank each, so that every step costs α + bytes·β: β 1e-10 s, γ 1e-11 s, α 2 µs.
EIGHT = Wires(
    per_node=1, nodes=8, node_s=1e-6, net_s=2e-6, link_Bps=1e11, port_Bps=1e10, nic_Bps=1e10, add_Bps=1e11
)


@pytest.mark.parametrize(
    ("op", "name", "starts", "sent", "added"),
    [
        ("all_reduce", "DOUBLING", 3, 3, 3),
        ("all_reduce", "RABENSEIFNER", 6, 14 / 8, 7 / 8),
        ("all_reduce", "RING", 14, 14 / 8, 7 / 8),
        ("all_gather", "DOUBLING", 3, 7 / 8, 0),
        ("all_gather", "BRUCK", 3, 7 / 8, 0),
        ("all_gather", "RING", 7, 7 / 8, 0),
        ("reduce_scatter", "HALVING", 3, 7 / 8, 7 / 8),
        ("reduce_scatter", "PAIRWISE", 7, 7 / 8, 7 / 8),
        ("all_to_all", "BRUCK", 3, 3 / 2, 0),
        ("all_to_all", "PAIRWISE", 7, 7 / 8, 0),
        ("broadcast", "BINOMIAL", 3, 3, 0),
        ("broadcast", "SCATTER_DOUBLING", 6, 14 / 8, 0),
        ("broadcast", "SCATTER_RING", 10, 14 / 8, 0),
        ("reduce", "BINOMIAL", 3, 3, 3),
        ("reduce", "RABENSEIFNER", 6, 14 / 8, 7 / 8),
    ],
)
def test_costs_are_the_published_ones(op: str, name: str, starts: int, sent: float, added: float) -> None:
    time = mpi_times(op, EIGHT, np.array([1e6]), name).time_s[0]
    assert time == pytest.approx(starts * 2e-6 + sent * 1e6 * 1e-10 + added * 1e6 * 1e-11)


def test_mpich_changes_where_its_defaults_say() -> None:
    found = mpi_times("all_reduce", EIGHT, np.array([2048.0, 2049.0]))
    assert list(found.algorithm) == ["DOUBLING", "RABENSEIFNER"]
    found = mpi_times("broadcast", EIGHT, np.array([12288.0, 12289.0, 524289.0]))
    assert list(found.algorithm) == ["BINOMIAL", "SCATTER_DOUBLING", "SCATTER_RING"]
    found = mpi_times("all_to_all", EIGHT, np.array([2048.0, 2049.0]))
    assert list(found.algorithm) == ["BRUCK", "PAIRWISE"]


def test_ranks_of_a_node_share_its_nic() -> None:
    four = dataclasses.replace(EIGHT, per_node=4, nodes=2)
    exchanged = mpi_times("send_recv", four, np.array([1e9])).time_s[0]
    assert exchanged == pytest.approx(4 * 1e9 * 1e-10, rel=1e-4)


def test_a_small_all_reduce_goes_node_by_node() -> None:
    two = dataclasses.replace(EIGHT, per_node=4, nodes=2)
    found = mpi_times("all_reduce", two, np.array([8.0]))
    assert f"{found.algorithm[0]}/{found.protocol[0]}" == "DOUBLING/SMP"
    # Two steps in the node to the leader, one between leaders, two back.
    assert found.time_s[0] == pytest.approx(4 * 1e-6 + 2e-6, rel=1e-3)


def test_a_cluster_says_what_a_message_costs() -> None:
    found = wires_of(cluster("dgx-h100"), 8, 1, 16, 1.0)
    assert found.port_Bps == 50e9
    assert found.nic_Bps == 400e9
    assert found.net_s == pytest.approx(1.3e-6)
    times = collective_time(
        cluster("dgx-h100"), "all_reduce", [8, 2**30], Placement.of(8, 16), options=Options(library="mpi")
    )
    assert times.extrapolated == ("mpi",)
    assert np.all(times.low_s < times.time_s)
    assert np.all(times.time_s < times.high_s)


def test_an_algorithm_that_an_operation_lacks_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="RABENSEIFNER"):
        mpi_times("all_reduce", EIGHT, np.array([8.0]), "RABENSEIFER")
