"""Fabric results count only where devices counted their bytes."""

import pytest
from judging import reading

from assay.domain.recipe import Recipe
from assay.judge.transport import attest

LINK = Recipe.of(bytes=4096, transport="nccl", statistic="median", span="nodes", load="round")


def counted(node, rdma, netdev, benchmark="pairs", transport="nccl"):
    return [
        reading(
            share,
            subject=f"node:{node}",
            id="network.counted_share",
            recipe=Recipe.of(benchmark=benchmark, over=over, transport=transport),
            reason=None if share is not None else "no device counts bytes",
            source="rank-0000.jsonl:9",
        )
        for over, share in (("rdma", rdma), ("netdev", netdev))
    ]


def link(near, far):
    return reading(4e10, subject=f"link:{near}>{far}", id="peer.bandwidth", recipe=LINK)


def codes(carried):
    return [(f.code, str(f.subject)) for f in carried.findings]


@pytest.mark.parametrize(
    ("rdma", "netdev", "transport", "code"),
    [
        (1.02, 0.0, "nccl", None),
        (None, 1.1, "nccl", None),  # an Ethernet cluster without RDMA
        (0.0, 1.1, "gloo", None),  # Gloo knows sockets alone
        (0.0, 1.1, "nccl", "TRANSPORT_SOCKETS"),
        (0.0, 0.01, "nccl", "TRANSPORT_UNATTESTED"),
        (None, None, "nccl", "TRANSPORT_UNATTESTED"),
    ],
)
def test_what_the_counters_show(rdma, netdev, transport, code):
    carried = attest([*counted("h1", rdma, netdev, transport=transport), link("h0", "h1"), link("h0", "h2")])
    assert codes(carried) == ([(code, "node:h1")] if code else [])
    values = {str(r.subject): r.value for r in carried.readings if r.quantity == "peer.bandwidth"}
    assert values == {"link:h0>h1": None if code else 4e10, "link:h0>h2": 4e10}


def test_collectives_of_all_need_every_node():
    recipe = Recipe.of(bytes=1, ranks=2, dtype="fp32", transport="nccl", method="pipelined", statistic="mean")
    busbw = reading(3e11, subject="cluster", id="collective.all_reduce.busbw", recipe=recipe)
    carried = attest(
        [*counted("h0", 1.0, 0.0, "collectives"), *counted("h1", 0.1, 0.0, "collectives"), busbw]
    )
    (left,) = [r for r in carried.readings if r.quantity == busbw.quantity]
    assert left.value is None
    assert left.reason == "node h1 counted 10 % of what had to leave it"


def test_leaves_need_their_nodes_and_a_choice_needs_none():
    leaf = Recipe.of(bytes=1, ranks=2, transport="nccl", load="alone", statistic="mean")
    busbw = reading(3e11, subject="group:leaf0", id="leaf.all_reduce.busbw", recipe=leaf)
    choice = reading(
        "RING/SIMPLE", subject="cluster", id="collective.all_reduce.choice", recipe=leaf.without(["load"])
    )
    bad = [*counted("h0", 0.0, 1.0, "groups"), *counted("h0", 0.1, 0.0, "collectives")]
    values = {r.quantity: r.value for r in attest([*bad, busbw, choice]).readings}
    assert values["leaf.all_reduce.busbw"] is None
    assert values["collective.all_reduce.choice"] == "RING/SIMPLE"


def test_runs_that_counted_nothing_are_left_as_they_are():
    assert attest([link("h0", "h1")]).readings == (link("h0", "h1"),)
