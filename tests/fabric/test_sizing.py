"""Switch counts against the printed tables of NVIDIA's DGX SuperPOD reference architectures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.fabric.sizing import size_fabric

H100, XDR, HDR = 64, 144, 40


@pytest.mark.parametrize(
    ("radix", "nodes", "leaf", "spine", "core"),
    [
        (H100, 31, 8, 4, 0),
        (H100, 63, 16, 8, 0),
        (H100, 95, 24, 16, 0),
        (H100, 127, 32, 16, 0),
        (H100, 32, 8, 4, 0),
        (H100, 96, 24, 16, 0),
        (H100, 128, 32, 16, 0),
        (H100, 256, 64, 32, 0),
        (H100, 512, 128, 128, 64),
        (H100, 1024, 256, 256, 128),
        (H100, 2048, 512, 512, 256),
        (XDR, 72, 8, 4, 0),
        (XDR, 144, 16, 8, 0),
        (XDR, 288, 32, 18, 0),
        (XDR, 576, 64, 36, 0),
        (XDR, 1296, 144, 72, 0),
        (HDR, 20, 8, 4, 0),
        (HDR, 64, 32, 20, 0),
        (HDR, 100, 40, 20, 0),
        (HDR, 140, 56, 56, 28),
    ],
)
def test_counts_are_those_of_the_reference_architectures(
    radix: int, nodes: int, leaf: int, spine: int, core: int
) -> None:
    size = size_fabric(nodes, radix=radix)
    assert (size.leaf, size.spine, size.core) == (leaf, spine, core)


@pytest.mark.parametrize(
    ("radix", "nodes", "leaf_spine", "spine_core"),
    [
        (H100, 31, 256, 0),
        (H100, 63, 512, 0),
        (H100, 127, 1024, 0),
        (H100, 512, 4096, 4096),
        (XDR, 1296, 10368, 0),
    ],
)
def test_cables_are_those_of_the_reference_architectures(
    radix: int, nodes: int, leaf_spine: int, spine_core: int
) -> None:
    size = size_fabric(nodes, radix=radix)
    assert (size.leaf_spine_cables, size.spine_core_cables) == (leaf_spine, spine_core)


@given(nodes=st.integers(1, 2048), radix=st.sampled_from([HDR, H100, XDR]), over=st.sampled_from([1.0, 3.0]))
def test_no_switch_has_more_cables_than_ports(nodes: int, radix: int, over: float) -> None:
    try:
        size = size_fabric(nodes, radix=radix, oversubscription=over)
    except InputError:
        return
    assert size.node_leaf_cables + size.leaf_spine_cables <= size.leaf * radix
    if size.tiers > 1:
        assert size.leaf_spine_cables + size.spine_core_cables <= size.spine * radix
    assert size.spine_core_cables <= size.core * radix


def test_too_many_nodes_are_refused_with_the_arithmetic() -> None:
    with pytest.raises(InputError, match="three tiers of 40-port switches end at"):
        size_fabric(20_000, radix=HDR)


def test_an_oversubscribed_leaf_has_fewer_spines() -> None:
    assert size_fabric(128, oversubscription=3.0).spine < size_fabric(128).spine
