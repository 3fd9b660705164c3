"""`assay judge` and `assay catalog` on real runs and on other tools' results."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from commands import SAMPLES, assay

VERDICTS = {"pass", "fail", "undecided", "not_measured"}


def test_every_criterion_has_a_verdict_an_interval_and_a_recipe(measured):
    answer = assay("judge", measured, "--json").json
    assert answer["schema_version"] == 1
    assert answer["command"] == "judge"
    assert answer["verdict"] in VERDICTS
    assert {c["verdict"] for c in answer["criteria"]} <= VERDICTS
    uniform = [c for c in answer["criteria"] if c["id"] == "compute-uniform"]
    assert uniform
    for criterion in uniform:
        assert criterion["recipe"]["load"] == "all"
        assert criterion["measured"]["n"] == 3
        assert criterion["measured"]["low"] <= criterion["measured"]["value"] <= criterion["measured"]["high"]
        assert criterion["measured"]["source"].startswith(str(measured))


def test_the_exit_code_is_the_verdict(measured):
    ended = assay("judge", measured, "--json")
    assert ended.code == {"pass": 0, "fail": 1}.get(ended.json["verdict"], 3)


def test_the_rental_guide_fails_what_is_absent_and_admits_what_was_not_measured(measured):
    ended = assay("judge", measured, "--profile", "rental-guide", "--json")
    assert ended.code == 1
    verdicts = {c["id"]: c["verdict"] for c in ended.json["criteria"]}
    assert verdicts["ready-tensorflow"] == "fail"
    assert verdicts["ready-pytorch"] == "pass"
    assert verdicts["card-fp16"] == "not_measured"
    assert verdicts["storage-iops"] == "not_measured"
    assert verdicts["service-availability"] == "not_measured"


def test_missing_measurements_never_read_as_a_pass(measured):
    answer = assay("judge", measured, "--profile", "h100-sxm", "--json").json
    assert answer["verdict"] != "pass"
    assert all(c["reason"] for c in answer["criteria"])


def test_the_page_is_written_in_both_languages(measured, tmp_path):
    for lang, word in (("en", "Undecided"), ("zh", "未定")):
        page = tmp_path / f"{lang}.html"
        assay("judge", measured, "--html", page, "--lang", lang)
        text = page.read_text(encoding="utf-8")
        assert len(text.encode()) < 1_000_000
        assert word in text or lang == "zh"
        assert 'http-equiv="refresh"' not in text


def test_the_terminal_fits_eighty_columns(measured):
    out = assay("judge", measured).out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\x1b[" not in out


def test_claims_stand_beside_measurements(measured, tmp_path):
    claims = tmp_path / "promises.yaml"
    claims.write_text(
        "schema: 1\nprovider: Example\npromises:\n"
        "  - quantity: gemm.fp32.rate\n    value: 900 TFLOP/s\n    recipe: {load: all}\n"
    )
    answer = assay("judge", measured, "--claims", claims, "--json").json
    codes = {f["code"] for f in answer["findings"]}
    assert "CLAIM_OVERSTATED" in codes


@pytest.mark.parametrize(
    ("files", "more", "profile", "expected"),
    [
        (["nccl_2.19.json"], [], "h100-sxm", "collective.all_reduce.busbw"),
        (["nccl_allreduce.log"], ["--collective", "all_reduce"], "a100-sxm", "collective.all_reduce.busbw"),
        (["fio_randread.json"], [], "rental-guide", "storage.random_read_4k.iops"),
        (["nvbandwidth_noise.json"], [], "h100-sxm", "host_device.h2d.bandwidth"),
        (["gemm_mamf.csv"], [], "h100-sxm", "gemm.bf16.rate"),
    ],
)
def test_other_tools_results_are_judged(files, more, profile, expected):
    ended = assay("judge", *(SAMPLES / f for f in files), "--profile", profile, "--json", *more)
    assert ended.code in (1, 3), ended.err
    about = [c for c in ended.json["criteria"] if c["quantity"] == expected]
    assert about
    assert all(c["verdict"] in VERDICTS for c in about)


def test_perftest_text_is_judged_by_a_profile_of_the_user(tmp_path):
    profile = tmp_path / "ib.yaml"
    profile.write_text(
        "schema: 1\nname: ib\ntitle: InfiniBand\ncriteria:\n"
        "  - {id: bw, quantity: rdma.write.bandwidth, op: at_least, bound: 190 Gbit/s,\n"
        "     recipe: {bytes: 8 MiB}, repeatability: 1 %}\n"
    )
    ended = assay("judge", SAMPLES / "ib_loopback_8M_size.log", "--profile", profile, "--json")
    (criterion,) = ended.json["criteria"]
    assert criterion["verdict"] in ("pass", "fail"), ended.out
    assert criterion["measured"]["value"] > 1e9


def test_files_of_one_benchmark_are_its_restarts(tmp_path):
    copies = [shutil.copy(SAMPLES / "nccl_2.19.json", tmp_path / f"run{i}.json") for i in range(3)]
    answer = assay("judge", *copies, "--profile", "h100-sxm", "--json").json
    (judged,) = [c for c in answer["criteria"] if c["id"] == "allreduce-node"]
    assert judged["measured"] is None or judged["measured"]["n"] == 3


@pytest.mark.parametrize(
    "words",
    [
        ["devices"],
        ["devices", "h100"],
        ["profiles"],
        ["profiles", "rental-guide"],
        ["quantities"],
        ["findings"],
        ["findings", "CLOCK_OFFSET"],
        ["benchmarks"],
    ],
)
def test_the_catalogue_is_shown_as_text_and_as_json(words):
    text = assay("catalog", *words)
    assert text.code == 0
    assert text.out.strip()
    answer = assay("catalog", *words, "--json").json
    assert answer["rows"]
    assert answer["command"].startswith("catalog")


def test_every_number_of_a_device_has_a_source_and_a_date():
    rows = assay("catalog", "devices", "a100-sxm-80gb", "--json").json["rows"]
    assert all(row["source"] and row["date"] for row in rows if row["value"] != "–")


def test_the_shipped_run_is_no_a100_cluster():
    shipped = Path(__file__).resolve().parents[2] / "examples" / "runs" / "two-cores"
    ended = assay("judge", shipped, "--profile", "rental-guide", "--json")
    assert ended.code == 1
    verdicts = {c["id"]: c["verdict"] for c in ended.json["criteria"]}
    assert verdicts["link-latency"] == "fail"
    assert verdicts["card-fp16"] == "not_measured"
    assert ended.json["run_hash"]
