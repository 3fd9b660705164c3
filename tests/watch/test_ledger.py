"""The ledger: what was acknowledged stays, whatever happens to the writer, and counts once."""

from __future__ import annotations

import os
import random
import signal
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from items import T0, changes, event, steps

from assay.codec.ledger import decode, encode, entry_id
from assay.domain.contract import Terms, Tier
from assay.domain.incident import Change, Incident, Step
from assay.domain.ledger import JobTime, Recovery, Session, Spent, Taken, Watched
from assay.errors import InputError
from assay.store.ledger import Ledger, read_ledger
from assay.watch.goodput import Goodput
from assay.watch.order import Order
from assay.watch.service import all_up_frac, fold, incidents_of

DAY = 86400.0


def watched(i: int) -> Watched:
    return Watched(from_s=60.0 * i, to_s=60.0 * (i + 1), nodes=("n1", "n2"))


ENTRIES = [
    watched(1),
    Session(job="a", started_s=1.0, ended_s=5.0, broken=True),
    JobTime(job="a", from_s=0.0, to_s=60.0, spent=Spent(productive_s=50, waiting_s=10), steps=7),
    Taken(action="drain", incident="x", time_s=2.0, target="n1", dry_run=True, done=False, text="would"),
    Recovery(
        job="a", time_s=3.0, cause="x", excluded=("n1",), phases={"stop": 1.5}, from_step=4, to_step=None
    ),
    *changes([event("xid", 1, "gpu:n1/0", "NVRM: Xid 79", xid=79)], until_s=100),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: type(e).__name__)
def test_every_entry_comes_back_as_it_was(entry, tmp_path):
    Ledger(tmp_path / "l").append([entry])
    (back,) = read_ledger(tmp_path / "l")
    assert encode(back) == encode(entry)
    assert entry_id(back) == entry_id(entry)


def test_the_same_day_twice_and_by_two_watchers_counts_once(tmp_path):
    path = tmp_path / "l"
    one, two = Ledger(path), Ledger(path)
    assert one.append(ENTRIES) == len(ENTRIES)
    assert two.append(ENTRIES) == 0
    assert two.append([watched(2)]) == 1
    assert one.append([watched(2), watched(3)]) == 1
    assert len(list(read_ledger(path))) == len(ENTRIES) + 2


def test_watchers_at_once_lose_nothing_and_double_nothing(tmp_path):
    path = tmp_path / "l"

    def write(seed: int) -> None:
        ledger = Ledger(path)
        for i in random.Random(seed).sample(range(40), 40):
            ledger.append([watched(i)])

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(e.from_s for e in read_ledger(path)) == [60.0 * i for i in range(40)]


