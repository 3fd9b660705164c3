"""Every answer of the predictor is a page too, in both languages, and the JSON answer stands in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from assay.api.clusters import read_cluster
from assay.api.tracing import FromTrace
from assay.app.calibrate import calibrate
from assay.app.predict import predict
from assay.app.predict_trace import answer, page
from assay.app.validate_fabric import choices
from assay.catalog.messages import Texts
from assay.formats.kineto_steps import Call, TracedSteps
from assay.predict.calibration import network_of
from assay.predict.from_trace import predict_from_trace
from assay.report.answer_page import plain_text, render_html

ROOT = Path(__file__).parents[2]
CHOICES = ROOT / "validation" / "nccl_choices"
COMMANDS = {
    "job": (predict, ["--cluster", "dgx-h100", "--nodes", "4", "--workload", "halo3d", "--fail", "rail:1"]),
    "pool": (predict, ["memory-pool", "--cluster", "gb200-nvl72", "--workload", "deepseek-v3"]),
    "calibrate": (calibrate, [str(ROOT / "examples" / "runs" / "two-cores")]),
    "choices": (choices, [str(CHOICES / "nccl2.27.7_dgx2_n1_c0.json"), str(CHOICES / "dgx2.xml")]),
}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_says_what_the_terminal_says(name: str, lang: str, tmp_path: Path) -> None:
    command, words = COMMANDS[name]
    file = tmp_path / "page.html"
    done = CliRunner().invoke(command, [*words, "--html", str(file), "--lang", lang])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    text = file.read_text(encoding="utf-8")
    assert f'<html lang="{"zh-Hans" if lang == "zh" else "en"}">' in text
    embedded = text.partition('id="answer">')[2].partition("</script>")[0]
    assert json.loads(embedded)["schema_version"] == 1
    assert "http://" not in text.partition('id="answer">')[0].replace("http://www.w3.org/", "")
    # A text that a catalogue lacks would show as its code.
    for code in ("trace.", "job.", "pool.", "calibrate.", "choices.", "prediction.", "validation."):
        assert f">{code}" not in text
        assert f"\n{code}" not in done.output
    assert max(map(cell_len, done.stdout.splitlines())) <= 80


def test_a_page_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    words = [*COMMANDS["pool"][1], "--html", str(tmp_path / "none" / "page.html")]
    done = CliRunner().invoke(predict, words)
    assert "cannot write" in str(done.exception)
    assert "give another file" in str(done.exception)


def traced_job() -> FromTrace:
    """Eight ranks, one all-reduce behind compute, on four nodes."""
    call = Call(
        op="all_reduce", stream="a", start_s=1.0, end_s=1.2, bytes=2.0**30, ranks=8, members=tuple(range(8))
    )
    traced = TracedSteps(
        file="one_node.json",
        rank=0,
        world=8,
        steps=1,
        start_s=0.0,
        end_s=2.0,
        busy=((0.0, 1.0), (1.2, 2.0)),
        calls=(call,),
        optimizer_s=(1.9,),
        launch_s=None,
    )
    cluster = read_cluster("dgx-h100").of(4)
    prediction = predict_from_trace(traced, network_of(cluster), node_ranks=8, nodes=4)
    return FromTrace(cluster=cluster, traced=traced, prediction=prediction, tokens=1024, assumed=())


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_traced_job_is_a_page_too(lang: str) -> None:
    done, texts = traced_job(), Texts(lang)
    shown = page(done, texts)
    text = plain_text(shown)
    assert max(map(cell_len, text.splitlines())) <= 80
    assert "one_node.json" in text
    assert "trace." not in text
    html = render_html(shown, texts, answer_json=json.dumps(answer(done)))
    assert "<svg" in html
