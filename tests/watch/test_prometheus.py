"""With a real Prometheus and Alertmanager: what nodes tell arrives, what they no longer tell is noticed."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request

import pytest
from servers import answers, free_port, make_prometheus, program, until

from assay.api.acting import actor
from assay.api.watching import Watch
from assay.catalog.messages import Texts
from assay.codec.watching import ActionPlan, WatchPlan
from assay.domain.event import Event
from assay.domain.incident import Change
from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.errors import InputError
from assay.watch.exporter import Exporter
from assay.watch.sources.prometheus import Prometheus, PrometheusSource, _vector


class Node:
    """An exporter whose readings a test sets."""

    def __init__(self, host: str) -> None:
        self.values = {
            ("gpu_temperature_degC", Subject("gpu", f"{host}/3")): 61.0,
            ("port_link_downed_total", Subject("port", f"{host}/mlx5_1[1]")): 2.0,
            ("storage_latency_s", Subject("node", host)): 0.004,
        }
        self.port = free_port()
        self.start()

    def start(self) -> None:
        read = lambda: [(m, s, v) for (m, s), v in self.values.items()]  # noqa: E731
        self.exporter = Exporter(read, port=self.port)
        self.thread = threading.Thread(target=self.exporter.serve)
        self.thread.start()

    def stop(self) -> None:
        self.exporter.close()
        self.thread.join()


@pytest.fixture
def nodes():
    made = {name: Node(name) for name in ("n1", "n2")}
    yield made
    for node in made.values():
        node.stop()


def test_a_cluster_through_prometheus_to_alertmanager(nodes, alertmanager, tmp_path):
    """A link flaps, a node goes, Prometheus itself goes and comes back; Alertmanager hears of it."""
    server = make_prometheus(tmp_path / "p", {n: f"127.0.0.1:{node.port}" for n, node in nodes.items()})
    server.start()
    plan = WatchPlan(
        prometheus=server.url,
        nodes=("n1", "n2"),
        actions=(ActionPlan(kind="alertmanager", target=alertmanager.url, severity="medium", live=True),),
    )
    act = actor(plan, Texts("en"))
    source = PrometheusSource(Prometheus(server.url, timeout_s=2.0), every_s=0.5)
    watch, changes, items = Watch(nodes=plan.nodes), list[Change](), list[Event | Samples]()

    def heard(code: str) -> Change | None:
        new = source.poll(0)
        items.extend(new)
        for change in watch.take(new):
            changes.append(change)
            act(change)
        return next((c for c in changes if any(f.code == code for f in c.incident.findings)), None)

    try:
        until(lambda: heard("x") or any(getattr(i, "metric", "") == "gpu_temperature_degC" for i in items))
        batch = next(i for i in items if getattr(i, "metric", "") == "gpu_temperature_degC")
        assert {str(s) for s in batch.subjects} <= {"gpu:n1/3", "gpu:n2/3"}
        assert set(batch.values) == {61.0}
        until(lambda: heard("x") or len(items[-1].subjects) == 2)
        assert changes == []

        nodes["n1"].values["port_link_downed_total", Subject("port", "n1/mlx5_1[1]")] = 5.0
        assert str(until(lambda: heard("IB_LINK_FLAP")).incident.subject) == "port:n1/mlx5_1[1]"
        nodes["n2"].stop()
        assert str(until(lambda: heard("NODE_DOWN")).incident.subject) == "node:n2"
        server.stop()
        failed = until(lambda: heard("SOURCE_SILENT"))
        assert failed.incident.findings[0].severity.value == "medium"
        server.start()
        until(lambda: heard("x") or any(getattr(i, "kind", "") == "source_back" for i in items))
        nodes["n2"].start()
        until(
            lambda: (
                heard("x")
                or any(c.step.value == "recovered" and c.incident.code == "NODE_DOWN" for c in changes)
            )
        )
    finally:
        source.close()
        server.stop()
    with urllib.request.urlopen(alertmanager.url + "/api/v2/alerts") as answer:
        told = {a["labels"]["alertname"]: a["labels"]["subject"] for a in json.load(answer)}
    assert told["IB_LINK_FLAP"] == "port:n1/mlx5_1[1]"


def test_a_prometheus_that_is_not_there_or_refuses_is_an_event():
    source = PrometheusSource(Prometheus(f"http://127.0.0.1:{free_port()}", timeout_s=1.0), every_s=0.05)
    try:
        got: list[Event] = []
        until(lambda: got.extend(source.poll(0)) or got)
        (event,) = got
        assert event.kind == "source_failed"
        assert "refused" in event.text
    finally:
        source.close()


def test_a_prometheus_that_answers_too_slowly_is_an_event_and_holds_nothing_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = Prometheus(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.3)
        source = PrometheusSource(server, every_s=0.05)
        try:
            begin_s = time.monotonic()
            assert source.poll(0) == []
            assert time.monotonic() - begin_s < 0.25
            got: list[Event] = []
            until(lambda: got.extend(source.poll(0)) or got)
            assert (got[0].kind, "timed out" in got[0].text) == ("source_failed", True)
        finally:
            source.close()


def test_what_is_no_prometheus_is_refused():
    with pytest.raises(InputError, match="no address of a Prometheus"):
        Prometheus("localhost:9090")
    with pytest.raises(InputError, match="not that of a Prometheus"):
        list(_vector({"data": {"result": None}}, "u"))


def test_the_rules_hold_before_promtool_and_fire_when_they_should(tmp_path):
    from assay.codec.document import write_yaml
    from assay.watch.rules import rules_file
    from assay.watch.settings import Settings

    promtool = program("promtool", "prometheus")
    rules = tmp_path / "rules.yml"
    rules.write_text(write_yaml(rules_file(Settings(), Texts("en"))))
    import subprocess

    checked = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    labels = '{instance="n1",device="mlx5_0",port="1"}'
    test = {
        "rule_files": [str(rules)],
        "evaluation_interval": "10s",
        "tests": [
            {
                "interval": "10s",
                "input_series": [
                    {"series": f"assay_port_link_downed_total{labels}", "values": "3x6 4x12"},
                    {"series": f"assay_port_up{labels}", "values": "1x6 0x12"},
                    {"series": 'assay_clock_offset_seconds{instance="n1"}', "values": "0x30"},
                ],
                "alert_rule_test": [
                    {"eval_time": "50s", "alertname": "AssayIbPortDown", "exp_alerts": []},
                    {
                        "eval_time": "2m",
                        "alertname": "AssayIbPortDown",
                        "exp_alerts": [
                            {
                                "exp_labels": {
                                    "severity": "critical",
                                    "code": "IB_PORT_DOWN",
                                    "instance": "n1",
                                    "device": "mlx5_0",
                                    "port": "1",
                                },
                                "exp_annotations": {
                                    "summary": Texts("en").finding("IB_PORT_DOWN").title,
                                    "description": Texts("en").finding("IB_PORT_DOWN").why,
                                    "fix": " ".join(Texts("en").finding("IB_PORT_DOWN").fixes),
                                },
                            }
                        ],
                    },
                    {"eval_time": "4m", "alertname": "AssayClockOffset", "exp_alerts": []},
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(write_yaml(test))
    tested = subprocess.run(
        [promtool, "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_a_token_is_asked_for_and_only_metrics_are_there():
    exporter = Exporter(list, port=0, token="secret")
    thread = threading.Thread(target=exporter.serve)
    thread.start()
    url = f"http://127.0.0.1:{exporter.port}/metrics"
    try:
        assert not answers(url)
        request = urllib.request.Request(url, headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(request) as answer:
            assert b"assay_exporter_series_left_out 0.0" in answer.read()
        wrong = urllib.request.Request(url, headers={"Authorization": "Bearer secrets"})
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(wrong)
    finally:
        exporter.close()
        thread.join()


def test_a_node_that_tells_too_much_is_cut_and_says_so():
    from prometheus_client import CollectorRegistry, generate_latest

    from assay.watch.exporter import MOST_SERIES, Collector

    many = [("gpu_lost", Subject("gpu", f"n/{i}"), 0.0) for i in range(MOST_SERIES + 5)]
    registry = CollectorRegistry()
    registry.register(Collector(lambda: many))
    assert b"assay_exporter_series_left_out 5.0" in generate_latest(registry)
