"""A real subnet manager on a simulated fabric: its tables as found, and again after a cable is pulled."""

import numpy as np
import pytest

from assay.api.predicting_found import route_tables
from assay.fabric.routes.minimal import d_mod_k
from assay.fabric.routes.patterns import Flows, flows
from assay.fabric.routes.spread import spread
from assay.fabric.sizing import size_fabric
from assay.fabric.topology.fat_tree import fat_tree
from assay.fabric.topology.faults import against_design
from assay.fabric.topology.found import found_network
from assay.fabric.topology.tiers import Tiers
from assay.formats.ib_routes import parse_ib_routes
from assay.formats.ibnetdiscover import parse_ibnetdiscover
from assay.formats.opensm_subnet import parse_opensm_subnet

DESIGN = fat_tree(size_fabric(8, radix=16, port_Bps=25e9), rate="4xHDR")


def as_found(fabric):
    cabling = parse_ibnetdiscover(fabric.tool("ibnetdiscover"), "ibnetdiscover.txt")
    network = found_network(cabling)
    return network, route_tables(network, cabling, parse_ib_routes(fabric.tool("dump_fts"), "dump_fts.txt"))


def uplinks(network, loads, leaf):
    """Load on each cable from a leaf up, in the order of its ports."""
    found = {}
    for at, cable in enumerate(network.cables):
        for here, port, directed in ((cable.a, cable.a_port, 2 * at), (cable.b, cable.b_port, 2 * at + 1)):
            far = network.devices[cable.far(here)[0]]
            if here == leaf and far.tier == 2:
                found[port] = loads[directed]
    return [found[port] for port in sorted(found)]


@pytest.mark.parametrize("engine", ["minhop", "updn", "ftree"])
def test_routes_of_each_engine_reach_everybody_and_carry_what_shortest_paths_must(simulator, engine):
    with simulator(DESIGN, engine=engine) as fabric:
        network, tables = as_found(fabric)
    wanted = flows("all_to_all", network.adapters)
    loads, stranded = tables.loads(wanted)
    assert stranded == 0
    ours, _ = d_mod_k(network).loads(wanted)
    # Both go shortest paths: the same number of hops in all, whichever spine each takes.
    assert loads.sum() == ours.sum()


def test_what_the_manager_writes_itself_says_the_same_as_the_discovery(simulator):
    with simulator(DESIGN, engine="minhop") as fabric:
        network, _ = as_found(fabric)
        cabling = parse_opensm_subnet(fabric.written("opensm-subnet.lst"), "opensm-subnet.lst")
    written = found_network(cabling)
    assert {cable.ends for cable in written.cables} == {cable.ends for cable in network.cables}
    assert {cable.rate for cable in written.cables} == {"4xHDR"}
    assert against_design(written, DESIGN) == ()


def test_after_a_pulled_uplink_the_new_tables_carry_what_was_predicted(simulator):
    cable = next(c for c in DESIGN.cables if DESIGN.devices[c.a].tier == 1)
    with simulator(DESIGN, engine="minhop") as fabric:
        network, tables = as_found(fabric)
        before, _ = tables.loads(flows("all_to_all", network.adapters))
        fabric.sweep(f'Unlink "{cable.a}"[{cable.a_port}]')
        network, tables = as_found(fabric)
    assert len(network.cables) == len(DESIGN.cables) - 1
    wanted = every_pair(network)
    loads, stranded = tables.loads(wanted)
    assert stranded == 0
    assert before.sum() > 0
    found = uplinks(network, loads, cable.a)
    predicted = uplinks_after(cable, wanted, network)
    assert len(found) == len(predicted) == 7
    # The manager deals whole destinations out over the ports left, as D-mod-K does over what is left.
    assert sorted(found) == sorted(predicted)


def every_pair(network):
    """All adapters to all others, whatever their rail, so that every uplink has work."""
    count = len(network.adapters)
    sender, receiver = np.divmod(np.arange(count * count), count)
    kept = sender != receiver
    return Flows(pattern="all_to_all", sender=sender[kept], receiver=receiver[kept])


def uplinks_after(cable, wanted, network):
    tables = d_mod_k(DESIGN.without([cable]))
    order = {d.name: at for at, d in enumerate(tables.network.adapters)}
    names = [d.name for d in network.adapters]
    moved = np.array([order[name] for name in names])
    same = Flows(pattern="all_to_all", sender=moved[wanted.sender], receiver=moved[wanted.receiver])
    loads, stranded = tables.loads(same)
    assert stranded == 0
    assert spread(Tiers.of(tables.network), same).stranded == 0
    return uplinks(tables.network, loads, cable.a)
