"""What NCCL is modelled to choose, against what NCCL 2.27.7 and 2.30.7 chose (validation/nccl_choices)."""

from pathlib import Path

import pytest

from assay.domain.cluster import Node
from assay.errors import InputError
from assay.fabric.nccl.climb import find_graphs
from assay.fabric.validate import validate_choices
from assay.formats.nccl_topo import parse_topology

FOLDER = Path(__file__).parents[2] / "validation" / "nccl_choices"
QUICK = ("dgxa100", "dgxh100", "h100_ib200", "pcie_l40s_sys", "tcp25_v100", "a100pcie_nvbridge")


def topology(name: str) -> Node:
    return parse_topology((FOLDER / name).read_text(encoding="utf-8").splitlines(), name)


def test_choices_agree_with_nccl() -> None:
    files = [
        (file.name, file.read_text(encoding="utf-8"))
        for file in sorted(FOLDER.glob("*.json"))
        if any(f"_{system}_n" in file.name for system in QUICK)
    ]
    result = validate_choices(files, topology)
    score = result.groups["all"]
    assert score.n > 3000
    assert score.agreement_frac is not None
    assert score.agreement_frac >= 0.99
    assert score.graphs_equal_frac is not None
    assert score.graphs_equal_frac >= 0.95


def test_a_mesh_whose_trees_do_not_fit_falls_back_as_nccl_does() -> None:
    graphs = find_graphs(topology("a100_4nvl_mesh.xml"), range(4), inter=True, version=(2, 27))
    assert graphs.ring.count == 4
    assert graphs.tree.bw_inter == 100  # NCCL's token speed, 0.1 GB/s


def test_a_node_without_nics_is_searched_as_if_alone() -> None:
    node = topology("h100_nonet.xml")
    alone, many = (find_graphs(node, range(8), inter=inter) for inter in (False, True))
    assert (alone.ring.count, alone.ring.bw_intra) == (many.ring.count, many.ring.bw_intra)


def test_a_file_that_lacks_a_part_is_told() -> None:
    with pytest.raises(InputError, match="lacks xml"):
        validate_choices([("x.json", '{"nccl": "2.27.7"}')], topology)
