"""`assay watch`, `incidents` and `sla` as people call them, and what they say to bad input."""

from __future__ import annotations

import json
import math

import pytest
from items import T0, event, samples, steps

from assay.api.acting import carried_out
from assay.api.following import Adviser, follow_job
from assay.api.watching import Watch, replay, settings_of
from assay.catalog.messages import Texts
from assay.codec.telemetry import TelemetryDecoder, to_line
from assay.codec.watching import ActionPlan, load_terms, load_watch
from assay.domain.incident import Change
from assay.domain.samples import Samples
from assay.errors import InputError, UnitError, UnknownNameError
from assay.report.incident_page import incident_page
from assay.report.incidents import plain_incidents
from assay.watch.actions import Decider
from assay.watch.interval import Habit, best_s
from assay.watch.machine import Machine
from commands import assay


def a_day():
    """A GPU falls off the bus while a job runs; the loss jumps at the same time."""
    yield event("rank_placed", 0, "rank:5", node="n1")
    yield event("job_started", 0)
    yield from (event("step", 1 + i, step=i, step_s=1.0, loss=2 + 0.01 * (i % 5)) for i in range(60))
    yield event(
        "xid", 60.5, "gpu:n1/5", "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.", xid=79
    )
    yield event("step", 61, step=60, step_s=1.0, loss=9.0)
    yield event("job_ended", 62, ok=0)
    yield samples("node_up", 63, **{"node:n1": 1.0, "node:n2": 1.0})
    yield event("job_started", 240)
    yield event("tick", 300)


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "day.jsonl"
    path.write_text("".join(to_line(item) + "\n" for item in a_day()))
    return path


def test_a_recorded_day_from_replay_to_the_books(recorded, tmp_path):
    done = assay("watch", "--replay", recorded, "--ledger", "l.jsonl", "--json", cwd=tmp_path)
    assert done.code == 1, done.err
    told = done.json
    assert (told["schema_version"], told["command"]) == (1, "watch")
    gpu, loss = told["incidents"]
    assert (gpu["code"], gpu["subject"], gpu["nodes"]) == ("GPU_XID_79", "gpu:n1/5", ["n1"])
    assert gpu["findings"][0]["fix"]
    assert (loss["code"], loss["coincides"]) == ("LOSS_SPIKE", [gpu["id"]])
    assert told["spent"]["productive_s"] > 50
    listed = assay("incidents", "--ledger", "l.jsonl", "--lang", "zh", cwd=tmp_path)
    assert listed.code == 0
    assert "gpu:n1/5" in listed.out
    assert max(map(len, listed.out.splitlines())) <= 80
    books = assay("sla", "--ledger", "l.jsonl", "--json", cwd=tmp_path)
    assert books.code == 1
    service = books.json
    assert service["nodes"] == 2
    assert service["spent"] == told["spent"]
    assert service["node_frac"] == pytest.approx(1 - (300 - 60.5) / 600, abs=0.01)
    assert service["by_session_frac"] == pytest.approx(0.5)


def test_the_same_day_twice_is_the_same(recorded, tmp_path):
    first, again = (replay([recorded], ledger=tmp_path / "l") for _ in range(2))
    assert [i.id for i in first.incidents] == [i.id for i in again.incidents]
    assert len((tmp_path / "l").read_text().splitlines()) == len(
        {json.loads(line)["id"] for line in (tmp_path / "l").read_text().splitlines()}
    )


def test_following_a_log_that_grows(tmp_path):
    log = tmp_path / "train.log"
    log.write_text("".join(f"step {i} loss 2.0{i % 7} step_time 0.5 s\n" for i in range(40)))
    with log.open("a") as file:
        file.write("step 40 loss nan step_time 0.5 s\n")
    done = assay("watch", "--job", log, "--from-start", "--for", "2 s", "--json", cwd=tmp_path)
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [(c["step"], c["incident"]["code"]) for c in lines] == [("opened", "LOSS_DIVERGED")], done.err
    assert lines[0]["incident"]["findings"][0]["evidence"][0]["line"] == 41
    assert done.code == 1
    acknowledged = assay("incidents", "--ack", lines[0]["incident"]["id"][:6], cwd=tmp_path)
    assert acknowledged.code == 0
    told = assay("incidents", "--json", cwd=tmp_path).json
    assert told["incidents"][0]["acknowledged_s"] is not None


