"""Fabric results count only where devices counted their bytes: each way to be attested, or not to be."""

import dataclasses

import pytest
from attesting import GB, attestation, busbw, choice, link, reading_of_shares, started

from assay.domain.attestation import Standing
from assay.judge.transport import attest


def codes(carried):
    return [(f.code, str(f.subject)) for f in carried.findings]


def values(carried, quantity="peer.bandwidth"):
    return {str(r.subject): r.value for r in carried.readings if r.quantity == quantity}


def pairs(**how):
    """Node h1 as told, beside a sound h0 and h2."""
    nodes = [attestation("h0", 0), attestation("h2", 2), attestation("h1", 1, **how)]
    return attest([link("h0", "h1"), link("h0", "h2")], nodes)


#: What h1 tells -> the code of its finding.
WAYS = {
    "RDMA counts all": ({"rdma": 10 * GB}, None),
    "RDMA counts more, others send too": ({"rdma": 50 * GB, "netdev": 3 * GB}, None),
    "an Ethernet cluster without RDMA": ({"rdma": None, "netdev": 10 * GB, "network": "Socket"}, None),
    "TCPX over gVNIC": ({"rdma": None, "netdev": 11 * GB, "network": "GPUDirectTCPX_v7"}, None),
    "Gloo knows sockets alone": ({"rdma": 0, "netdev": 10 * GB, "transport": "gloo", "network": ""}, None),
    "shared NVLink between nodes": ({"rdma": 0, "nvlink": 10 * GB, "channels": "P2P/MNNVL"}, None),
    "too little to tell from others' bytes": ({"rdma": 0, "asked": GB // 100}, None),
    "sockets by the counters": ({"rdma": 0, "netdev": 10 * GB, "network": ""}, "TRANSPORT_SOCKETS"),
    "libfabric without EFA": (
        {"rdma": 0, "netdev": 10 * GB, "network": "AWS Libfabric"},
        "TRANSPORT_SOCKETS",
    ),
    "sockets by the log, over IPoIB": (
        {"rdma": 10 * GB, "netdev": 10 * GB, "network": "Socket"},
        "TRANSPORT_SOCKETS",
    ),
    "sockets by the log, counters hidden": (
        {"rdma": "hidden", "netdev": 10 * GB, "network": "Socket"},
        "TRANSPORT_SOCKETS",
    ),
    "no log, counters hidden, others counted": (
        {"rdma": "hidden", "netdev": 10 * GB, "network": ""},
        "TRANSPORT_SOCKETS",
    ),
    "RDMA by the log, counters hidden": ({"rdma": "hidden", "network": "IB"}, "TRANSPORT_UNATTESTED"),
    "the same beside a backup over Ethernet": (
        {"rdma": "hidden", "netdev": 90 * GB, "network": "IB"},
        "TRANSPORT_UNATTESTED",
    ),
    "FasTrak bypasses the kernel": (
        {"rdma": None, "netdev": 0, "network": "FasTrak"},
        "TRANSPORT_UNATTESTED",
    ),
    "a tenth counted": ({"rdma": GB}, "TRANSPORT_UNATTESTED"),
    "NVLink counts, but not between nodes": ({"rdma": 0, "nvlink": 10 * GB}, "TRANSPORT_UNATTESTED"),
    "nothing counts": ({"rdma": "wrapped", "netdev": "wrapped"}, "TRANSPORT_UNATTESTED"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_node_tells_decides_the_links_at_it_alone(way):
    how, code = WAYS[way]
    carried = pairs(**how)
    assert codes(carried) == ([(code, "node:h1")] if code else [])
    assert values(carried) == {"link:h0>h1": None if code else 4e10, "link:h0>h2": 4e10}


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"rdma": "hidden"}, "nothing shows which way the bytes of node h1 went: mlx5_0/1: hidden"),
        ({"rdma": GB}, "node h1 counted 10 % of what had to leave it"),
        (
            {"rdma": 0, "netdev": 10 * GB, "network": ""},
            "node h1 has RDMA ports, but its bytes went over sockets",
        ),
    ],
)
def test_the_reason_of_a_result_that_does_not_count(how, reason):
    (lost,) = [r for r in pairs(**how).readings if r.value is None]
    assert lost.reason == reason


