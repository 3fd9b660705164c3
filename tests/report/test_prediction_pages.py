"""Pages of predictions, collectives and validations: offline, in both languages and both themes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.app.predict import predict
from assay.app.validate import validate
from assay.catalog.messages import Texts
from assay.domain.goal import goal_of
from assay.domain.score import GroupScore
from assay.predict.explain import MEMORY, STEP
from assay.report.page import SIZE_LIMIT_BYTES

pytest.importorskip("altair", reason="optional: the report extra is not installed")
VALIDATION = Path(__file__).parents[2] / "validation"
CALL = "--cluster dgx-h100 --nodes 16 --workload llama-3.1-70b --layout tp=8,pp=4,vpp=2 --global-batch 32"


def page(command, words: list[str], file: Path) -> str:
    result = CliRunner().invoke(command, [*words, "--html", str(file)])
    assert result.exit_code == 0, result.output
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) < SIZE_LIMIT_BYTES
    assert not re.search(r'(?:src|href)="(?!#)|url\((?!#)|@import', text), "the page asks for something"
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"#0101[0-9a-f]{2}|#01020[1-6]", text), "a sentinel colour is left"
    return text


def embedded(text: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="answer">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_prediction_shows_terms_memory_scaling_pipeline_and_inputs(lang, tmp_path):
    text = page(predict, [*CALL.split(), "--lang", lang, "--tokens", "1e12"], tmp_path / "p.html")
    texts = Texts(lang)
    for code in ("breakdown", "memory", "scaling", "pipeline", "sensitivity", "inputs", "assumed"):
        assert f">{texts.label(f'prediction.{code}')}</h2>" in text
    assert text.count("<svg") == 4
    assert texts.label("step.gemm") in text
    assert texts.label(STEP["tp"].formula).replace("<", "&lt;") in text
    assert "prediction." not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    answer = embedded(text)
    assert sum(answer["breakdown"].values()) == pytest.approx(answer["step_time_s"]["value"])


def test_a_layout_without_a_pipeline_has_no_picture_of_one(tmp_path):
    words = [
        "--cluster",
        "dgx-h100",
        "--nodes",
        "2",
        "--workload",
        "llama-3.1-8b",
        "--layout",
        "tp=2",
        "--global-batch",
        "64",
    ]
    assert 'id="pipeline"' not in page(predict, words, tmp_path / "p.html")


def test_a_collective_shows_its_curve_and_every_size(tmp_path):
    words = ["collective", "--cluster", "dgx-h100", "--nodes", "2", "--bytes", "1Mi:64Mi", "--lang", "zh"]
    text = page(predict, words, tmp_path / "c.html")
    assert text.count("<svg") == 1
    assert text.count("<tr>") == 1 + 7


def test_a_validation_shows_goals_misses_and_the_scatter(tmp_path):
    file = VALIDATION / "training" / "a100_multi_node.csv.gz"
    text = page(validate, ["training", str(file)], tmp_path / "v.html")
    assert "Predicted against measured" in text
    assert "8/15 %" in text
    assert embedded(text)["groups"]["A100 multi-node table"]["goal"]["p90_abs_error_frac"] == 0.15


def test_a_miss_is_named_in_the_terminal_and_only_then():
    good, bad = (
        GroupScore(
            n=9, skipped=0, median_abs_error_frac=m, p90_abs_error_frac=0.1, bias_frac=0.0, coverage_frac=0.8
        )
        for m in (0.05, 0.0516)
    )
    assert goal_of("dense").misses(good) == ()
    assert goal_of("dense").misses(bad) == ("median",)
    assert goal_of("fine-tuning") is None


def test_every_term_has_a_name_and_a_formula_in_chinese():
    texts = Texts("zh")
    for kind, terms in (("step", STEP), ("memory", MEMORY)):
        for name, reason in terms.items():
            assert texts.has(f"{kind}.{name}")
            assert re.search(r"[\u4e00-\u9fff]", texts.label(reason.formula)), reason.formula
