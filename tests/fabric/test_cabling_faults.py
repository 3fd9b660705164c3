"""Cabling faults on a simulated fabric: what ibnetdiscover prints is enough to name each, and only it."""

import pytest
from ibsim_faults import KINDS, inject

from assay.fabric.sizing import size_fabric
from assay.fabric.topology.fat_tree import fat_tree
from assay.fabric.topology.faults import against_design, alone
from assay.fabric.topology.found import found_network
from assay.formats.ibnetdiscover import parse_ibnetdiscover

SMALL = fat_tree(size_fabric(8, radix=16, port_Bps=25e9), rate="4xHDR")
LARGE = fat_tree(size_fabric(64, radix=32, port_Bps=25e9), rate="4xHDR")
#: 32 cases on 64 adapters and 8 on 512: 40 in all, as each simulated fabric costs a start.
CASES = [(SMALL, kind, seed) for kind in KINDS for seed in range(8)]
CASES += [(LARGE, kind, seed) for kind in KINDS for seed in range(2)]


@pytest.mark.parametrize(
    ("design", "kind", "seed"), CASES, ids=[f"{len(d.adapters)}-{kind}-{seed}" for d, kind, seed in CASES]
)
def test_each_injected_fault_is_named_and_no_innocent_port(simulator, design, kind, seed):
    fault = inject(design, kind, seed)
    with simulator(fault.network) as fabric:
        network = found_network(parse_ibnetdiscover(fabric.tool("ibnetdiscover"), "ibnetdiscover.txt"))
    found = against_design(network, design)
    named = {end for one in found for end in one.ends}
    assert named == fault.ends
    assert {one.code for one in found} == {fault.code}


def test_a_fabric_as_designed_has_no_fault(simulator):
    with simulator(SMALL) as fabric:
        network = found_network(parse_ibnetdiscover(fabric.tool("ibnetdiscover"), "ibnetdiscover.txt"))
    assert against_design(network, SMALL) == ()
    assert alone(network) == ()


def without_design(kind: str, seed: int):
    return alone(inject(SMALL, kind, seed).network)


def test_without_a_design_a_missing_uplink_shows_as_a_thin_bundle():
    uplink = next(c for c in SMALL.cables if SMALL.devices[c.a].tier == 1)
    (fault,) = alone(SMALL.without([uplink]))
    assert fault.code == "BUNDLE_UNEQUAL"
    assert (fault.ends, fault.count, fault.of) == ((uplink.a, uplink.b), 1, 2)


def test_without_a_design_a_cross_railed_adapter_shows_by_its_neighbours():
    faults = without_design("cross_rail", 1)
    assert {fault.code for fault in faults} == {"CABLE_CROSS_RAIL"}
    assert len(faults) == 2