def test_only_the_restart_that_fell_back_to_sockets_is_lost():
    readings = [link("h0", "h1", restart=i) for i in range(3)]
    told = [
        attestation(
            host, rank, replicate=i, rdma=0 if (host, i) == ("h1", 1) else 10 * GB, netdev=10 * GB, network=""
        )
        for rank, host in enumerate(("h0", "h1"))
        for i in range(3)
    ]
    carried = attest(readings, told)
    assert [r.value for r in carried.readings] == [4e10, None, 4e10]
    assert codes(carried) == [("TRANSPORT_SOCKETS", "node:h1")]


def test_collectives_of_all_need_every_node_and_a_choice_needs_none():
    op = [("all_reduce", 10 * GB, 2)]
    told = [
        attestation("h0", 0, benchmark="collectives", calls=op),
        attestation("h1", 1, benchmark="collectives", calls=op, rdma=GB),
    ]
    carried = attest([busbw(10 * GB), choice(10 * GB, "RING/SIMPLE")], told)
    assert values(carried, "collective.all_reduce.busbw") == {"cluster": None}
    assert values(carried, "collective.all_reduce.choice") == {"cluster": "RING/SIMPLE"}


def test_a_training_step_keeps_its_value_and_carries_the_same_attestation():
    told = [attestation("h0", 0, benchmark="training", rdma=0), attestation("h1", 1, benchmark="training")]
    step = dataclasses.replace(busbw(1), quantity="training.step_time", unit="s", value=0.5)
    carried = attest([step], told)
    assert [r.value for r in carried.readings] == [0.5]
    assert codes(carried) == [("TRANSPORT_UNATTESTED", "node:h0")]
    assert [(one.id, one.standing) for one in carried.attested] == [("training", Standing.UNATTESTED)]


def test_where_no_node_is_attested_there_is_one_finding_and_not_one_for_each():
    hosts = [f"h{i}" for i in range(8)]
    told = [attestation(host, rank, rdma="hidden") for rank, host in enumerate(hosts)]
    carried = attest([link("h0", "h1")], told)
    assert codes(carried) == [("TRANSPORT_UNATTESTED", "cluster")]
    assert carried.findings[0].because.code == "because.transport_unseen"


def test_a_node_whose_worker_was_killed_before_it_told_is_not_attested():
    """Only where there is RDMA: elsewhere sockets are the one way, and what it measured before counts."""
    events = [*started("h0", 0, done=True), *started("h1", 1, done=False)]
    carried = attest([link("h0", "h1")], [attestation("h0", 0)], events)
    assert codes(carried) == [("TRANSPORT_UNATTESTED", "node:h1")]
    assert carried.readings[0].reason == "node h1 ended before it told what carried its bytes"
    assert codes(attest([link("h0", "h1")], [], events)) == [("TRANSPORT_UNATTESTED", "node:h1")]
    sockets = [*started("h0", 0, done=True), *started("h1", 1, done=False, proof="none")]
    assert attest([link("h0", "h1")], [attestation("h0", 0)], sockets).findings == ()


@pytest.mark.parametrize(
    ("chosen", "nvlink", "found"),
    [
        ("RING/SIMPLE", 2 * 7 * GB, False),
        ("RING/SIMPLE", 8 * GB, True),  # enough for switches that sum, not for a ring
        ("NVLS/SIMPLE", 9 * GB, False),
        ("NVLS/SIMPLE", 0, True),
        (None, 9 * GB, False),
        (None, None, False),  # no count: unknown, no finding
    ],
)
def test_nvlink_is_held_against_what_the_algorithm_must_move(chosen, nvlink, found):
    one = attestation(
        "h0",
        0,
        benchmark="collectives",
        calls=[("all_reduce", GB, 8, 1, 8)],
        nvlink="driver lacks it" if nvlink is None else nvlink,
        channels="SHM",
    )
    carried = attest([busbw(GB, ranks=8), *([choice(GB, chosen, ranks=8)] if chosen else [])], [one])
    assert codes(carried) == ([("TRANSPORT_NVLINK_IDLE", "node:h0")] if found else [])
    assert carried.readings[0].value == 3e11  # what the node gives as it stands


