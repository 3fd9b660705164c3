"""Fabrics of the public reference architectures, printed misprints named, and what growing moves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_fixtures import h100, named_job

from assay.catalog.clusters import cluster
from assay.catalog.reference_fabrics import ReferenceFabric, reference, reference_fabrics
from assay.errors import InputError
from assay.fabric.sizing import size_fabric
from assay.plan.growth import fabric_of, grow, materials, moved, stages


@pytest.mark.parametrize("row", reference_fabrics().values(), ids=lambda row: row.id)
def test_reference_fabrics_come_out_as_printed(row: ReferenceFabric) -> None:
    size = size_fabric(row.nodes, rails=8, radix=row.radix)
    planes = row.planes
    assert size.leaf * planes == row.leaf
    # What a reference builds beyond its need is named, and never less than what is needed.
    assert (size.spine * planes == row.spine) != bool(row.beyond)
    assert size.spine * planes <= row.spine
    assert size.core * planes == row.core
    assert size.node_leaf_cables + row.ufm_ports == row.node_leaf
    assert size.leaf_spine_cables == row.leaf_spine
    assert size.spine_core_cables == row.spine_core
    assert (row.gpus == row.nodes * 8) != bool(row.misprint)


def test_the_misprinted_row_says_what_it_should_be() -> None:
    (row,) = reference(nodes=1296, radix=144)
    assert row.gpus == 9216
    assert "10,368" in row.misprint


@given(st.integers(1, 400), st.integers(1, 400))
def test_a_larger_fabric_needs_no_fewer_cables_and_moves_no_more_than_there_were(a: int, b: int) -> None:
    few, many = sorted((a, b))
    before, after = fabric_of(h100(few), few), fabric_of(h100(many), many)
    if before is None or after is None:
        assert few == 1
        return
    assert before.cables <= after.cables
    assert before.leaf <= after.leaf
    assert 0 <= moved(before, after) <= before.cables


def test_one_switch_becomes_the_leaf_of_one_rail() -> None:
    four, eight = fabric_of(h100(4), 4), fabric_of(h100(8), 8)
    assert four is not None
    assert eight is not None
    assert (four.tiers, four.leaf) == (1, 1)
    assert (eight.tiers, eight.leaf, eight.spine) == (2, 8, 4)
    # 4 nodes of 8 rails: the cables of 7 rails move.
    assert moved(four, eight) == 28


def test_doubling_the_spines_moves_half_of_every_bundle() -> None:
    half, whole = fabric_of(h100(64), 64), fabric_of(h100(128), 128)
    assert half is not None
    assert whole is not None
    assert (half.spine, whole.spine) == (8, 16)
    assert moved(half, whole) == half.leaf_spine_cables // 2


def test_a_full_leaf_leaves_no_port_for_the_fabric_manager() -> None:
    assert materials(h100(32), 32, fabric_of(h100(32), 32)).nodes_too_many == 1
    fitting = materials(h100(31), 31, fabric_of(h100(31), 31))
    assert (fitting.nodes_too_many, fitting.free_leaf_ports, fitting.ufm_ports) == (0, 4, 4)
    ethernet = cluster("hgx-h100-roce").of(32)
    assert materials(ethernet, 32, fabric_of(ethernet, 32)).ufm_ports == 0


def test_stages_double_and_end_where_asked() -> None:
    assert stages(4, 128) == (4, 8, 16, 32, 64, 128)
    assert stages(4, 100) == (4, 8, 16, 32, 64, 100)
    assert stages(5, 5) == (5,)
    with pytest.raises(InputError, match="from 8 to 4"):
        stages(8, 4)


def test_growth_shows_fabric_and_scaling_stage_by_stage() -> None:
    built = grow(h100(16), (1, 4, 16), named_job("llama-3.1-8b"), fixed={"precision": "bf16"})
    assert [stage.topology for stage in built] == ["nvlink-domain", "single-switch", "leaf-spine"]
    assert built[0].linear_frac == 1
    assert all(a.rate_per_s < b.rate_per_s for a, b in pairwise(built))  # type: ignore[operator]
    assert all(stage.linear_frac <= 1.05 for stage in built)  # type: ignore[operator]
    assert built[-1].generation == "NDR"


def test_a_stage_on_which_nothing_fits_says_why() -> None:
    first, last = grow(h100(16), (1, 16), named_job("llama-3.1-70b"), fixed={"precision": "bf16"})
    assert first.candidate is None
    assert "fits nowhere" in str(first.why_not)
    assert last.linear_frac == 1


def test_a_cluster_of_one_nvlink_domain_has_no_fabric() -> None:
    rack = cluster("gb200-nvl72")
    assert fabric_of(rack.of(18), 18) is None
    two = fabric_of(rack.of(36), 36)
    assert two is not None
    assert two.rails == 4