def test_the_interval_between_checkpoints_is_told_as_it_changes_and_kept_as_a_metric(tmp_path):
    """Saves of 4 s, then a failure in 2 h, then more: the advice follows, and a repetition is no news."""
    watch, told, file = Watch(), list[Habit](), tmp_path / "assay.prom"
    advise = Adviser(watch, told.append, file)
    advise(T0)
    assert (told, "assay_job" in file.read_text()) == ([], False)
    assert "assay_incidents_open 0\n" in file.read_text()

    def train(start_s: int, end_s: int):
        for at in range(start_s, end_s, 10):
            if at % 600 == 590:
                yield event("checkpoint_started", at)
                yield event("checkpoint_saved", at + 4)
            else:
                yield event("step", at, step=at // 10, step_s=10.0)

    for at, end in ((0, 3600), (3600, 7200)):
        watch.take(train(at, end))
        watch.advance(T0 + end)
        advise(T0 + end)
        advise(T0 + end)
    assert len(told) == 2
    assert told[0].save_s == pytest.approx(4.0, abs=0.1)
    assert told[0].mtbf_s == pytest.approx(3600, rel=0.05)
    assert best_s(told[1]) == pytest.approx(math.sqrt(2) * best_s(told[0]), rel=0.05)
    watch.take([event("job_ended", 7210, ok=0), event("job_started", 7260), *train(7270, 8000)])
    watch.advance(T0 + 8000)
    assert watch.habit.mtbf_s == pytest.approx(8000, rel=0.05)
    metrics = dict(line.split() for line in file.read_text().splitlines() if line[0] != "#")
    assert float(metrics["assay_job_checkpoint_interval_seconds"]) == pytest.approx(best_s(told[1]))
    assert float(metrics["assay_job_failure_interval_seconds"]) == pytest.approx(told[1].mtbf_s)


def test_the_doctor_reads_the_logs_of_a_job_that_lost_a_rank(tmp_path):
    log = tmp_path / "train.log"
    log.write_text(
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.\n"
        "  rank      : 1 (local_rank: 1)  exitcode  : 1 (pid: 44)\n"
    )
    told = list[Change]()
    follow_job([str(log)], told.append, ledger=tmp_path / "l", from_start=True, for_s=6)
    assert told[0].incident.code == "RANK_LOST"
    assert "APP_OOM_AS_NCCL" in {f.code for f in told[-1].incident.findings}


def test_bad_use_ends_with_2_and_says_what_to_do(tmp_path):
    (tmp_path / "bad.jsonl").write_text(
        '{"type": "event", "kind": "step", "time": 3, "subject": "cluster"}\n'
    )
    for words, said in (
        (("watch",), "--replay"),
        (("watch", "--replay", "bad.jsonl"), "bad.jsonl:1"),
        (("sla", "--ledger", "none.jsonl"), "assay watch --ledger"),
        (("sla", "--from", "soon"), "2026-11-01"),
    ):
        done = assay(*words, cwd=tmp_path)
        assert done.code == 2, done.err
        assert said in done.told
        assert "Traceback" not in done.told


CONFIG = """\
schema: 1
prometheus: http://localhost:9090
every: 5 s
jobs:
  - name: llama
    logs: [/runs/*/rank*.log]
ranks: {"0": n1}
bounds:
  clock_offset_s: 50 us
  straggler_frac: 20 %
  pair_ratio: 3
actions:
  - {kind: drain, severity: critical, most: 1 %}
"""


def test_the_file_of_a_cluster():
    plan = load_watch(CONFIG, "w.yaml")
    assert (plan.every_s, plan.ranks) == (5.0, {"0": "n1"})
    settings = settings_of(plan.bounds)
    assert (settings.clock_offset_s, settings.straggler_frac, settings.pair_ratio) == (
        pytest.approx(5e-5),
        0.2,
        3.0,
    )
    (action,) = plan.actions
    assert (action.kind, action.live, action.most_frac) == ("drain", False, 0.01)


@pytest.mark.parametrize(
    ("old", "new", "error", "words"),
    [
        ("every: 5 s", "evry: 5 s", InputError, ["w.yaml:3", "did you mean 'every'"]),
        ("every: 5 s", "every: 5", InputError, ["w.yaml:3", "text is wanted", "needs its unit"]),
        ("50 us", "50 MB", UnitError, ["w.yaml:9"]),
        ("straggler_frac", "stragler_frac", UnknownNameError, ["straggler_frac"]),
        ("schema: 1", "schema: 2", InputError, ["w.yaml:1"]),
        ("kind: drain", "kind: drian", InputError, ["drain"]),
    ],
)
def test_a_bad_file_is_refused_with_its_line(old, new, error, words):
    def load():
        plan = load_watch(CONFIG.replace(old, new), "w.yaml")
        settings_of(plan.bounds)
        Decider(plan.actions, 10, str)

    with pytest.raises(error) as caught:
        load()
    for word in words:
        assert word in str(caught.value)


def test_a_contract():
    terms = load_terms(
        "schema: 1\navailable: 99.95 %\nbasis: job\nfee: 1000\ntiers:\n  - {below: 99.9 %, credit: 10 %}\n",
        "c.yaml",
    )
    assert (terms.available_frac, terms.basis, terms.credit_frac(0.998)) == (0.9995, "job", 0.1)
    with pytest.raises(InputError, match="basis 'rack'"):
        load_terms("schema: 1\navailable: 99 %\nbasis: rack\n", "c.yaml")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"type": "samples", "metric": "x", "subjects": ["node:a"], "values": [1]}', "time"),
        (
            '{"type": "samples", "metric": "x", "time_s": 1, "subjects": ["node:a"], "values": [1, 2]}',
            "1 subjects",
        ),
        ('{"type": "samples", "metric": "x", "time_s": 1, "subjects": "gpus", "values": [1]}', "'gpus'"),
        ('{"type": "samples", "metric": "x", "time_s": 1, "subjects": ["nod:a"], "values": [1]}', "nod"),
        (
            '{"type": "samples", "metric": "x", "time_s": 1, "subjects": ["node:a"], "values": ["b"]}',
            "no number",
        ),
        ('{"type": "evnt"}', "did you mean 'event'"),
        ('{"type": "samples", ', "JSON"),
    ],
)
def test_a_bad_line_of_telemetry_is_refused_with_its_place(line, words):
    with pytest.raises(InputError) as caught:
        TelemetryDecoder().decode(line, file="e", number=7)
    assert "e:7" in str(caught.value)
    assert words in str(caught.value)


