"""Max-min fair shares: folded by symmetry against a plain solver, and against what is plain to see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.fabric.contention.classes import shares
from assay.fabric.contention.fair import Crossings, fair_shares
from assay.fabric.contention.fold import colours, folded_shares
from assay.fabric.routes.patterns import flows
from assay.fabric.sizing import size_fabric
from assay.fabric.topology.fat_tree import fat_tree
from assay.fabric.topology.tiers import Tiers


def plain(paths, capacity):
    """Progressive filling, flow by flow and link by link; nothing clever."""
    rate, left, open_flows = [0.0] * len(paths), list(capacity), set(range(len(paths)))
    while open_flows:
        drawn = [
            sum(path.get(link, 0.0) for f, path in enumerate(paths) if f in open_flows)
            for link in range(len(left))
        ]
        step = min(left[k] / drawn[k] for k in range(len(left)) if drawn[k] > 0)
        for f in open_flows:
            rate[f] += step
        left = [left[k] - step * drawn[k] for k in range(len(left))]
        full = [k for k in range(len(left)) if drawn[k] > 0 and left[k] <= 1e-12 * capacity[k]]
        open_flows -= {f for f in open_flows if any(k in paths[f] for k in full)}
    return rate


def crossings(paths, capacity):
    entries = [(f, k, w) for f, path in enumerate(paths) for k, w in path.items()]
    flow, link, weight = (np.array(column) for column in zip(*entries, strict=True))
    return Crossings(
        flow=flow, link=link, weight=weight.astype(float), capacity_Bps=np.array(capacity), flows=len(paths)
    )


def random_case(seed):
    """A small leaf-spine fabric with a few broken bundles and a job or two; routes spread or single."""
    rng = np.random.default_rng(seed)
    leaves, spines, hosts = rng.integers(2, 5), rng.integers(1, 4), rng.integers(1, 4)
    rates = rng.choice([25.0, 50.0, 100.0], size=2)
    uplink = np.full((leaves, spines), rates[1])
    for _ in range(rng.integers(0, 3)):
        uplink[rng.integers(leaves), rng.integers(spines)] /= 2
    count = leaves * hosts
    capacity = [rates[0]] * (2 * count) + list(uplink.ravel()) * 2
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    kept = (
        rng.permutation(len(pairs))[: rng.integers(2, len(pairs) + 1)]
        if rng.random() < 0.5
        else range(len(pairs))
    )
    paths = []
    for at in kept:
        a, b = pairs[at]
        path = {a: 1.0, count + b: 1.0}
        if a // hosts != b // hosts:
            chosen = range(spines) if rng.random() < 0.5 else [int(rng.integers(spines))]
            for spine in chosen:
                base = 2 * count
                path[base + a // hosts * spines + spine] = 1 / len(chosen)
                path[base + leaves * spines + b // hosts * spines + spine] = 1 / len(chosen)
        paths.append(path)
    return paths, capacity


@pytest.mark.parametrize("block", range(10))
def test_folded_shares_are_those_of_the_plain_solver_in_500_random_fabrics(block):
    for seed in range(block * 50, block * 50 + 50):
        paths, capacity = random_case(seed)
        expected = np.array(plain(paths, capacity))
        found = folded_shares(crossings(paths, capacity))
        assert found == pytest.approx(expected, rel=1e-9), seed


def test_what_is_alike_folds_to_one_flow():
    paths = [{a: 1.0, 4 + b: 1.0} for a in range(4) for b in range(4) if a != b]
    flow, link = colours(crossings(paths, [50.0] * 8))
    assert set(flow) == {0}
    assert len(set(link)) == 1


@given(seed=st.integers(0, 10_000))
def test_no_link_carries_more_than_it_can_and_every_flow_has_a_full_one(seed):
    paths, capacity = random_case(seed)
    case = crossings(paths, capacity)
    rate = fair_shares(case)
    carried = np.bincount(case.link, weights=case.weight * rate[case.flow], minlength=len(capacity))
    assert (carried <= case.capacity_Bps * (1 + 1e-9)).all()
    full = carried >= case.capacity_Bps * (1 - 1e-6)
    assert all(any(full[k] for k in path) for path in paths)


def tiers(nodes, **design):
    return Tiers.of(fat_tree(size_fabric(nodes, **design)))


@pytest.mark.parametrize(("over", "expected"), [(1.0, 1.0), (2.0, 0.5), (3.0, 1 / 3)])
def test_an_all_to_all_over_two_tiers_gets_what_the_uplinks_leave(over, expected):
    fabric = tiers(128, oversubscription=over, radix=64)
    found = shares(fabric, [flows("all_to_all", fabric.adapters)])
    away = found.source != found.target
    leaf = int(np.bincount(fabric.leaf_of).max())
    if over > 1:
        # From a full leaf to the rail's other nodes, over its ports up.
        uplinks = fabric.up.sum(axis=1).max() / fabric.nic_Bps.max()
        expected = uplinks * (127) / (leaf * (128 - leaf))
        assert found.rate_Bps[away].min() * 127 / 50e9 == pytest.approx(expected, rel=1e-6)
    else:
        assert found.rate_Bps.min() * 127 == pytest.approx(50e9)


def test_two_jobs_share_what_one_had():
    fabric = tiers(64, oversubscription=3.0)
    job = flows("all_to_all", fabric.adapters)
    alone = shares(fabric, [job])
    both = shares(fabric, [job, job])
    assert both.slowest_Bps == pytest.approx(alone.slowest_Bps / 2)


def test_16_million_flows_are_some_thousand_classes():
    fabric = tiers(512, oversubscription=2.0)
    found = shares(fabric, [flows("all_to_all", fabric.adapters)])
    assert found.flows.sum() == 512 * 511 * 8
    assert found.source.size < 2000
    assert 0.4 < found.slowest_Bps * 511 / 50e9 < 0.6


def test_a_pair_without_a_path_is_named():
    network = fat_tree(size_fabric(64, radix=32))
    cut = network.without([c for c in network.cables if c.a == "leaf003" and network.devices[c.b].tier == 2])
    fabric = Tiers.of(cut)
    with pytest.raises(InputError, match=r"no path from .*leaf003|no path from leaf003"):
        shares(fabric, [flows("all_to_all", fabric.adapters)])
