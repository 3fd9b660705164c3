"""The webhook against a real HTTP server: once for each change, never too often, dry, and refused."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from items import T0, changes, event
from servers import free_port

from assay.api.acting import actor
from assay.catalog.messages import Texts
from assay.codec.watching import ActionPlan, WatchPlan
from assay.domain.incident import Change, Step


class Receiver(ThreadingHTTPServer):
    """Keeps what is posted to it, and answers with `status`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.got = 204, list[tuple[str, dict]]()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/json"
        self.server.got.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def receiver():
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def act(url: str, **action: object):
    return actor(
        WatchPlan(prometheus="", actions=(ActionPlan(kind="webhook", target=url, **action),)), Texts("en")
    )


def a_story() -> list[Change]:
    """A node goes down and comes back: opened, recovered."""
    items = [event("node_down", 0, "node:n3", "Not responding"), event("node_back", 60, "node:n3")]
    return changes(items, until_s=300)


def test_it_is_told_once_what_happened_and_to_whom(receiver):
    tell = act(receiver.url, live=True)
    story = a_story()
    assert [c.step for c in story] == [Step.OPENED, Step.RECOVERED]
    records = [record for change in [*story, story[0]] for record in tell(change)]
    (path, body) = receiver.got.pop()
    assert receiver.got == []
    assert path == "/hook"
    assert (body["code"], body["subject"], body["nodes"]) == ("NODE_DOWN", "node:n3", ["n3"])
    assert body["text"] == "The scheduler has set it down: Not responding."
    assert (body["step"], body["time_s"], body["severity"]) == ("opened", T0, "critical")
    (record,) = records
    assert (record.done, record.dry_run, record.target) == (True, False, receiver.url)


def test_without_live_nothing_is_sent_and_that_is_recorded(receiver):
    (record,) = act(receiver.url)(a_story()[0])
    assert (record.done, record.dry_run, receiver.got) == (False, True, [])
    assert record.text == f"POST {receiver.url}"


def test_a_flood_of_incidents_is_cut_and_what_was_left_out_is_recorded(receiver):
    tell = act(receiver.url, live=True, calls=3, per_s=3600.0)
    opened = a_story()[0]
    others = [
        replace(opened, time_s=T0 + at, incident=replace(opened.incident, id=f"{at:032x}")) for at in range(5)
    ]
    records = [record for change in others for record in tell(change)]
    assert [record.done for record in records] == [True, True, True, False, False]
    assert len(receiver.got) == 3
    assert "3 were sent within 60 min" in records[3].text
    (later,) = tell(replace(others[4], time_s=T0 + 3700))
    assert later.done


def test_a_server_that_refuses_and_one_that_is_not_there_are_recorded(receiver):
    receiver.status = 503
    (refused,) = act(receiver.url, live=True)(a_story()[0])
    assert (refused.done, "503" in refused.text) == (False, True)
    nowhere = f"http://127.0.0.1:{free_port()}/"
    (lost,) = act(nowhere, live=True)(a_story()[0])
    assert (lost.done, "refused" in lost.text) == (False, True)
