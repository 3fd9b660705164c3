"""Bad input: a clear message with file, line and fix, exit code 2, no traceback, nothing overwritten."""

from __future__ import annotations

import shutil

import pytest

from commands import SAMPLES, assay

PROFILE = """schema: 1
name: mine
title: Mine
criteria:
  - id: bf16
    quantity: gemm.bf16.rate
    op: at_least
    bound: 700 TFLOP/s
"""


def refused(ended, *words):
    assert ended.code == 2, (ended.out, ended.err)
    assert "Traceback" not in ended.err
    assert ended.out == ""
    for word in words:
        assert word in ended.told, ended.err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    op: at_least", "    opp: at_least", ["mine.yaml:7", "unknown key 'opp'", "did you mean 'op'"]),
        ("700 TFLOP/s", "700 GB/s", ["mine.yaml:8", "bandwidth", "floating-point rate"]),
        ("700 TFLOP/s", "700", ["mine.yaml:8", "has no unit"]),
        ("700 TFLOP/s", "700 tflopz", ["mine.yaml:8", "unknown unit"]),
        ("700 TFLOP/s", "-5 TFLOP/s", ["mine.yaml:8"]),
        ("gemm.bf16.rate", "gem.bf16.rate", ["mine.yaml:6", "unknown quantity", "gemm.bf16.rate"]),
        ("at_least", "atleast", ["mine.yaml:7", "at_least"]),
        ("schema: 1", "schema: 9", ["mine.yaml:1", "schema"]),
        ("title: Mine", "title: Mine\ntitle: Again", ["mine.yaml:4", "title"]),
        ("criteria:", "criteria: [", ["mine.yaml"]),
    ],
)
def test_a_profile_with_a_fault(tmp_path, measured, old, new, words):
    (tmp_path / "mine.yaml").write_text(PROFILE.replace(old, new))
    refused(assay("judge", measured, "--profile", tmp_path / "mine.yaml"), *words)


def test_two_criteria_of_one_id(tmp_path, measured):
    twice = PROFILE + PROFILE.partition("criteria:\n")[2]
    (tmp_path / "mine.yaml").write_text(twice)
    refused(assay("judge", measured, "--profile", tmp_path / "mine.yaml"), "stands twice", "mine.yaml:")


def test_a_floor_above_physics_is_refused_with_the_arithmetic(tmp_path, measured):
    profile = PROFILE.replace("700 TFLOP/s", "1979 TFLOP/s").replace(
        "criteria:", "applies_to: [h100-sxm]\ncriteria:"
    )
    (tmp_path / "mine.yaml").write_text(profile)
    refused(assay("judge", measured, "--profile", tmp_path / "mine.yaml"), "1.98 PFLOP/s", "989 TFLOP/s")


def test_a_profile_that_there_is_not(measured):
    refused(
        assay("judge", measured, "--profile", "rental-gide"), "unknown profile", "did you mean 'rental-guide'"
    )
    refused(assay("judge", measured, "--profile", "no/such.yaml"), "no/such.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema: 1\nprovider: X\npromises: []\n", ["promises"]),
        (
            "schema: 1\nprovider: X\npromises:\n  - {quantity: gemm.bf16.rate, value: fast}\n",
            ["claims.yaml:4"],
        ),
        (
            "schema: 1\nprovider: X\npromises:\n  - {quantity: gemm.bf16.rate, vale: 1 TFLOP/s}\n",
            ["claims.yaml:4", "did you mean 'value'"],
        ),
        (
            "schema: 1\nprovider: X\npromises:\n  - {quantity: training.scaling_efficiency, value: fast}\n",
            ["claims.yaml:4"],
        ),
    ],
)
def test_claims_with_a_fault(tmp_path, measured, text, words):
    (tmp_path / "claims.yaml").write_text(text)
    refused(assay("judge", measured, "--claims", tmp_path / "claims.yaml"), *words)