def test_links_between_single_cards_are_shown_and_nothing_is_asked_of_them():
    one = attestation("h0", 0, benchmark="collectives", calls=[("all_reduce", GB, 4, 1, 4)], nvlink_pair=0)
    carried = attest([busbw(GB, ranks=4)], [one])
    assert carried.findings == ()
    (way,) = [way for way in carried.attested[0].ways if way.over == "nvlink_pair"]
    assert (way.expected_bytes, way.counted_bytes) == (None, 0)


def test_a_rail_that_does_not_carry_its_share_is_named():
    told = [
        attestation(
            host,
            rank,
            benchmark="collectives",
            calls=[("all_reduce", 10 * GB, 2)],
            ports={"mlx5_0/1": 5 * GB, "mlx5_1/1": 5 * GB if host == "h0" else GB // 10, "mlx5_2/1": 5 * GB},
            rails={"mlx5_0/1": 2, "mlx5_1/1": 2},  # mlx5_2 is there for storage
        )
        for rank, host in enumerate(("h0", "h1"))
    ]
    carried = attest([busbw(10 * GB)], told)
    assert codes(carried) == [("TRANSPORT_RAIL_IDLE", "port:h1/mlx5_1[1]")]
    assert carried.readings[0].value == 3e11
    shares = {way.device: (way.expected_bytes, way.counted_bytes) for way in carried.attested[0].rails}
    assert shares["mlx5_1/1"] == (5 * GB, GB // 10)
    assert shares["mlx5_2/1"] == (0, 5 * GB)


def test_every_result_carries_what_was_told_and_why_the_rest_is_not_known():
    op = [("all_reduce", 10 * GB, 2), ("all_reduce", 8, 2)]
    told = [
        attestation("h0", 0, benchmark="collectives", calls=op),
        attestation("h1", 1, benchmark="collectives", calls=op, rdma=11 * GB, version="2.26.2"),
    ]
    readings = [
        busbw(10 * GB),
        busbw(8),
        choice(10 * GB, "RING/SIMPLE"),
        choice(10 * GB, "none", "registration"),
    ]
    large, small = attest(readings, told).attested
    assert [large.id, small.id] == [
        f"collectives/all_reduce/{10 * GB}/2",
        "collectives/all_reduce/8/2",
    ]
    assert (large.algorithm.value, large.registration.value) == ("RING/SIMPLE", "none")
    assert small.algorithm.reason == "this run did not log it for this call: the benchmark `choices` does"
    assert large.version.value == "2.26.2 (ranks: 1) | 2.27.3 (ranks: 1)"
    assert large.plugin.reason == "the log names no plugin for the network"
    (rdma,) = [way for way in large.ways if way.over == "rdma"]
    assert (rdma.node, rdma.counted_bytes) == ("h0", 10 * GB)  # where the share is lowest
    assert rdma.expected_bytes == pytest.approx(10 * GB, rel=1e-6)
    assert large.standings == ((Standing.ATTESTED, 2),)


def test_shares_of_older_runs_are_judged_as_before():
    sound = reading_of_shares("h0", rdma=1.0, netdev=0.0)
    for rdma, netdev, transport, code in (
        (1.02, 0.0, "nccl", None),
        (None, 1.1, "nccl", None),
        (0.0, 1.1, "gloo", None),
        (0.0, 1.1, "nccl", "TRANSPORT_SOCKETS"),
        (0.0, 0.01, "nccl", "TRANSPORT_UNATTESTED"),
        (None, None, "nccl", "TRANSPORT_UNATTESTED"),
    ):
        bad = reading_of_shares("h1", rdma=rdma, netdev=netdev, transport=transport)
        carried = attest([*sound, *bad, link("h0", "h1"), link("h0", "h2")])
        assert codes(carried) == ([(code, "node:h1")] if code else [])
        assert values(carried) == {"link:h0>h1": None if code else 4e10, "link:h0>h2": 4e10}
        assert carried.attested == ()


def test_runs_that_told_nothing_are_left_as_they_are():
    assert attest([link("h0", "h1")]).readings == (link("h0", "h1"),)
