"""`assay annex` and `assay verify` as commands."""

from __future__ import annotations

from pathlib import Path

from commands import assay, assay_process

PROMISES = Path(__file__).parents[2] / "examples" / "promises.yaml"


def test_an_annex_is_written_and_a_real_run_is_held_against_it(measured, tmp_path):
    file = tmp_path / "annex.md"
    wrote = assay(
        "annex", "--profile", "self", "--claims", PROMISES, "--restarts", 3, "--out", file, "--json"
    )
    assert wrote.code == 0, wrote.err
    assert wrote.json["digest"] in file.read_text()
    found = assay("verify", measured, "--annex", file, "--json")
    assert found.json["whole"] is True
    assert found.json["annex"]["digest"] == wrote.json["digest"]
    clauses = {c["id"]: c["followed"] for c in found.json["annex"]["clauses"]}
    assert clauses["compute-uniform"] == "yes"
    assert clauses["memory-uniform"] == "not_measured"
    assert found.code == 3


def test_a_whole_run_is_ok_and_a_file_that_is_no_annex_is_an_error(measured):
    assert assay("verify", measured).code == 0
    ended = assay("verify", measured, "--annex", PROMISES)
    assert ended.code == 2
    assert "no terms in this file" in ended.told
    assert "Traceback" not in ended.told


def test_a_profile_that_physics_forbids_cannot_be_signed(tmp_path):
    profile = tmp_path / "p.yaml"
    profile.write_text(
        "schema: 1\nname: p\ntitle: p\napplies_to: [h100-sxm]\ncriteria:\n"
        "  - {id: x, quantity: gemm.bf16.rate, op: at_least, bound: 5000 TFLOP/s,\n"
        "     recipe: {shape: 8192x8192x8192, load: all, statistic: median}}\n"
    )
    ended = assay("annex", "--profile", profile, "--claims", PROMISES)
    assert ended.code == 2
    assert "fix" in ended.told


def test_a_run_records_the_annex_that_it_was_made_under(tmp_path):
    files = [tmp_path / f"annex{n}.md" for n in (1, 2)]
    for restarts, file in enumerate(files, 1):
        words = ("--profile", "self", "--claims", PROMISES, "--restarts", restarts, "--out", file, "--json")
        assert assay("annex", *words).code == 0
    run = tmp_path / "run"
    made = assay_process(
        "qualify", "--suite", "quick", "--only", "bitwise", "--annex", files[0], "--out", run, "--json"
    )
    assert made.json["profile"] == "self"
    alone = assay("verify", run, "--json").json
    under = assay("verify", run, "--annex", files[0], "--json").json
    assert alone["recorded_annex"] == under["annex"]["digest"]
    assert under["annex"]["is_another"] is False
    clauses = {c["id"]: (c["followed"], c["restarts"]) for c in under["annex"]["clauses"]}
    assert clauses["outputs-alike"] == ("yes", 1)
    other = assay("verify", run, "--annex", files[1], "--json")
    assert other.code == 1
    assert other.json["annex"]["is_another"] is True
    assert "another annex" in assay("verify", run, "--annex", files[1]).out
    twice = assay("qualify", "--annex", files[0], "--profile", "self")
    assert twice.code == 2
    assert "leave --profile and --claims out" in twice.told
