"""The report on a terminal: 80 columns, verdict first, golden text."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from report_examples import gloo_machine, gpu_node, many_cards
from rich.cells import cell_len
from rich.console import Console

from assay.report.data import ReportData
from assay.report.terminal import plain_text, print_report

GOLDEN = Path(__file__).parent / "golden"
MADE = {
    "gpu-node-en.txt": lambda: gpu_node("en"),
    "gpu-node-zh.txt": lambda: gpu_node("zh"),
    "gloo-en.txt": lambda: gloo_machine("en"),
}


@pytest.mark.parametrize("name", MADE)
def test_plain_text_is_the_golden_one(name: str) -> None:
    made = plain_text(MADE[name]())
    assert made == (GOLDEN / name).read_text(encoding="utf-8"), (
        f"if the change is meant: python {Path(__file__).name} rewrites the golden files"
    )


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_line_is_wider_than_80_columns(lang: str) -> None:
    for data in (gpu_node(lang), gloo_machine(lang)):
        too_wide = [line for line in plain_text(data).splitlines() if cell_len(line) > 80]
        assert too_wide == []


def test_the_verdict_comes_first() -> None:
    assert "FAIL" in plain_text(gpu_node()).splitlines()[0]
    assert "PASS" in plain_text(gloo_machine()).splitlines()[0]


def test_without_a_terminal_there_is_no_colour_and_with_one_there_is() -> None:
    plain, colour = io.StringIO(), io.StringIO()
    print_report(gpu_node(), Console(file=plain))
    print_report(gpu_node(), Console(file=colour, force_terminal=True, color_system="standard", width=80))
    assert "\x1b" not in plain.getvalue()
    assert "\x1b[" in colour.getvalue()


def test_many_subjects_are_folded_to_the_worst_and_a_count() -> None:
    text = plain_text(many_cards(gpus=64 * 8))
    assert "gpu:n009/5" in text
    assert "507 more: 507 pass" in text
    assert len(text.splitlines()) < 80


def test_the_commands_and_places_are_there() -> None:
    data: ReportData = gpu_node()
    text = " ".join(plain_text(data).split())
    for place in (data.repeat_command, data.run_hash, data.report_path, data.info.folder):
        assert place in text


if __name__ == "__main__":
    for name, make in MADE.items():
        (GOLDEN / name).write_text(plain_text(make()), encoding="utf-8")
