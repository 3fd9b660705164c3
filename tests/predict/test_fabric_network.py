"""The fabric's own model behind a prediction's network calls."""

import numpy as np
import pytest

from assay.catalog.clusters import cluster, cluster_ids
from assay.errors import InputError
from assay.predict.fabric_network import FabricNetwork, SharpNetwork
from assay.predict.network import LinkNetwork

RANKS = np.array([1, 2, 4, 8, 16, 64, 2, 8, 2, 8])
STRIDE = np.array([1, 1, 1, 1, 1, 1, 8, 8, 72, 72])


@pytest.mark.parametrize("name", cluster_ids())
def test_every_shipped_system_answers_every_group(name: str) -> None:
    described = cluster(name)
    network = FabricNetwork(described.of(max(described.count, 144)))
    for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        times = network.time_s(op, 1e8, RANKS, STRIDE)
        assert np.all(np.isfinite(times))
        assert times[0] == 0.0
        assert np.all(times[1:] > 0)


def test_ranks_of_one_nvlink_domain_use_nvlink_however_far_apart() -> None:
    network = FabricNetwork(cluster("gb200-nvl72"))
    assert network.nodes([2, 2, 2], [1, 36, 72]).tolist() == [1, 1, 2]
    near, far, out = network.time_s("all_reduce", 1e9, [2, 2, 2], [1, 36, 72])
    assert far == pytest.approx(near)
    # One rank of each of 72 places has one of 72 NICs: 1e9 bytes over 50 GB/s.
    assert out == pytest.approx(20e-3, rel=0.1)


def test_groups_side_by_side_share_the_nics() -> None:
    network = FabricNetwork(cluster("dgx-h100"))
    one, eight = network.time_s("all_gather", 1e9, [16, 2], [1, 8])
    # A ring over 16 ranks uses 8 NICs; 8 groups of 2 have one each.
    assert eight > 3 * one


def test_switches_that_add_shorten_what_nodes_all_reduce_and_nothing_else() -> None:
    described = cluster("dgx-h100").of(16)
    plain = LinkNetwork.of(described)
    sharp = SharpNetwork(plain, described)
    ranks, stride = np.array([8, 16, 128]), np.array([1, 8, 1])
    with_s, without_s = (one.time_s("all_reduce", 1e8, ranks, stride) for one in (sharp, plain))
    assert with_s[0] == without_s[0]
    assert with_s[1] < without_s[1]
    assert with_s[2] <= without_s[2]
    for op in ("all_gather", "reduce_scatter", "all_to_all"):
        np.testing.assert_array_equal(
            sharp.time_s(op, 1e8, ranks, stride), plain.time_s(op, 1e8, ranks, stride)
        )


def test_switches_that_cannot_add_are_not_asked_to() -> None:
    described = cluster("hgx-h100-roce").of(16)
    with pytest.raises(InputError, match="do not add up"):
        SharpNetwork(LinkNetwork.of(described), described).time_s("all_reduce", 1e8, [16], [8])
