"""Prometheus through its HTTP API: every metric of the watch for all nodes, and which targets are up."""

from __future__ import annotations

import json
import math
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from assay.domain.event import Event
from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.errors import InputError
from assay.watch.metrics import METRICS, Metric, subject_of
from assay.watch.signal import Item
from assay.watch.sources.asking import Asking

#: dcgm-exporter's word for "no value".
_BLANK = 9.2e18
#: How often it is asked again for what other exporters may have begun to tell.
LOOK_AGAIN_S = 60.0
_OWN = {metric.exported: metric for metric in METRICS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One series of an instant vector."""

    name: str
    labels: Mapping[str, str]
    value: float


class Prometheus:
    """One server. Raises `OSError` or `InputError` when a query fails."""

    def __init__(self, url: str, *, timeout_s: float = 10.0, token: str | None = None) -> None:
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise InputError(
                f"{url!r} is no address of a Prometheus", fix="for example http://localhost:9090"
            )
        self.url, self._timeout_s = url, timeout_s
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def query(self, expression: str) -> list[Series]:
        """The instant vector of an expression."""
        address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
        request = urllib.request.Request(address, headers=self._headers)
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
                body = json.load(answer)
        except urllib.error.HTTPError as fault:
            raise InputError(f"Prometheus refuses {expression!r}: {fault.code} {fault.reason}") from None
        except json.JSONDecodeError:
            raise InputError("the answer is not that of a Prometheus", where=self.url) from None
        return list(_vector(body, self.url))


def _vector(body: object, url: str) -> Iterator[Series]:
    data = body.get("data") if isinstance(body, dict) else None
    rows = data.get("result") if isinstance(data, dict) else None
    if not isinstance(rows, list):
        raise InputError("the answer is not that of a Prometheus", where=url)
    for row in rows:
        labels = dict(row["metric"])
        value = float(row["value"][1])
        yield Series(
            name=labels.pop("__name__", ""), labels=labels, value=math.nan if value >= _BLANK else value
        )


class PrometheusSource(Asking):
    """All metrics of all nodes, every `every_s`."""

    def __init__(
        self,
        server: Prometheus,
        *,
        every_s: float = 15.0,
        host_label: str = "instance",
        look_again_s: float = LOOK_AGAIN_S,
    ) -> None:
        self._server, self._host_label = server, host_label
        self._subjects: dict[tuple[Subject, ...], tuple[Subject, ...]] = {}
        self._placed: dict[Subject, str] = {}
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], Subject] = {}
        self._other: dict[str, str | None] = {}
        self._look_s, self._look_again_s = -math.inf, look_again_s
        super().__init__(server.url, self._ask, every_s=every_s)

    def _ask(self) -> Iterator[Item]:
        rows: dict[str, dict[Subject, float]] = defaultdict(dict)
        for series in self._server.query("up"):
            node = Subject("node", self._host(series.labels))
            # A node has several exporters; it answers when one of them does.
            rows["node_up"][node] = max(series.value, rows["node_up"].get(node, 0.0))
        for series in self._server.query('{__name__=~"assay_.*"}'):
            metric = _OWN.get(series.name)
            if metric is not None:
                yield from self._take(rows, metric, series)
        for metric in METRICS:
            if metric.name not in rows:
                for series in self._others(metric):
                    yield from self._take(rows, metric, series)
        now_s = time.time()
        for name, values in rows.items():
            subjects = tuple(values)
            subjects = self._subjects.setdefault(subjects, subjects)
            yield Samples(
                metric=name, time_s=now_s, subjects=subjects, values=np.array(list(values.values()))
            )

    def _take(self, rows: dict[str, dict[Subject, float]], metric: Metric, series: Series) -> Iterator[Item]:
        key = metric.name, frozenset(series.labels.items())
        host = self._host(series.labels)
        subject = self._known.get(key)
        if subject is None:
            subject = self._known[key] = subject_of(host, dict(series.labels))
        rows[metric.name][subject] = series.value
        if subject.kind == "rank" and self._placed.get(subject) != host:
            self._placed[subject] = host
            details: dict[str, str | int | float | None] = {"node": host}
            yield Event(kind="rank_placed", time_s=time.time(), subject=subject, details=details)

    def _others(self, metric: Metric) -> list[Series]:
        """The same from the exporters that users already run; which one tells it is remembered."""
        if time.monotonic() - self._look_s > self._look_again_s:
            self._look_s = time.monotonic()
            self._other.clear()
        if metric.name in self._other:
            expression = self._other[metric.name]
            return self._server.query(expression) if expression else []
        for expression in metric.others:
            found = self._server.query(expression)
            if found:
                self._other[metric.name] = expression
                return found
        self._other[metric.name] = None
        return []

    def _host(self, labels: Mapping[str, str]) -> str:
        host = labels.get(self._host_label) or labels.get("instance", "unknown")
        name, _, port = host.rpartition(":")
        return name if name and port.isdigit() else host
