"""The machine: one incident for one cause, the cause in front, and the same for the same events."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from items import T0, changes, event, fed, named, opened, samples, steps

from assay.domain.incident import Step
from assay.domain.subject import Subject
from assay.watch.machine import Machine
from assay.watch.order import Order
from assay.watch.places import Places
from assay.watch.settings import Settings


def test_one_cause_is_one_incident_with_the_cause_in_front():
    """A GPU falls off the bus: its rank is lost, the job hangs, and there is one incident for all."""
    items = [
        event("rank_placed", 0, "rank:5", node="n1"),
        *steps(20),
        event("xid", 20.5, "gpu:n1/5", "NVRM: Xid 79", xid=79),
        event("rank_exited", 21, "rank:5", code=-6),
    ]
    (incident,) = opened(items, until_s=40)
    assert [f.code for f in incident.findings] == ["GPU_XID_79", "RANK_LOST", "JOB_HUNG"]
    assert [f.follows_from for f in incident.findings] == [None, "GPU_XID_79", "GPU_XID_79"]
    assert incident.nodes == ("n1",)


def test_a_symptom_that_comes_first_gets_its_cause_later():
    items = [*steps(40), *steps(8, start_s=40, step_s=1.6, first=40)]
    items += [samples("port_up", 50 + i, **{"port:n3/mlx5_0[1]": float(i < 3)}) for i in range(8)]
    (incident,) = opened(items)
    assert incident.code == "IB_PORT_DOWN"
    assert [f.code for f in incident.findings] == ["IB_PORT_DOWN", "JOB_SLOW"]


def test_ports_of_one_switch_are_one_incident():
    cables = [event("cabled", 0, f"port:leaf3[{i}]", peer=f"port:n{i}/mlx5_0[1]") for i in range(4)]
    down = [
        samples("port_up", 10 + t, **{f"port:n{i}/mlx5_0[1]": float(t < 3) for i in range(4)})
        for t in range(8)
    ]
    (incident,) = opened([*cables, *down])
    assert len(incident.findings) == 4
    assert incident.nodes == ("leaf3", "n0", "n1", "n2", "n3")
    assert len(opened(down)) == 4


def test_nodes_far_apart_are_two_incidents():
    items = [event("xid", 1, "gpu:n1/0", xid=79), event("xid", 2, "gpu:n2/0", xid=48)]
    assert named(items) == {("GPU_XID_79", "gpu:n1/0"), ("GPU_ECC_UNCORRECTABLE", "gpu:n2/0")}


def test_a_loss_spike_beside_network_trouble_is_a_coincidence():
    items = [event("step", i, step=i, step_s=1.0, loss=2.0 + 0.01 * (i % 5)) for i in range(60)]
    items += [samples("port_up", 55 + i, **{"port:n3/mlx5_0[1]": 0.0}) for i in range(3)]
    items += [event("step", 60, step=60, step_s=1.0, loss=9.0)]
    port, loss = opened(items)
    assert (port.code, loss.code) == ("IB_PORT_DOWN", "LOSS_SPIKE")
    assert loss.coincides == (port.id,)
    assert len(loss.findings) == 1


def test_what_nobody_takes_escalates_and_an_acknowledgement_stops_that():
    def lost(*more):
        return changes([event("xid", 1, "gpu:n1/0", xid=79), *more], until_s=4000, escalate_s=600)

    assert [c.step for c in lost()].count(Step.ESCALATED) >= 2
    name = lost()[0].incident.id
    acknowledged = lost(event("acknowledged", 5, incident=name))
    assert [c.step for c in acknowledged] == [Step.OPENED, Step.ACKNOWLEDGED]


def test_a_worse_finding_escalates():
    items = [event("xid", 1, "gpu:n1/0", xid=31), event("xid", 2, "gpu:n1/0", xid=79)]
    assert [c.step for c in changes(items)] == [Step.OPENED, Step.JOINED, Step.ESCALATED]


def test_an_incident_that_comes_back_relapses_and_closes_when_it_stays_away():
    values = [0, 1, 1, 1, 0, 0, 0, 1, 1, 1, *[0] * 40]
    items = [samples("gpu_throttled_thermal", 15 * i, **{"gpu:n1/0": v}) for i, v in enumerate(values)]
    got = changes(items)
    assert [c.step.value for c in got] == ["opened", "recovered", "relapsed", "recovered", "closed"]


@settings(max_examples=20)
@given(st.randoms(use_true_random=False))
def test_order_within_what_is_held_back_does_not_matter(rng: random.Random):
    items = [*steps(40), *steps(8, start_s=40, step_s=1.6, first=40), event("xid", 30.5, "gpu:n1/0", xid=79)]
    tail = event("step", 120, step=48, step_s=1.6)

    def run(given_items):
        order = Order(settle_s=10.0)
        machine = Machine(Settings())
        return [(c.step, c.incident.id) for c in fed(machine, [*given_items, tail], order=order)]

    blocks = [sorted(items, key=lambda i: i.time_s)[i : i + 6] for i in range(0, len(items), 6)]
    shuffled = [item for block in blocks for item in rng.sample(block, len(block))]
    assert run(shuffled) == run(sorted(items, key=lambda i: i.time_s))


def test_a_duplicate_counts_once_and_is_counted():
    order = Order()
    items = [one for one in steps(20) for _ in (0, 1)]
    machine = Machine()
    assert fed(machine, items, order=order) == []
    assert order.duplicates == 20


def test_a_clock_that_goes_back_is_told_and_nothing_is_lost():
    order, machine = Order(late_s=30), Machine()
    before, after = list(steps(40)), list(steps(20, start_s=-3600, first=40))
    got = fed(machine, [*before, *after, event("xid", -3500, "gpu:n1/0", xid=79)], order=order)
    assert [c.incident.code for c in got if c.step is Step.OPENED] == ["CLOCK_OFFSET", "CLOCK_OFFSET"]
    assert "GPU_XID_79" in {i.code for i in machine.incidents}
    assert order.late == 21


def test_ticks_come_once_a_second_and_a_night_costs_little():
    order = Order()
    kinds = [i.kind for i in order.push(event("a", 0))]
    kinds += [i.kind for i in order.push(event("b", 10))]
    assert kinds.count("tick") == 10
    assert sum(1 for _ in order.push(event("c", 86400))) < 8000


@pytest.mark.parametrize(
    ("subject", "touched"),
    [
        ("rank:3", {"n1"}),
        ("rank:9", {"rank:9"}),
        ("gpu:n2/7", {"n2"}),
        ("link:h2>*", {"h2"}),
        ("pair:h1|h3", {"h1", "h3"}),
        ("port:n4/mlx5_0[1]", {"n4", "leaf1"}),
        ("port:leaf1[9]", {"n4", "leaf1"}),
        ("cluster", set()),
    ],
)
def test_places(subject, touched):
    places = Places.of({"3": "n1"}, [("leaf1[9]", "n4/mlx5_0[1]")])
    assert places.touched(Subject.parse(subject)) == touched


def test_what_the_doctor_finds_joins_the_incident_and_does_not_keep_it_open():
    machine, order = Machine(), Order()
    got = fed(machine, [event("rank_exited", 1, "rank:5", code=-9)], order=order)
    told = event(
        "diagnosed", 2, "node:n1", "oom-kill", incident=got[0].incident.id, code="APP_OOM_AS_NCCL", sure=0.9
    )
    (joined,) = fed(machine, [told], order=order)
    assert joined.step is Step.JOINED
    assert [f.code for f in joined.incident.findings] == ["APP_OOM_AS_NCCL", "RANK_LOST"]
    after = fed(machine, [event("job_started", 3)], order=order)
    assert [c.step for c in after] == [Step.RECOVERED]


def test_a_momentary_finding_passes():
    (incident,) = opened([event("xid", 1, "gpu:n1/0", xid=94)], until_s=2000)
    assert incident.recovered_s == T0 + 601
    assert incident.closed_s is not None
