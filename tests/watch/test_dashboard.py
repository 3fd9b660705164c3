"""The dashboard against Grafana's dashboard model; its queries against what is exported, and PromQL."""

from __future__ import annotations

import itertools
import json
import re
import subprocess

import pytest
from servers import program

from assay.codec.document import write_yaml
from assay.watch.dashboard import dashboard
from assay.watch.metrics import METRICS
from assay.watch.textfile import JOB_METRICS

#: "JSON model" of Grafana's manual and kinds/dashboard/dashboard_kind.cue of Grafana 10.4: key → type, all of
#: them required here.
DASHBOARD = {
    "title": str, "uid": str, "tags": list, "schemaVersion": int, "version": int, "editable": bool,
    "refresh": str, "time": dict, "timezone": str, "templating": dict, "annotations": dict, "panels": list,
}  # fmt: skip
PANEL = {"id": int, "type": str, "title": str, "gridPos": dict}
GRAPH = {**PANEL, "datasource": dict, "fieldConfig": dict, "options": dict, "targets": list}
ROW = {**PANEL, "collapsed": bool, "panels": list}
TARGET = {"refId": str, "datasource": dict, "expr": str, "legendFormat": str}
SOURCE = {"type": str, "uid": str}
VARIABLE = {"name": str, "type": str, "query": str, "label": str, "hide": int}
#: Units of packages/grafana-data/src/valueFormats/categories.ts that are in use here.
UNITS = {"celsius", "hertz", "watt", "short", "Bps", "s", "percentunit"}
_NAME = re.compile(r"[a-zA-Z_:][\w:]*(?=\s*(?:[{\[)+*/ -]|$))")
_WORDS = {"by", "without", "on", "ignoring", "max", "min", "sum", "avg", "rate", "increase", "instance"}


def faults(made: dict) -> list[str]:
    """What Grafana would refuse, or show nothing of."""
    told = [*_shape(made, DASHBOARD, "dashboard")]
    told += [f for v in made["templating"]["list"] for f in _shape(v, VARIABLE, "variable")]
    variables = {v["name"] for v in made["templating"]["list"]}
    if made["schemaVersion"] not in range(36, 42):
        told.append("schemaVersion: none of Grafana 10 and 11")
    told += [f"time.{key}: missing" for key in ("from", "to") if key not in made["time"]]
    panels = made["panels"]
    ids = [panel["id"] for panel in panels]
    told += [f"id {i}: twice" for i in set(ids) if ids.count(i) > 1]
    told += [
        f"{a['title']} and {b['title']}: overlap" for a, b in itertools.combinations(panels, 2) if _meet(a, b)
    ]
    exported = {m.exported for m in METRICS} | {name for name, _ in JOB_METRICS}
    for panel in panels:
        where = f"panel {panel['id']}"
        told += _shape(panel, ROW if panel["type"] == "row" else GRAPH, where)
        told += _shape(panel["gridPos"], dict.fromkeys("hwxy", int), f"{where}.gridPos")
        if panel["gridPos"]["x"] + panel["gridPos"]["w"] > 24:
            told.append(f"{where}: wider than the grid")
        if panel["type"] != "row":
            told += _graph(panel, where, variables, exported)
    return told


def _graph(panel: dict, where: str, variables: set[str], exported: set[str]) -> list[str]:
    told = _shape(panel["datasource"], SOURCE, f"{where}.datasource")
    if panel["fieldConfig"]["defaults"]["unit"] not in UNITS:
        told.append(f"{where}: no unit of Grafana")
    refs = [target["refId"] for target in panel["targets"]]
    told += [] if refs and len(set(refs)) == len(refs) else [f"{where}: refId"]
    for target in panel["targets"]:
        told += _shape(target, TARGET, f"{where}.target")
        told += _shape(target["datasource"], SOURCE, f"{where}.target.datasource")
        variable = re.fullmatch(r"\$\{(\w+)\}", target["datasource"]["uid"])
        if variable is None or variable[1] not in variables:
            told.append(f"{where}: a datasource that nobody chooses")
        names = set(_NAME.findall(target["expr"])) - _WORDS
        told += [f"{where}: {name} is not exported" for name in names - exported]
        told += [] if names else [f"{where}: asks for nothing"]
    return told


def _shape(value: dict, model: dict[str, type], where: str) -> list[str]:
    return [
        f"{where}.{key}: {'missing' if key not in value else 'no ' + kind.__name__}"
        for key, kind in model.items()
        if type(value.get(key)) is not kind
    ]


def _meet(a: dict, b: dict) -> bool:
    p, q = a["gridPos"], b["gridPos"]
    across = p["x"] < q["x"] + q["w"] and q["x"] < p["x"] + p["w"]
    return across and p["y"] < q["y"] + q["h"] and q["y"] < p["y"] + p["h"]


def test_it_fits_the_model_of_grafana():
    assert faults(json.loads(json.dumps(dashboard()))) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (["panels", 1, "targets", 0, "expr"], "max(assay_gpu_temperture_celsius)", "not exported"),
        (["panels", 1, "id"], 3, "id 3: twice"),
        (["panels", 2, "gridPos", "x"], 0, "overlap"),
        (["panels", 2, "gridPos", "x"], 13, "wider"),
        (["panels", 1, "targets", 0, "datasource", "uid"], "prom", "nobody chooses"),
        (["panels", 1, "fieldConfig", "defaults", "unit"], "degrees", "no unit"),
        (["schemaVersion"], "39", "schemaVersion: no int"),
        (["panels", 1, "targets"], [], "refId"),
    ],
)
def test_the_check_finds_what_is_wrong(path, value, fault):
    made = json.loads(json.dumps(dashboard()))
    *way, last = path
    inner = made
    for key in way:
        inner = inner[key]
    inner[last] = value
    assert any(fault in told for told in faults(made))


def test_prometheus_can_read_every_query(tmp_path):
    expressions = [t["expr"] for p in dashboard()["panels"] for t in p.get("targets", ())]
    rules = [{"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(expressions)]
    path = tmp_path / "queries.yml"
    path.write_text(write_yaml({"groups": [{"name": "panels", "rules": rules}]}))
    checked = subprocess.run(
        [program("promtool", "prometheus"), "check", "rules", path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert f"SUCCESS: {len(expressions)} rules found" in checked.stdout
