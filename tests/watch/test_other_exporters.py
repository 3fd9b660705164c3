"""A real Prometheus that scrapes what dcgm-exporter and node_exporter print: our queries find it all.

The text is in the form and with the names of dcgm-exporter 4 and node_exporter 1.8; values are a test's own.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from servers import make_prometheus, until

from assay.api.watching import Watch
from assay.catalog.messages import Texts
from assay.codec.document import write_yaml
from assay.domain.incident import Change
from assay.watch.metrics import METRICS
from assay.watch.sources.prometheus import Prometheus, PrometheusSource

_GPU = (
    'gpu="{gpu}",UUID="GPU-a8394b51-c086-568a-9f1a-c1e1c934c4{gpu}c",pci_bus_id="00000000:0{gpu}:00.0",'
    'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="{host}",DCGM_FI_DRIVER_VERSION="570.1"'
)
_DCGM = {
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "GPU temperature (in C).", 41),
    "DCGM_FI_DEV_SM_CLOCK": ("gauge", "SM clock frequency (in MHz).", 1980),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power draw (in W).", 312.5),
    "DCGM_FI_DEV_THERMAL_VIOLATION": (
        "counter",
        "Throttling duration due to thermal constraints (in us).",
        0,
    ),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("counter", "Total number of double-bit volatile ECC errors.", 0),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("counter", "Total number of single-bit volatile ECC errors.", 0),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": (
        "counter",
        "Number of remapped rows for uncorrectable errors",
        0,
    ),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", "Whether remapping of rows has failed", 0),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", "Total number of PCIe retries.", 3),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", "Value of the last XID error encountered.", 0),
}
_PORT = 'device="{device}",port="1"'
_NODE = {
    "node_infiniband_state_id": ("gauge", "State of the InfiniBand port (4: active)", 4),
    "node_infiniband_rate_bytes_per_second": ("gauge", "Maximum signal transfer rate", 5e10),
    "node_infiniband_symbol_error_total": ("counter", "Number of minor link errors detected.", 0),
    "node_infiniband_link_error_recovery_total": ("counter", "Successful recoveries from a link error.", 0),
    "node_infiniband_link_downed_total": ("counter", "Failed recoveries from a link error.", 1),
    "node_infiniband_port_discards_transmitted_total": ("counter", "Packets that were discarded.", 0),
    "node_infiniband_out_of_sequence_packets_received_total": ("counter", "Out of sequence packets.", 0),
    "node_infiniband_port_transmit_wait_total": ("counter", "Ticks with data but without credits", 12),
    "node_infiniband_port_data_transmitted_bytes_total": (
        "counter",
        "Number of data octets transmitted",
        8e12,
    ),
    "node_netstat_Tcp_RetransSegs": ("untyped", "Statistic TcpRetransSegs.", 227),
    "node_netstat_Tcp_OutSegs": ("untyped", "Statistic TcpOutSegs.", 5.4915039e07),
    "node_timex_sync_status": ("gauge", "Is clock synchronized to a reliable server (1 = yes, 0 = no).", 1),
    "node_timex_offset_seconds": (
        "gauge",
        "Time offset in between local system and reference clock.",
        1.2e-5,
    ),
}


class Node(ThreadingHTTPServer):
    """Serves what the exporters of `host` print; a test sets values by their names."""

    def __init__(self, host: str) -> None:
        super().__init__(("127.0.0.1", 0), _Pages)
        self.host, self.values, self.beat = host, dict[str, float](), 0
        self.target = f"127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()

    def page(self) -> str:
        self.beat += 1
        lines = ['DCGM_EXPORTER_BUILD_INFO{version="4"} 1', 'node_uname_info{sysname="Linux"} 1']
        for name, (kind, what, value) in {**_DCGM, **_NODE}.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
            value = self.values.get(
                name, value + (self.beat if name.endswith(("TEMP", "bytes_total")) else 0) % 7
            )
            if name in _DCGM:
                rows = [_GPU.format(gpu=gpu, host=self.host) for gpu in range(2)]
            else:
                rows = [_PORT.format(device=f"mlx5_{i}") for i in range(2)] if "infiniband" in name else [""]
            # A fault is one of the first device, the others go on as they were.
            normal = {**_DCGM, **_NODE}[name][2]
            lines += [f"{name}{{{row}}} {value if at == 0 else normal}" for at, row in enumerate(rows)]
        return "\n".join(lines) + "\n"

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join()


class _Pages(BaseHTTPRequestHandler):
    server: Node

    def do_GET(self) -> None:
        body = self.server.page().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


#: What of ours an other exporter tells, by what its expressions are over.
TOLD = {m.name for m in METRICS if any(name in expr for expr in m.others for name in {**_DCGM, **_NODE})}


def test_every_expression_over_other_exporters_is_over_a_metric_that_they_have():
    assert {m.name for m in METRICS if m.others} == TOLD
    assert len(TOLD) == 23


@pytest.fixture
def nodes():
    made = {name: Node(name) for name in ("n1", "n2")}
    yield made
    for node in made.values():
        if node.thread.is_alive():
            node.stop()


RULES = {
    "groups": [
        {
            "name": "faults",
            "rules": [
                {
                    "alert": "PortDown",
                    "expr": "node_infiniband_state_id != 4",
                    "labels": {"severity": "critical"},
                },
                {"alert": "NodeDown", "expr": "up == 0", "labels": {"severity": "critical"}},
            ],
        }
    ]
}


def test_a_fault_and_a_target_that_is_gone_through_prometheus(nodes, alertmanager, tmp_path):
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "rules.yml").write_text(write_yaml(RULES))
    server = make_prometheus(
        folder, {n: node.target for n, node in nodes.items()}, alertmanager.url.removeprefix("http://")
    )
    server.start()
    source = PrometheusSource(Prometheus(server.url, timeout_s=2.0), every_s=0.5, look_again_s=1.0)
    watch, told, story = Watch(nodes=("n1", "n2")), dict[str, dict[str, float]](), list[Change]()

    def heard(code: str = "") -> Change | None:
        items = source.poll(0)
        for item in items:
            if hasattr(item, "metric"):
                told[item.metric] = {
                    str(s): float(v) for s, v in zip(item.subjects, item.values, strict=True)
                }
        story.extend([*watch.take(items), *watch.advance(time.time())])
        return next((c for c in story if c.incident.code == code), None)

    try:
        until(lambda: (heard() or True) and told.keys() >= TOLD and len(told["port_up"]) == 4)
        assert story == []
        assert told["gpu_sm_clock_Hz"]["gpu:n1/0"] == 1.98e9
        assert told["port_rate_Bps"] == {f"port:n{n}/mlx5_{i}[1]": 5e10 for n in (1, 2) for i in (0, 1)}
        assert told["port_up"]["port:n2/mlx5_0[1]"] == 1
        assert told["gpu_throttled_thermal"]["gpu:n1/1"] == 0
        assert told["clock_offset_s"]["node:n2"] == 1.2e-5
        hot = told["gpu_temperature_degC"]["gpu:n1/0"]
        until(lambda: (heard() or True) and told["gpu_temperature_degC"]["gpu:n1/0"] != hot)

        nodes["n1"].values["node_infiniband_state_id"] = 1
        nodes["n2"].values["DCGM_FI_DEV_XID_ERRORS"] = 79
        assert str(until(lambda: heard("IB_PORT_DOWN")).incident.subject) == "port:n1/mlx5_0[1]"
        assert str(until(lambda: heard("GPU_XID_79")).incident.subject) == "gpu:n2/0"
        until(lambda: ("PortDown", "n1") in _alerts(alertmanager.url))
        nodes["n1"].stop()
        gone = until(lambda: heard() or next((c for c in story if _names(c, "NODE_DOWN", "node:n1")), None))
        assert gone.incident.nodes == ("n1",)
        until(lambda: ("NodeDown", "n1") in _alerts(alertmanager.url))
    finally:
        source.close()
        server.stop()


def _names(change: Change, code: str, subject: str) -> bool:
    return any((f.code, str(f.subject)) == (code, subject) for f in change.incident.findings)


def _alerts(url: str) -> set[tuple[str, str]]:
    """What Prometheus itself has told Alertmanager: alert and node."""
    with urllib.request.urlopen(url + "/api/v2/alerts") as answer:
        return {(a["labels"]["alertname"], a["labels"]["instance"]) for a in json.load(answer)}


def test_our_own_rules_are_fired_by_prometheus_into_alertmanager(alertmanager, tmp_path):
    """The rules that `--rules` writes, loaded as they are; a target that is not there fires one of them."""
    from assay.watch.rules import rules_file
    from assay.watch.settings import Settings

    folder = tmp_path / "p"
    folder.mkdir()
    made = rules_file(Settings(), Texts("en"))
    for rule in made["groups"][0]["rules"]:
        rule["for"] = "0s"  # so that the test need not wait as long as people would
    (folder / "rules.yml").write_text(write_yaml(made))
    server = make_prometheus(folder, {"n9": "127.0.0.1:1"}, alertmanager.url.removeprefix("http://"))
    server.start()

    def fired() -> dict[str, str] | None:
        with urllib.request.urlopen(alertmanager.url + "/api/v2/alerts") as answer:
            return next((a["labels"] for a in json.load(answer)), None)

    try:
        labels = until(fired)
    finally:
        server.stop()
    assert (labels["alertname"], labels["code"], labels["instance"]) == ("AssayNodeDown", "NODE_DOWN", "n9")
