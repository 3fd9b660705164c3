"""The shipped graphs are what the search finds."""

import pytest

from assay.catalog.clusters import cluster
from assay.fabric.nccl.climb import find_graphs
from assay.fabric.nccl.known import graphs_of, key_of, row_of


@pytest.mark.parametrize("name", ["dgx-h100", "dgx-a100", "gb200-nvl72"])
@pytest.mark.parametrize("inter", [False, True])
def test_looked_up_graphs_equal_searched_ones(name: str, inter: bool) -> None:
    node = cluster(name).node
    gpus = tuple(range(len(node.gpus)))
    known = graphs_of(node, gpus, inter=inter, collnet=False, version=(2, 27))
    assert row_of(known) == row_of(find_graphs(node, gpus, inter=inter, version=(2, 27)))


def test_a_node_of_another_name_has_the_same_key() -> None:
    keys = {
        key_of(cluster(name).node, (0, 1), inter=False, collnet=False, era=(2, 27))
        for name in ("dgx-h100", "hgx-h100-roce")
    }
    assert len(keys) == 1
