"""Detectors: each finds its fault in few steps, and says nothing of a healthy day."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from items import changes, event, named, opened, samples, steps

from assay.domain.finding import Severity
from assay.watch.detectors.pairs import culprits
from assay.watch.detectors.steps import poisson_tail
from assay.watch.interval import Habit, best_s, goodput_frac, habit_of, young_s
from assay.watch.registry import kinds


def ranks(count: int, steps_: int, busy, *, start: int = 0):
    """Steps of `count` ranks of one job; `busy(rank, step)` seconds without waiting."""
    for step in range(start, start + steps_):
        for rank in range(count):
            yield event(
                "step", step + 0.001 * rank, f"rank:{rank}", step=step, step_s=1.0, busy_s=busy(rank, step)
            )


def test_every_detector_states_what_it_reads_finds_and_errs():
    assert len(kinds()) >= 18
    for kind in kinds():
        assert kind.reads
        assert kind.codes
        assert 0 <= kind.false_alarms_per_subject_day <= 0.01


def test_a_straggler_is_named_within_five_steps():
    slow_from = 20
    got = changes(
        ranks(8, 30, lambda r, s: 0.6 * (1.5 if r == 5 and s >= slow_from else 1 + 0.003 * ((r + s) % 3)))
    )
    (first,) = [c for c in got if c.step.value == "opened"]
    assert (first.incident.code, str(first.incident.subject)) == ("APP_STRAGGLER", "rank:5")
    assert first.time_s - 1_700_000_000.0 < slow_from + 5


def test_one_long_step_of_a_rank_is_no_straggler():
    assert (
        named(ranks(8, 40, lambda r, s: 3.0 if (r, s) == (2, 21) else 0.6 + 0.003 * ((r + s) % 3))) == set()
    )


def test_a_rank_that_gets_slower_by_and_by_is_found():
    rng = np.random.default_rng(3)
    noise = 1 + 0.005 * rng.standard_normal((8, 700))
    busy = lambda r, s: noise[r, s] * (1 + (0.00013 * max(s - 100, 0) if r == 3 else 0))  # noqa: E731
    assert named(ranks(8, 700, busy)) == {("FAIL_SLOW", "rank:3")}


def test_all_slow_together_is_the_job_not_a_rank():
    got = named([*steps(40), *steps(10, start_s=40, step_s=1.6, first=40)])
    assert got == {("JOB_SLOW", "cluster")}


def test_a_job_that_recovers_closes_its_incident():
    (incident,) = opened(
        [*steps(40), *steps(8, start_s=40, step_s=1.6, first=40), *steps(400, start_s=53, first=48)]
    )
    assert incident.recovered_s is not None
    assert incident.closed_s is not None


def test_a_slow_drift_is_found_before_it_reaches_the_bound_of_slow():
    rng = np.random.default_rng(1)
    times = 1.0 * (1 + 0.01 * rng.standard_normal(900)) * np.r_[np.ones(200), np.linspace(1, 1.12, 700)]
    at = np.cumsum(times)
    drift = [
        event("step", t, step=i, step_s=float(s)) for i, (t, s) in enumerate(zip(at, times, strict=True))
    ]
    assert named(drift) == {("FAIL_SLOW", "cluster")}


def test_more_long_steps_than_usual():
    def job(n, share, first, start_s):
        at = start_s
        for i in range(n):
            step_s = 3.0 if i % round(1 / share) == 0 else 1.0
            at += step_s
            yield event("step", at, step=first + i, step_s=step_s)

    calm, rough = list(job(600, 0.01, 0, 0)), list(job(200, 0.1, 600, 612))
    assert named(calm) == set()
    assert named([*calm, *rough]) == {("STEP_SPIKES", "cluster")}


def test_a_hang_names_the_rank_that_did_not_arrive():
    items = list(ranks(4, 20, lambda r, s: 0.5))
    items += [event("step", 20 + 0.001 * r, f"rank:{r}", step=20, step_s=1.0, busy_s=0.5) for r in (0, 1, 3)]
    (incident,) = opened(items, until_s=31)
    assert (incident.code, str(incident.subject)) == ("JOB_HUNG", "rank:2")
    assert incident.severity is Severity.CRITICAL
    assert incident.opened_s - (1_700_000_020.0) <= 10


def test_a_checkpoint_is_no_hang_and_a_job_that_ended_is_none():
    saving = [*steps(20), event("checkpoint_started", 20.5)]
    assert named(saving, until_s=300) == set()
    assert named([*steps(20), event("job_ended", 20.5, ok=1)], until_s=300) == set()
    assert named(steps(20), until_s=300) == {("JOB_HUNG", "cluster")}


def loss_job(values, first=0):
    return [event("step", first + i, step=first + i, step_s=1.0, loss=v) for i, v in enumerate(values)]


def wobble(n, around=2.0):
    return [around + 0.02 * math.sin(7 * i) for i in range(n)]


def test_a_loss_spike_is_told_at_its_step_and_once():
    got = changes(loss_job([*wobble(60), 5.0, 4.0, 3.0, *wobble(60)]))
    told = [c for c in got if c.step.value == "opened"]
    assert [c.incident.code for c in told] == ["LOSS_SPIKE"]
    assert told[0].time_s == 1_700_000_060.0


def test_one_batch_that_is_a_little_off_is_no_spike_and_two_are():
    assert named(loss_job([*wobble(60), 2.45, *wobble(60)])) == set()
    assert named(loss_job([*wobble(60), 2.45, 2.45, *wobble(60)])) == {("LOSS_SPIKE", "cluster")}


@pytest.mark.parametrize("value", [math.nan, math.inf, "nan"])
def test_a_loss_that_is_no_number_has_diverged(value):
    assert named(loss_job([*wobble(30), value])) == {("LOSS_DIVERGED", "cluster")}


def test_a_loss_that_stays_high_has_diverged():
    last = opened(loss_job([*wobble(60), *wobble(120, around=6.0)]))[-1]
    assert last.code == "LOSS_DIVERGED"


def test_a_falling_loss_and_a_restart_from_an_earlier_one_are_fine():
    falling = [8 / math.sqrt(1 + i / 10) for i in range(200)]
    again = [event("step", 201 + i, step=100 + i, step_s=1.0, loss=v) for i, v in enumerate(falling[100:])]
    assert named([*loss_job(falling), event("job_started", 200.5), *again]) == set()


def saves(times, took=2.0):
    for i, at in enumerate(times):
        yield event("checkpoint_started", at, step=i)
        yield event("checkpoint_saved", at + took, step=i)


def test_a_checkpoint_that_is_overdue_and_one_that_stalls():
    running = list(steps(400))
    assert named([*running, *saves([50, 100, 150, 200])]) == {("CHECKPOINT_OVERDUE", "cluster")}
    stalls = [*steps(222), *saves([50, 100, 150, 200]), event("checkpoint_started", 222.5)]
    assert named(stalls, until_s=260) == {("APP_CHECKPOINT_STALL", "cluster")}


def gauge(metric, subject, values, every_s=15.0):
    return [samples(metric, i * every_s, **{subject: v}) for i, v in enumerate(values)]


@pytest.mark.parametrize(
    ("metric", "subject", "values", "code"),
    [
        ("gpu_temperature_degC", "gpu:n1/0", [70, 95, 95, 95], "GPU_THROTTLED_THERMAL"),
        ("gpu_throttled_power", "gpu:n1/0", [0, 1, 1, 1], "GPU_THROTTLED_POWER"),
        ("gpu_lost", "gpu:n1/0", [0, 1], "GPU_LOST"),
        ("gpu_remap_failed", "gpu:n1/0", [0, 1], "GPU_ROW_REMAP_FAILURE"),
        ("gpu_remapped_rows", "gpu:n1/0", [7, 9], "GPU_ECC"),
        ("gpu_nvlinks_down", "gpu:n1/0", [0, 2, 2], "NVLINK_DOWN"),
        ("gpu_pcie_width_frac", "gpu:n1/0", [1, 0.5, 0.5, 0.5], "PCIE_DEGRADED"),
        ("port_up", "port:n1/mlx5_0[1]", [1, 0, 0], "IB_PORT_DOWN"),
        ("port_rate_Bps", "port:n1/mlx5_0[1]", [5e10, 2.5e10], "IB_LINK_RATE_LOW"),
        ("clock_offset_s", "node:n1", [1e-6, -0.25, -0.25], "CLOCK_OFFSET"),
        ("storage_latency_s", "node:n1", [0.004, 3.0, 5.0], "STORAGE_STALL"),
        ("gpu_ecc_uncorrected_total", "gpu:n1/0", [4, 4, 5], "GPU_ECC_UNCORRECTABLE"),
        ("port_symbol_errors_total", "port:n1/mlx5_0[1]", [10, 5000], "IB_LINK_ERRORS"),
        ("port_link_downed_total", "port:n1/mlx5_0[1]", [3, 4], "IB_LINK_FLAP"),
        ("port_link_downed_total", "port:n1/mlx5_0[1]", [255, 255], "IB_COUNTER_SATURATED"),
        ("rank_state", "rank:2", [0, 1, 1], "RANK_STOPPED"),
    ],
)
def test_a_reading_that_departs_is_named(metric, subject, values, code):
    assert named(gauge(metric, subject, values)) == {(code, subject)}


def test_a_reading_that_is_missing_is_neither_good_nor_bad():
    assert named(gauge("gpu_temperature_degC", "gpu:n1/0", [95, math.nan, 95, math.nan, 70, 95])) == set()
    found = named(gauge("gpu_temperature_degC", "gpu:n1/0", [95, math.nan, 95, math.nan, 95]))
    assert found == {("GPU_THROTTLED_THERMAL", "gpu:n1/0")}


def test_a_counter_that_is_reset_is_no_error():
    counts = [4000, 4000, 0, 1, 2]
    assert named(gauge("port_symbol_errors_total", "port:n1/mlx5_0[1]", counts)) == set()
    assert named(gauge("gpu_ecc_uncorrected_total", "gpu:n1/0", [7, 0, 0])) == set()


def test_old_errors_are_forgotten():
    one_an_hour = list(range(30))
    assert named(gauge("port_symbol_errors_total", "port:n1/mlx5_0[1]", one_an_hour, every_s=3600)) == set()


def test_waiting_for_credits_counts_relative_to_what_is_sent():
    def port(wait_per_word):
        for i in range(12):
            yield samples("port_xmit_wait_total", 15 * i, **{"port:n1/p[1]": i * 1e9 * wait_per_word})
            yield samples("port_xmit_data_bytes_total", 15 * i, **{"port:n1/p[1]": i * 4e9})

    assert named(port(0.1)) == set()
    assert named(port(1.0)) == {("IB_CONGESTION", "port:n1/p[1]")}


def test_retransmits_name_the_node_only_where_it_stands_alone():
    def job(shares):
        for i in range(5):
            yield samples(
                "node_tcp_retransmits_total", i, **{f"node:{n}": 1e4 * i * s for n, s in shares.items()}
            )
            yield samples("node_tcp_segments_total", i, **{f"node:{n}": 1e4 * i for n in shares})

    assert named(job({"h0": 0, "h1": 1e-4})) == set()
    assert named(job({"h0": 0, "h1": 0.05, "h2": 0.001})) == {("LINK_LOSS", "link:h1>*")}
    assert named(job({"h0": 0, "h1": 0.05, "h2": 0.049})) == {("LINK_LOSS", "cluster")}


def probes(metric, values_of, batches=14, hosts=4):
    for i in range(batches):
        links = {f"link:h{a}>h{b}": values_of(a, b, i) for a in range(hosts) for b in range(hosts) if a != b}
        yield samples(metric, i, **links)


@pytest.mark.parametrize(
    ("metric", "good", "bad", "expected"),
    [
        ("pair_round_trip_s", 2e-4, 5e-3, ("LINK_SLOW", "link:h2>*")),
        ("pair_rate_Bps", 1e9, 5e7, ("LINK_SLOW", "link:h2>*")),
        ("pair_lost_frac", 0.0, 0.05, ("LINK_LOSS", "link:h2>*")),
        ("pair_clock_offset_s", 1e-5, 0.25, ("CLOCK_OFFSET", "node:h2")),
    ],
)
def test_pairs_name_the_host_that_their_bad_links_share(metric, good, bad, expected):
    assert named(probes(metric, lambda a, b, i: bad if 2 in (a, b) and i >= 8 else good)) == {expected}
    assert named(probes(metric, lambda a, b, i: good)) == set()


def test_one_bad_pair_is_a_pair():
    found = named(probes("pair_round_trip_s", lambda a, b, i: 5e-3 if {a, b} == {1, 3} and i > 8 else 2e-4))
    assert found == {("LINK_SLOW", "pair:h1|h3")}


@given(st.integers(4, 12), st.data())
def test_a_bad_host_is_always_named_by_all_of_its_links(hosts, data):
    bad_host = data.draw(st.integers(0, hosts - 1))
    every = {(f"h{a:02}", f"h{b:02}") for a in range(hosts) for b in range(a + 1, hosts)}
    bad = {link for link in every if f"h{bad_host:02}" in link}
    assert [str(s) for s in culprits(bad, every)] == [f"link:h{bad_host:02}>*"]


def test_a_node_that_does_not_answer_is_down():
    up = [samples("node_up", i, **{"node:n1": 1.0, "node:n2": float(i < 5)}) for i in range(15)]
    assert named(up) == {("NODE_DOWN", "node:n2")}
    flaky = [samples("node_up", i, **{"node:n1": float(i % 4 != 3)}) for i in range(40)]
    assert named(flaky) == set()


def test_what_is_missing_never_reads_as_healthy():
    whole = {"node:n1": 0.01, "node:n2": 0.01}
    part = [samples("storage_latency_s", i, **(whole if i < 10 else {"node:n1": 0.01})) for i in range(40)]
    assert named(part) == {("SOURCE_SILENT", "node:n2")}
    gone = [samples("storage_latency_s", i, **whole) for i in range(10)]
    assert named(gone, until_s=40) == {("SOURCE_SILENT", "cluster")}
    failed = [event("source_failed", 1, "node:n1", "connection refused", source="chrony")]
    assert named(failed) == {("SOURCE_SILENT", "node:n1")}


def test_a_rank_that_leaves_alone_is_lost_and_one_that_ends_with_its_job_is_not():
    four = {f"rank:{r}": 0.0 for r in range(4)}
    three = {r: v for r, v in four.items() if r != "rank:2"}
    lost = [samples("rank_state", i, **(four if i < 5 else three)) for i in range(12)]
    assert named(lost) == {("RANK_LOST", "rank:2")}
    ended = [samples("rank_state", i, **(four if i < 5 else {"rank:0": 0.0})) for i in range(12)]
    assert named(ended) == set()


def test_survivors_complain_of_the_rank_that_is_lost():
    # Two ranks name the victim; a third names one that left because of it, and complained itself.
    told = [(0, 2), (3, 2), (1, 0)]
    items = [
        event("peer_closed", 0.1 * i, f"rank:{who}", peer=f"rank:{of}") for i, (who, of) in enumerate(told)
    ]
    assert named(items, until_s=4) == {("RANK_LOST", "rank:2")}


def test_an_exit_code_names_the_rank_and_zero_does_not():
    assert named([event("rank_exited", 1, "rank:1", code=-9)]) == {("RANK_LOST", "rank:1")}
    assert named([event("rank_exited", 1, "rank:1", code=0)]) == set()


def test_a_rank_that_may_not_run_is_starved():
    def cpu(metric, slope):
        return [samples(metric, i, **{f"rank:{r}": i * slope[r] for r in range(4)}) for i in range(8)]

    assert named(cpu("rank_cpu_throttled_s_total", [0, 0, 0.7, 0])) == {("RANK_STARVED", "rank:2")}
    assert named(cpu("rank_cpu_wait_s_total", [0.1, 0.1, 0.8, 0.1])) == {("RANK_STARVED", "rank:2")}
    assert named(cpu("rank_cpu_wait_s_total", [0.6, 0.7, 0.8, 0.6])) == set()


@pytest.mark.parametrize(
    ("xid", "code", "severity"),
    [
        (79, "GPU_XID_79", "critical"),
        (48, "GPU_ECC_UNCORRECTABLE", "high"),
        (64, "GPU_ROW_REMAP_FAILURE", "high"),
        (119, "GPU_GSP_TIMEOUT", "high"),
        (74, "NVLINK_FABRIC_ERROR", "high"),
        (94, "GPU_XID_94_CONTAINED", "medium"),
        (31, "GPU_XID_APP_FAULT", "medium"),
        (63, "GPU_ROW_REMAP_PENDING", "low"),
    ],
)
def test_xids_follow_the_policy(xid, code, severity):
    (incident,) = opened([event("xid", 1, "gpu:n1/3", "NVRM: Xid", xid=xid)])
    assert (incident.code, incident.severity.value) == (code, severity)


def test_the_last_xid_of_an_exporter_is_news_when_it_changes():
    assert named(gauge("gpu_last_xid", "gpu:n1/0", [0, 0, 79, 79])) == {("GPU_XID_79", "gpu:n1/0")}
    assert named(gauge("gpu_last_xid", "gpu:n1/0", [0, math.nan, 0])) == set()


def test_an_xid_that_follows_from_another_and_one_to_ignore_are_left_out():
    assert named([event("xid", 1, "gpu:n1/3", xid=92)]) == set()
    items = [event("xid", 1, "gpu:n1/3", xid=79), event("xid", 2, "gpu:n1/3", xid=45)]
    (incident,) = opened(items)
    assert [f.code for f in incident.findings] == ["GPU_XID_79"]


SURVIVAL = (
    (1, 0.5, 0.3934693402873665),
    (6, 2.0, 0.01656360848061443),
    (10, 4.0, 0.008132242796933871),
    (3, 10.0, 0.9972306042844884),
)


def test_the_poisson_tail_is_that_of_scipy():
    # scipy.stats.poisson.sf(count - 1, mean), SciPy 1.14.
    for count, mean, tail in SURVIVAL:
        assert poisson_tail(count, mean) == pytest.approx(tail, abs=1e-12)


@pytest.mark.parametrize(
    ("mtbf_s", "young", "best", "goodput"),
    [(7.9 * 3600, 1847, 1928, 0.915), (1.8 * 3600, 882, 984, 0.776), (3.09 * 3600, 1156, 1248, 0.845)],
)
def test_the_interval_between_checkpoints_is_that_of_the_papers(mtbf_s, young, best, goodput):
    habit = Habit(mtbf_s=mtbf_s, save_s=60, restart_s=600)
    assert young_s(habit) == pytest.approx(young, abs=1)
    assert best_s(habit) == pytest.approx(best, abs=1)
    assert goodput_frac(habit, best_s(habit)) == pytest.approx(goodput, abs=0.006)


def test_a_habit_needs_a_save_and_counts_no_failure_as_one():
    assert habit_of([], [], [], 3600) is None
    habit = habit_of([], [20.0], [], 3600)
    assert habit == Habit(mtbf_s=3600, save_s=20.0, restart_s=0.0)