def test_samples_may_name_their_subjects_once():
    decoder = TelemetryDecoder()
    assert (
        decoder.decode('{"type":"subjects","name":"g","subjects":["gpu:a/0","gpu:a/1"]}', file="e", number=1)
        is None
    )
    batches = [
        decoder.decode(
            f'{{"type":"samples","metric":"gpu_lost","time_s":{t},"subjects":"g","values":[0,null]}}',
            file="e",
            number=t,
        )
        for t in (2, 3)
    ]
    assert all(isinstance(b, Samples) for b in batches)
    assert batches[0].subjects is batches[1].subjects


def incidents_of_day():
    from assay.watch.order import Order

    machine, order, last, story = Machine(), Order(), {}, []
    for item in a_day():
        for one in order.push(item):
            for change in machine.feed(one):
                last[change.incident.id] = change.incident
                story.append(change)
    return list(last.values()), story


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_of_incidents_is_whole_and_the_terminal_is_80_wide(lang):
    found, story = incidents_of_day()
    texts = Texts(lang)
    page = incident_page(found, story, texts)
    assert page.count("<article") == 2
    assert "Xid (PCI:0000:9b:00): 79" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert texts.finding("GPU_XID_79").fixes[0].split("<")[0][:20] in page
    text = plain_incidents(found, texts)
    assert max(map(len, text.splitlines())) <= 80


