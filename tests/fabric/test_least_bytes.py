"""What calls must move, against the steps of rings and trees that are played here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.domain.attestation import Calls
from assay.fabric.traffic import algorithm_of, least_leaving_bytes, least_nvlink_bytes

OPS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
#: Bytes of a message that divides by every number of ranks below.
SIZE = 8 * 9 * 5 * 7 * 16

clusters = st.tuples(st.integers(1, 8), st.sampled_from([1, 2, 4, 8])).filter(lambda c: c[0] * c[1] > 1)


def calls(op, nodes, here, size=SIZE, count=1):
    return Calls(op=op, bytes=size, ranks=nodes * here, nodes=nodes, here=here, count=count)


def ring(nodes, here, passes):
    """Bytes out of node 0 and between its cards, when each rank hands a block on, n-1 times a pass."""
    n, block = nodes * here, SIZE / (nodes * here)
    out = within = 0.0
    for _ in range(passes * (n - 1)):
        for rank in range(here):
            out, within = (out + block, within) if (rank + 1) // here % nodes else (out, within + block)
    return out, within


@pytest.mark.parametrize(("op", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
@pytest.mark.parametrize("cluster", [(1, 8), (2, 1), (2, 8), (4, 2)])
def test_a_ring_moves_what_its_steps_add_up_to(op, passes, cluster):
    out, within = ring(*cluster, passes)
    assert least_leaving_bytes(calls(op, *cluster), "RING") == pytest.approx(out)
    # On one node the last card passes on to the first as well: its step stays within.
    assert least_nvlink_bytes(calls(op, *cluster), "RING") == pytest.approx(within)


def double_tree(nodes):
    """Bytes out of each node in a sum over two binary trees, each of half the message: up, and down."""
    sent = [0.0] * nodes
    for shift in (0, 1):  # the second tree has its nodes turned by one, so that leaves become parents
        for place in range(nodes):
            parent, children = (place - 1) // 2, [c for c in (2 * place + 1, 2 * place + 2) if c < nodes]
            node = (place + shift) % nodes
            sent[node] += SIZE / 2 * ((parent >= 0 and place > 0) + len(children))
    return sent


@pytest.mark.parametrize("nodes", range(2, 33))
def test_no_node_of_two_trees_sends_less_than_the_bound(nodes):
    assert min(double_tree(nodes)) >= least_leaving_bytes(calls("all_reduce", nodes, 1), "TREE")


@given(
    st.sampled_from(OPS), clusters, st.sampled_from(["RING", "TREE", "NVLS", "NVLS_TREE", "COLLNET_DIRECT"])
)
def test_a_known_algorithm_never_moves_less_than_any_must(op, cluster, algorithm):
    one = calls(op, *cluster)
    assert least_leaving_bytes(one, algorithm) >= least_leaving_bytes(one) >= 0
    known, anyhow = least_nvlink_bytes(one, algorithm), least_nvlink_bytes(one)
    assert anyhow is None or (known is not None and known >= anyhow)


@given(st.sampled_from((*OPS, "send")), clusters, st.integers(1, 1000))
def test_calls_add_up_and_nothing_leaves_a_single_node(op, cluster, count):
    one, many = calls(op, *cluster), calls(op, *cluster, count=count)
    assert least_leaving_bytes(many) == pytest.approx(count * least_leaving_bytes(one))
    assert cluster[0] > 1 or least_leaving_bytes(many) == 0
    assert cluster[1] > 1 or least_nvlink_bytes(many) == 0


def test_a_message_counts_where_it_goes():
    within = Calls(op="send", bytes=100, ranks=2, nodes=1, here=2, count=3)
    between = Calls(op="send", bytes=100, ranks=2, nodes=2, here=1, count=3)
    assert (least_leaving_bytes(within), least_nvlink_bytes(within)) == (0, 300)
    assert (least_leaving_bytes(between), least_nvlink_bytes(between)) == (300, 0)


@pytest.mark.parametrize(
    ("choice", "algorithm"),
    [("RING/LL + RING/SIMPLE", "RING"), ("NVLS/SIMPLE", "NVLS"), ("RING/LL + TREE/LL", None), (None, None)],
)
def test_a_bound_is_taken_by_an_algorithm_only_where_one_is_told(choice, algorithm):
    assert algorithm_of(choice) == algorithm