@given(st.data())
def test_a_file_cut_at_any_byte_keeps_its_whole_lines_and_can_go_on(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("cut") / "l"
    Ledger(path).append([watched(i) for i in range(8)])
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    lines = whole[:cut].count(b"\n")
    assert [e.from_s for e in read_ledger(path)] == [60.0 * i for i in range(lines)]
    Ledger(path).append([watched(i) for i in range(8)])
    assert [e.from_s for e in read_ledger(path)] == [60.0 * i for i in range(8)]


def killed_once(path, first: int, delay_s: float) -> int:
    """Start a writer, kill it after `delay_s`, and say how many entries it acknowledged."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ledger = Ledger(path)
            for i in range(first, first + 10_000):
                ledger.append([watched(i)])
                os.write(into, b".")
        finally:
            os._exit(1)
    os.close(into)
    started = os.read(out, 1)
    threading.Event().wait(delay_s)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    acknowledged = len(started)
    while piece := os.read(out, 65536):
        acknowledged += len(piece)
    os.close(out)
    return acknowledged


def test_a_thousand_kills_lose_no_acknowledged_entry_and_double_none(tmp_path):
    rng = random.Random(5)
    for file in range(40):
        path, first = tmp_path / str(file), 0
        for _ in range(25):
            first += killed_once(path, first, rng.uniform(0, 0.001))
        got = [round(e.from_s / 60) for e in read_ledger(path)]
        assert got == sorted(set(got))
        assert set(range(first)) <= set(got)


def test_a_ledger_that_became_shorter_and_a_line_that_is_none_are_refused(tmp_path):
    path = tmp_path / "l"
    ledger = Ledger(path)
    ledger.append([watched(1), watched(2)])
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(InputError, match="shorter"):
        ledger.append([watched(3)])
    path.write_text('{"type": "watchd", "id": "1"}\n')
    with pytest.raises(InputError) as caught:
        list(read_ledger(path))
    assert caught.value.where == f"{path}:1"
    assert "watched" in str(caught.value.fix)
    with pytest.raises(InputError, match="cannot read the ledger"):
        list(read_ledger(tmp_path / "none"))
    with pytest.raises(InputError, match="'from_s' is missing"):
        decode({"type": "watched", "id": "1"}, where="l:1")


def incident(
    code_subject: str, opened_s: float, recovered_s: float | None, node: str = "n1", **more
) -> Change:
    (first, *_) = changes([event("xid", 0, code_subject, xid=79)])
    made = Incident(
        id=f"{code_subject}{opened_s}",
        opened_s=opened_s,
        findings=first.incident.findings,
        nodes=(node,),
        recovered_s=recovered_s,
        **more,
    )
    return Change(step=Step.OPENED, time_s=opened_s, incident=made)


def month(*entries, nodes=("n1", "n2"), terms=None, **window):
    fleet = Watched(from_s=0.0, to_s=30 * DAY, nodes=nodes)
    return fold([fleet, *entries], from_s=0.0, to_s=30 * DAY, terms=terms or Terms(), **window)


def test_thirty_days_at_99_9_percent_are_43_2_minutes():
    assert month().allowed_down_s == pytest.approx(43.2 * 60)


def test_125_nodes_at_99_9_percent_leave_a_job_up_88_2_percent():
    assert all_up_frac(0.999, 125) == pytest.approx(0.882, abs=5e-4)
    assert month(nodes=tuple(f"n{i}" for i in range(125))).expected_job_frac == pytest.approx(0.882, abs=5e-4)


def test_availability_counts_each_second_once():
    got = month(
        incident("gpu:n1/0", DAY, 2 * DAY),
        incident("gpu:n1/0", 1.5 * DAY, 2.5 * DAY),  # the same, by another watcher
        incident("gpu:n2/0", 2 * DAY, 3 * DAY, node="n2"),
    )
    assert got.down_s == pytest.approx(2.5 * DAY)
    assert got.node_frac == pytest.approx(1 - 2.5 / 60)
    assert got.job_frac == pytest.approx(1 - 2 / 30)
    assert len(got.incidents) == 2


def test_time_that_nobody_watched_is_no_availability():
    got = fold([], from_s=0, to_s=DAY, terms=Terms())
    assert (got.node_frac, got.job_frac, got.credit_frac) == (None, None, None)
    half = fold(
        [Watched(from_s=0, to_s=DAY / 2, nodes=("n1",)), incident("gpu:n1/0", 0.75 * DAY, DAY)],
        from_s=0,
        to_s=DAY,
        terms=Terms(),
    )
    assert half.watched_s == DAY / 2
    assert half.node_frac == 1.0


def test_what_is_open_counts_until_the_end_of_the_window():
    assert month(incident("gpu:n1/0", 29 * DAY, None)).down_s == pytest.approx(DAY)


def test_the_three_no_disconnect_rates():
    sessions = [Session(job="a", started_s=i, ended_s=i + 0.5, broken=i == 1) for i in range(1, 5)]
    got = month(incident("gpu:n1/0", DAY, 2 * DAY), *sessions)
    assert got.by_time_frac == pytest.approx(29 / 30)
    assert got.by_session_frac == pytest.approx(3 / 4)
    assert got.by_node_frac == pytest.approx(1 / 2)


def test_response_times_are_medians():
    got = month(
        incident("gpu:n1/0", 0, 100.0, acknowledged_s=10.0),
        incident("gpu:n2/0", 1000, 1300.0, acknowledged_s=1030.0),
    )
    assert (got.acknowledged_s, got.recovered_s) == (20.0, 200.0)


@pytest.mark.parametrize(("down_h", "credit"), [(0.0, 0.0), (0.5, 0.1), (10.0, 0.3), (80.0, 1.0)])
def test_credit_follows_the_tiers_of_the_contract(down_h, credit):
    tiers = (Tier(below_frac=0.9999, credit_frac=0.1), Tier(below_frac=0.99, credit_frac=0.3))
    terms = Terms(tiers=(*tiers, Tier(below_frac=0.95, credit_frac=1.0)), fee=1000.0)
    got = month(incident("gpu:n1/0", 0.0, down_h * 3600), nodes=("n1",), terms=terms)
    assert (got.credit_frac, got.credit) == (credit, credit * 1000)


def test_a_warning_is_no_downtime():
    (slow, *_) = changes([event("xid", 1, "gpu:n1/0", xid=31)])
    assert month(slow).down_s == 0


def spent_of(items, until_s):
    goodput, order, total = Goodput(), Order(), Spent()
    entries = []
    for item in items:
        for one in order.push(item):
            entries += goodput.feed(one)
    entries += goodput.close(T0 + until_s)
    for entry in entries:
        if isinstance(entry, JobTime):
            total = total.plus(entry.spent)
    return total, [e for e in entries if isinstance(e, Session)]


def test_goodput_tells_where_the_time_went():
    """100 steps, a save of 20 s, a crash after 30 more steps, 60 s of restart, 30 steps again, 10 new."""
    items = [
        event("job_started", 0),
        *steps(100, first=0),
        event("checkpoint_started", 101),
        event("checkpoint_saved", 121),
        *steps(30, start_s=121, first=100),
        event("job_ended", 152, ok=0),
        event("job_started", 152.5),
        *steps(40, start_s=212, first=100),
        event("job_ended", 253, ok=1),
    ]
    spent, sessions = spent_of(items, 260)
    assert spent.checkpoint_s == pytest.approx(20, abs=1.5)
    assert spent.recompute_s == pytest.approx(30, abs=1.5)
    assert spent.restart_s == pytest.approx(60, abs=2)
    assert spent.productive_s == pytest.approx(140, abs=3)
    assert spent.total_s == pytest.approx(253, abs=3)
    assert [s.broken for s in sessions if s.ended_s] == [True, False]


def test_slow_steps_and_waiting_are_told_apart():
    items = [*steps(40), *steps(20, start_s=40, step_s=1.5, first=40), *steps(5, start_s=130, first=60)]
    spent, _ = spent_of(items, 140)
    assert spent.slow_s == pytest.approx(10, abs=1)
    assert spent.waiting_s == pytest.approx(60, abs=2)


def test_incidents_of_two_watchers_are_one():
    two = [incident("gpu:n1/0", 100.0, 200.0), incident("gpu:n1/0", 103.0, 240.0)]
    (one,) = incidents_of(two)
    assert (one.opened_s, one.recovered_s) == (100.0, 240.0)
