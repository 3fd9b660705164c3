"""A Grafana dashboard over the exporter's metrics, as JSON of schema version 39 (Grafana 10.4 and later)."""

from __future__ import annotations

from collections.abc import Iterator

from assay.watch.metrics import BY_NAME

#: Title of a row, and its panels: title, unit of Grafana, expression with {m} for the metric, metric (none
#: for those of the text file of a job), legend.
_ROWS = (
    (
        "GPUs",
        (
            ("Temperature", "celsius", "max by (instance) ({m})", "gpu_temperature_degC", "{{instance}}"),
            ("SM clock", "hertz", "min by (instance) ({m})", "gpu_sm_clock_Hz", "{{instance}}"),
            ("Power", "watt", "sum by (instance) ({m})", "gpu_power_W", "{{instance}}"),
            ("Throttled", "short", "sum by (instance) ({m})", "gpu_throttled_thermal", "{{instance}}"),
        ),
    ),
    (
        "Network",
        (
            ("Sent", "Bps", "rate({m}[1m])", "port_xmit_data_bytes_total", "{{instance}} {{device}}"),
            ("Symbol errors", "short", "increase({m}[1h])", "port_symbol_errors_total",
             "{{instance}} {{device}}"),
            ("Round trip to peers", "s", "{m}", "pair_round_trip_s", "{{instance}} → {{peer}}"),
            ("Probes lost", "percentunit", "{m}", "pair_lost_frac", "{{instance}} → {{peer}}"),
        ),
    ),
    (
        "Nodes",
        (
            ("Clock offset", "s", "{m}", "clock_offset_s", "{{instance}}"),
            ("Storage write", "s", "{m}", "storage_latency_s", "{{instance}}"),
            ("TCP sent again", "percentunit", "rate({m}[1m]) / rate(assay_tcp_segments_total[1m])",
             "node_tcp_retransmits_total", "{{instance}}"),
            ("Ranks waiting for a processor", "percentunit", "rate({m}[1m])", "rank_cpu_wait_s_total",
             "{{instance}} rank {{rank}}"),
        ),
    ),
    (
        "Jobs",
        (
            ("Save every", "s", "assay_job_checkpoint_interval_seconds", "", "{{instance}}"),
            ("Open incidents", "short", "assay_incidents_open", "", "{{instance}}"),
        ),
    ),
)  # fmt: skip
_WIDTH, _HEIGHT, _PER_ROW = 12, 8, 2


def dashboard() -> dict[str, object]:
    """The dashboard, to be imported as it is; it asks for the Prometheus to read."""
    return {
        "title": "Assay",
        "uid": "assay-watch",
        "tags": ["assay"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "utc",
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "type": "datasource",
                    "query": "prometheus",
                    "label": "Prometheus",
                    "hide": 0,
                }
            ]
        },
        "annotations": {"list": []},
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, object]]:
    number, y = 0, 0
    for title, panels in _ROWS:
        number += 1
        row = {"h": 1, "w": 24, "x": 0, "y": y}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": row, "panels": []}
        y += 1
        for at, (name, unit, expression, metric, legend) in enumerate(panels):
            number += 1
            place = {
                "h": _HEIGHT,
                "w": _WIDTH,
                "x": at % _PER_ROW * _WIDTH,
                "y": y + at // _PER_ROW * _HEIGHT,
            }
            own = BY_NAME[metric].exported if metric else ""
            yield _panel(number, name, unit, expression.replace("{m}", own), legend, place)
        y += -(-len(panels) // _PER_ROW) * _HEIGHT


def _panel(
    number: int, title: str, unit: str, expression: str, legend: str, place: dict[str, int]
) -> dict[str, object]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    target = {"refId": "A", "datasource": source, "expr": expression, "legendFormat": legend}
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "datasource": source,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [target],
    }
