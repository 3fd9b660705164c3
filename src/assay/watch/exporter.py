"""What a node tells Prometheus: base units in names, bounded series, on localhost unless told otherwise."""

from __future__ import annotations

import hmac
import importlib
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from assay.domain.subject import Subject
from assay.errors import EnvironmentLackError
from assay.watch.metrics import BY_NAME, labels_of

Read = Callable[[], Iterable[tuple[str, Subject, float]]]
#: No node has more; further ones are left out and counted, so that nothing floods Prometheus.
MOST_SERIES = 2000


class Collector:
    """Turns readings into metric families of prometheus-client at each scrape."""

    def __init__(self, read: Read) -> None:
        core = _library("prometheus_client.core")
        self._gauge, self._counter = core.GaugeMetricFamily, core.CounterMetricFamily
        self._read = read
        self._labels: dict[tuple[str, Subject], list[str]] = {}

    def collect(self) -> Iterator[Any]:
        """One family per metric that has a value."""
        families: dict[str, Any] = {}
        count = left_out = 0
        for name, subject, value in self._read():
            metric = BY_NAME[name]
            count += 1
            if count > MOST_SERIES:
                left_out += 1
                continue
            family = families.get(name)
            if family is None:
                make = self._counter if metric.is_counter else self._gauge
                family = families[name] = make(metric.exported, metric.help, labels=metric.labels)
            labels = self._labels.get((name, subject))
            if labels is None:
                labels = self._labels[name, subject] = list(labels_of(subject, metric))
            family.add_metric(labels, value)
        yield from families.values()
        dropped = self._gauge("assay_exporter_series_left_out", "Series beyond the bound of this exporter.")
        dropped.add_metric([], left_out)
        yield dropped


class Exporter:
    """An HTTP server with /metrics; with a token, only for who sends it as a bearer token."""

    def __init__(
        self, read: Read, *, bind: str = "127.0.0.1", port: int = 9466, token: str | None = None
    ) -> None:
        client = _library("prometheus_client")
        registry = client.CollectorRegistry()
        registry.register(Collector(read))
        self._server = ThreadingHTTPServer((bind, port), _handler(client, registry, token))
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    def serve(self) -> None:
        """Answer until `close`."""
        self._server.serve_forever(poll_interval=0.5)

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def _handler(client: Any, registry: Any, token: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """/metrics, or what is wrong with the request."""
            if token is not None and not self._is_known(token):
                self._say(401, b"a bearer token is wanted\n", "text/plain")
            elif self.path.partition("?")[0] != "/metrics":
                self._say(404, b"see /metrics\n", "text/plain")
            else:
                self._say(200, client.generate_latest(registry), client.CONTENT_TYPE_LATEST)

        def _is_known(self, token: str) -> bool:
            given = self.headers.get("Authorization", "")
            return hmac.compare_digest(given.encode(), f"Bearer {token}".encode())

        def _say(self, code: int, body: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a scrape a second is no news."""

    return Handler


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as fault:
        raise EnvironmentLackError(
            f"the exporter needs prometheus-client, which cannot be imported: {fault}",
            fix="pip install 'assay[watch]'",
        ) from fault
