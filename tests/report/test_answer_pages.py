"""Every answer of the predictor is a page too, in both languages, and the JSON answer stands in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.app.calibrate import calibrate
from assay.app.predict import predict
from assay.app.validate_fabric import choices

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
    page = file.read_text(encoding="utf-8")
    assert f'<html lang="{"zh-Hans" if lang == "zh" else "en"}">' in page
    answer = page.partition('id="answer">')[2].partition("</script>")[0]
    assert json.loads(answer)["schema_version"] == 1
    assert "http://" not in page.partition('id="answer">')[0].replace("http://www.w3.org/", "")
    # A text that a catalogue lacks would show as its code.
    for code in ("trace.", "job.", "pool.", "calibrate.", "choices.", "prediction.", "validation."):
        assert f">{code}" not in page
        assert f"\n{code}" not in done.output
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_a_page_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    words = [*COMMANDS["pool"][1], "--html", str(tmp_path / "none" / "page.html")]
    done = CliRunner().invoke(predict, words)
    assert "cannot write" in str(done.exception)
    assert "give another file" in str(done.exception)