def test_a_run_cut_off_in_the_middle_of_a_line(measured, tmp_path):
    run = shutil.copytree(measured, tmp_path / "run")
    (run / "hashes.json").unlink()
    file = run / "rank-0001.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    refused(assay("judge", run), "rank-0001.jsonl:", "cut off", "--resume", "--partial")
    assert file.read_bytes() == whole[:-20]
    ended = assay("judge", run, "--partial")
    assert ended.code in (0, 1, 3)
    assert "rank-0001.jsonl" in "".join(ended.out.split())


def test_a_line_changed_in_the_middle(measured, tmp_path):
    run = shutil.copytree(measured, tmp_path / "run")
    (run / "hashes.json").unlink()
    file = run / "rank-0000.jsonl"
    lines = file.read_text().splitlines()
    lines[3] = lines[3].replace('"type"', '"typ"')
    file.write_text("\n".join(lines) + "\n")
    refused(assay("judge", run), "rank-0000.jsonl:4")


def test_a_sealed_run_that_was_changed(measured, tmp_path):
    run = shutil.copytree(measured, tmp_path / "run")
    with (run / "rank-0000.jsonl").open("a") as file:
        file.write('{"type": "event", "kind": "x", "time_s": 1, "subject": "cluster"}\n')
    refused(assay("judge", run), "rank-0000.jsonl", "changed")


def test_a_folder_that_is_no_run(tmp_path):
    refused(assay("judge", tmp_path), "not a run folder")


def test_out_into_another_run_or_a_full_folder_is_refused(measured, tmp_path):
    before = sorted(p.name for p in measured.iterdir())
    refused(
        assay("measure", "--only", "clock", "--suite", "quick", "--out", measured), "another run", "--resume"
    )
    assert sorted(p.name for p in measured.iterdir()) == before
    (tmp_path / "thesis.tex").write_text("precious")
    refused(assay("measure", "--only", "clock", "--out", tmp_path), "not empty")
    assert (tmp_path / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize(
    "name", ["nccl_allreduce.log", "nccl_2.19.json", "fio_randread.json", "nvbandwidth_noise.json"]
)
def test_a_truncated_result_of_another_tool(tmp_path, name):
    text = (SAMPLES / name).read_text()
    (tmp_path / name).write_text(text[: len(text) * 2 // 3])
    refused(assay("judge", tmp_path / name, "--collective", "all_reduce"), name)


def test_a_result_of_an_unknown_version(tmp_path):
    text = (SAMPLES / "nccl_2.19.json").read_text().replace('"version":3,', '"version":12,')
    (tmp_path / "new.json").write_text(text)
    refused(assay("judge", tmp_path / "new.json"), "new.json", "12")


def test_a_file_of_no_known_tool(tmp_path):
    (tmp_path / "poem.txt").write_text("Shall I compare thee\n")
    refused(assay("judge", tmp_path / "poem.txt"), "poem.txt:1", "no known tool")


def test_a_collective_that_the_file_does_not_name():
    refused(assay("judge", SAMPLES / "nccl_allreduce.log"), "--collective")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["measure", "--only", "gem"], ["unknown benchmark 'gem'", "did you mean 'gemm'"]),
        (["measure", "--ranks", "0"], ["0 ranks"]),
        (["measure", "--suite", "huge"], ["huge"]),
        (["qualify", "--profile", "slef", "--only", "clock"], ["unknown profile", "did you mean 'self'"]),
        (["qualify", "--lang", "fr"], ["fr"]),
        (["qualfy"], ["did you mean 'qualify'"]),
        (["catalog", "devices", "h10"], ["did you mean"]),
        (["catalog", "findings", "CLOCK_OFSET"], ["did you mean 'CLOCK_OFFSET'"]),
        (["judge"], ["FILE…"]),
    ],
)
def test_words_that_mean_nothing(tmp_path, words, told):
    refused(assay(*words, cwd=tmp_path), *told)
    assert list(tmp_path.iterdir()) == []