def test_nothing_is_done_unless_the_plan_says_so_and_never_to_too_many_nodes():
    _, story = incidents_of_day()
    opened = next(c for c in story if c.incident.code == "GPU_XID_79")
    assert list(Decider((), 100, str).decide(opened)) == []
    dry = Decider((ActionPlan(kind="drain"),), 100, lambda i: "why")
    (order,) = dry.decide(opened)
    record = carried_out(order, 1.0)
    assert order.words[:3] == ("scontrol", "update", "NodeName=n1")
    assert (record.dry_run, record.done) == (True, False)
    assert list(dry.decide(opened)) == []
    few = Decider((ActionPlan(kind="cordon", live=True, most_frac=0.02),), 10, lambda i: "why")
    (refused,) = few.decide(opened)
    assert "at most 0 of 10" in refused.refusal
    assert carried_out(refused, 1.0).done is False


def test_a_command_is_run_with_the_facts_and_a_failure_is_recorded():
    _, story = incidents_of_day()
    opened = next(c for c in story if c.incident.code == "GPU_XID_79")
    for target, done in (("true {code}", True), ("false {code}", False), ("no-such-program-xyz", False)):
        decider = Decider((ActionPlan(kind="command", target=target, live=True),), 10, lambda i: "why")
        (order,) = decider.decide(opened)
        assert carried_out(order, 1.0).done is done
    assert decider.plans[0].target == "no-such-program-xyz"
    filled = Decider((ActionPlan(kind="command", target="echo {code} {subject} {none}"),), 10, str)
    (order,) = filled.decide(opened)
    assert order.words == ("echo", "GPU_XID_79", "gpu:n1/5", "{none}")


def test_two_clean_weeks_have_at_most_one_false_incident():
    from assay.watch.order import Order
    from assay.watch.rehearsal import Rehearsal
    from assay.watch.settings import Settings

    # A sample in 5 min keeps it short; benchmarks/watch.py takes one a minute, and 16,384 GPUs.
    plan = Rehearsal(nodes=4, days=14, seed=11, every_s=300.0, step_s=120.0)
    machine = Machine(Settings(down_s=400, silent_least_s=1200))
    order, opened = Order(tick_s=120.0), []
    for item in plan.items():
        for one in order.push(item):
            opened += [c.incident for c in machine.feed(one) if c.step.value == "opened"]
    assert len(opened) <= 1, [(i.code, str(i.subject)) for i in opened]


def test_the_failures_of_a_rehearsal_are_all_found():
    from assay.watch.order import Order
    from assay.watch.rehearsal import Rehearsal, some_failures
    from assay.watch.settings import Settings

    failures = some_failures(4, 3.0, seed=4)
    plan = Rehearsal(nodes=4, days=3, seed=4, every_s=60.0, step_s=30.0, failures=failures)
    machine = Machine(Settings(down_s=180, silent_least_s=600))
    order, found = Order(tick_s=60.0), {}
    for item in plan.items():
        for one in order.push(item):
            for change in machine.feed(one):
                found[change.incident.id] = change.incident
    for failure in failures:
        node = f"n{failure.gpu // 8:04d}"
        hit = [i for i in found.values() if node in i.nodes and -1 <= i.opened_s - failure.at_s < 6 * 3600]
        assert hit, failure


def test_steps_may_come_as_they_are_recorded(tmp_path):
    """A number that is none survives being recorded."""
    path = tmp_path / "e.jsonl"
    items = [*steps(20, loss=2.0), event("step", 21, step=20, step_s=1.0, loss=float("nan"))]
    path.write_text("".join(to_line(i) + "\n" for i in items))
    assert [i.code for i in replay([path]).incidents] == ["LOSS_DIVERGED"]
    assert replay([path]).incidents[0].opened_s > T0
