"""Runs that are whole and made as agreed, and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from annexes import PROFILE, terms

from assay.api.annexing import save, verify
from assay.catalog.messages import LANGUAGES, Texts
from assay.domain.verdict import Verdict
from assay.errors import InputError, RunError
from assay.qualify.annex import Terms, document, to_markdown
from assay.qualify.verify import Followed
from assay.report.annex_page import annex_html
from assay.report.verification import answer, plain_text
from assay.store.generate import main


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    assert main([str(folder), "--nodes", "1", "--gpus", "2", "--restarts", "5"]) == 0
    return folder


def signed(tmp_path: Path, agreed: Terms, lang: str = "en") -> Path:
    file = tmp_path / "annex.md"
    save(file, to_markdown(document(agreed, Texts(lang))))
    return file


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_run_made_as_agreed_is_accepted(run: Path, tmp_path: Path, lang: str) -> None:
    found = verify(run, annex_file=signed(tmp_path, terms(), lang))
    assert found.verdict is Verdict.PASS
    assert found.annex is not None
    assert {c.followed for c in found.annex.clauses} == {Followed.YES}
    assert [str(i.subject) for i in found.identities] == ["gpu:node00/0", "gpu:node00/1"]


def test_a_page_is_as_good_as_the_text(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "annex.html"
    save(page, annex_html(document(terms(), Texts("zh"))))
    assert verify(run, annex_file=page).verdict is Verdict.PASS


def test_a_changed_file_is_named(run: Path) -> None:
    lines = run / "rank-0001.jsonl"
    lines.write_text(lines.read_text().replace('"n": 25', '"n": 26', 1))
    found = verify(run)
    assert found.verdict is Verdict.FAIL
    assert found.fault == "the run is not as it was sealed: rank-0001.jsonl was changed"


def test_a_missing_file_and_one_too_many_are_named(run: Path) -> None:
    (run / "samples" / "rank-0000.f64").unlink()
    (run / "samples" / "rank-0007.f64").write_bytes(b"")
    fault = verify(run).fault or ""
    assert "rank-0000.f64 is gone" in fault
    assert "rank-0007.f64 was added" in fault


def test_a_run_that_did_not_end_is_undecided(run: Path) -> None:
    (run / "hashes.json").unlink()
    found = verify(run)
    assert found.verdict is Verdict.UNDECIDED
    assert found.verdict.exit_code == 3


@pytest.mark.parametrize(
    ("agreed", "followed", "verdict"),
    [
        (terms(restarts=7), Followed.TOO_FEW_RESTARTS, Verdict.FAIL),
        (terms(PROFILE.replace("8192x8192x8192", "4096x4096x4096")), Followed.OTHER_RECIPE, Verdict.FAIL),
        (terms(PROFILE.replace("gemm.bf16", "gemm.fp8")), Followed.NOT_MEASURED, Verdict.NOT_MEASURED),
    ],
)
def test_what_was_done_otherwise_is_named(
    run: Path, tmp_path: Path, agreed: Terms, followed: Followed, verdict: Verdict
) -> None:
    found = verify(run, annex_file=signed(tmp_path, agreed))
    assert found.annex is not None
    assert {c.criterion.id: c.followed for c in found.annex.clauses}["gemm"] is followed
    assert found.verdict is verdict


def test_an_annex_whose_words_were_changed_is_not_the_one_that_was_signed(run: Path, tmp_path: Path) -> None:
    file = signed(tmp_path, terms())
    file.write_text(file.read_text().replace("at least 600 TFLOP/s", "at least 300 TFLOP/s"))
    found = verify(run, annex_file=file)
    assert found.verdict is Verdict.FAIL
    assert found.annex is not None
    assert "600 TFLOP/s" in found.annex.changed[0]


def test_the_answer_is_told_to_people_and_to_programs(run: Path, tmp_path: Path) -> None:
    found = verify(run, annex_file=signed(tmp_path, terms(restarts=7)))
    told = answer(found, assay_version="1")
    assert told["verdict"] == "fail"
    assert told["whole"] is True
    for lang in LANGUAGES:
        text = plain_text(found, Texts(lang))
        assert "GPU-" in text
        assert "verify." not in text
        assert "{" not in text


def test_an_annex_is_never_replaced_and_no_run_is_no_run(tmp_path: Path) -> None:
    file = signed(tmp_path, terms())
    with pytest.raises(InputError, match="is there already"):
        save(file, "")
    with pytest.raises(RunError, match="not a run folder"):
        verify(tmp_path)
