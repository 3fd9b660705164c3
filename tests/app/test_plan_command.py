"""`assay plan` as a user calls it: every command on the shipped examples, its JSON, its page, and bad
input."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from assay.api.sweeping import do_piece
from assay.app.plan import COMMANDS, plan
from assay.codec.sweep import load_sweep
from assay.errors import AssayError
from assay.plan.sweep import points
from commands import assay

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTERS = sorted((EXAMPLES / "clusters").glob("*.yaml"))
WORKLOADS = [*sorted((EXAMPLES / "workloads").glob("*.*")), EXAMPLES / "workloads" / "own-7b" / "config.json"]
H100 = EXAMPLES / "clusters" / "rented-h100.yaml"
OWN = EXAMPLES / "workloads" / "own-7b" / "config.json"
OFFERS = EXAMPLES / "offers" / "three.yaml"


def run(*words: object, code: int = 0) -> str:
    """The command in this process; its error is the test's."""
    ended = CliRunner().invoke(plan, [str(word) for word in words], standalone_mode=False)
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    assert (ended.return_value or 0) == code
    return ended.stdout


def answer(*words: object, code: int = 0) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(run(*words, "--json", code=code))
    assert {"schema_version", "command", "assay_version"} <= set(said)
    return said


def small(*words: object) -> tuple[object, ...]:
    """A layout search of few points, for tests that are about something else."""
    return (*words, "--layout", "cp=1,mbs=1", "--precision", "bf16")


def test_examples_are_three_offers_four_clusters_and_six_workloads() -> None:
    assert len(CLUSTERS) == 4
    assert len(WORKLOADS) == 6
    assert OFFERS.read_text(encoding="utf-8").count("- id:") == 3


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda path: path.name)
def test_layout_ranks_explains_and_pays_for_every_example(workload: Path) -> None:
    said = answer(
        *small("layout", "--cluster", "dgx-h100", "--nodes", 8, "--workload", workload, "--count", 3)
    )
    assert said["space"] == said["evaluated"] + said["pruned"]
    times = [one["prediction"]["step_time_s"]["value"] for one in said["candidates"]]
    assert times == sorted(times)
    for one in said["candidates"]:
        assert one["why"]
        p = one["prediction"]
        assert sum(p["breakdown"].values()) == pytest.approx(p["step_time_s"]["value"])
        assert sum(p["memory_bytes"].values()) <= p["capacity_bytes"]
        assert sum(Decimal(line["amount"]) for line in one["cost"]["lines"]) == Decimal(one["cost"]["total"])
        for flags in one["flags"].values():
            assert bool(flags["text"]) != bool(flags["reason"])
    front = [
        (one["prediction"]["step_time_s"]["value"], sum(one["prediction"]["memory_bytes"].values()))
        for one in said["pareto"]
    ]
    assert front == sorted(front)
    assert [held for _, held in front] == sorted((held for _, held in front), reverse=True)


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda path: path.stem)
def test_layout_and_risk_work_on_every_example_cluster(cluster: Path) -> None:
    workload = EXAMPLES / "workloads" / "trial-1b.yaml"
    assert answer(*small("layout", "--cluster", cluster, "--workload", workload, "--count", 1))["candidates"]
    said = answer(*small("risk", "--cluster", cluster, "--workload", workload, "--runs", 2, "--days", 10))
    assert (
        0 < said["goodput_frac"]["low"] <= said["goodput_frac"]["value"] <= said["goodput_frac"]["high"] < 1
    )
    assert said["interval_s"] > 0
    assert sum(said["time_parts_frac"].values()) == pytest.approx(1)


def test_compare_shows_every_fee_breach_and_flip_in_the_users_currency() -> None:
    said = answer(
        "compare", "--workload", OWN, "--tokens", "2e11", "--offers", OFFERS, "--currency", "CNY",
        "--gpus", 32, "--need", "lab",
    )  # fmt: skip
    assert {one["offer"] for one in said["platforms"]} == {"cheap-hour", "all-in", "spot"}
    assert said["recommended"] == said["platforms"][0]["offer"]
    totals = [Decimal(one["cost"]["total"]) for one in said["platforms"]]
    assert totals == sorted(totals)
    for one in said["platforms"]:
        assert sum(Decimal(line["amount"]) for line in one["cost"]["lines"]) == Decimal(one["cost"]["total"])
        for key in ("days", "utilisation_frac", "speedup_frac", "goodput_frac", "price_per_useful_gpu_hour"):
            assert one[key] is not None
    breaches = {one["offer"]: [b["quantity"] for b in one["breaches"]] for one in said["platforms"]}
    assert breaches["cheap-hour"] == [
        "training.scaling_efficiency",
        "service.availability",
        "service.response_time",
    ]
    assert breaches["all-in"] == []
    assert len(said["flips"]) == 3
    assert said["promised_speedup_frac"] == pytest.approx([180 / 21000, 220 / 14000])
    assert [one["consistent"] for one in said["classes"]] == [True, False, True]


def test_an_imported_catalogue_is_compared_on_one_node(tmp_path: Path) -> None:
    prices = tmp_path / "aws.csv"
    prices.write_text(
        "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor\n"
        "p5.48xlarge,us-east-1,55.04,192,2048,8,H100,80,False,,nvidia\n"
        "p5.48xlarge,us-east-1,30.00,192,2048,8,H100,80,True,,nvidia\n"
        "p9.tiny,us-east-1,1.00,4,16,1,Z9,80,False,,nvidia\n"
    )
    said = answer("compare", "--workload", OWN, "--offers", prices, "--gpus", 8, "--need", "trial")
    assert [one["offer"] for one in said["platforms"]] == [
        "aws-p5-48xlarge-us-east-1-spot",
        "aws-p5-48xlarge-us-east-1",
    ]
    assert [one["price_per_gpu_hour"] for one in said["platforms"]] == ["3.75", "6.88"]
    assert said["recommended"] == "aws-p5-48xlarge-us-east-1-spot"


def test_size_names_the_fewest_cards_in_time_and_says_no_with_its_exit_code() -> None:
    words = (
        "size",
        "--workload",
        OWN,
        "--tokens",
        "1e11",
        "--offers",
        OFFERS,
        "--only",
        "all-in",
        "--most-gpus",
        64,
    )
    said = answer(*words, "--deadline", "60d", "--budget", "9e6")
    assert said["best"]["days"] <= 60
    assert all(one["meets"] is False or one["days"] <= 60 for one in said["options"])
    late = answer(*words, "--deadline", "1 h", code=1)
    assert late["best"] is None


def test_growth_has_the_keys_of_a_fabric_at_every_stage() -> None:
    said = answer(*small("growth", "--cluster", H100, "--stages", "1,8,64", "--workload", OWN))
    assert [one["nodes"] for one in said["stages"]] == [1, 8, 64]
    last = said["stages"][-1]
    assert last["switches"] == {"leaf": 16, "spine": 8, "core": 0}
    assert last["cables"] == {"node_leaf": 512, "leaf_spine": 512, "spine_core": 0}
    assert last["bisection_Bps"] == 64 * 8 * 50e9 / 2
    assert last["moved_cables"] == 128
    assert any("fabric manager" in line for line in last["findings"])


def test_sweep_writes_its_rows(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "schema: 1\ngrid: {cluster: [dgx-h100], nodes: [1], workload: [llama-3.1-8b], layout: [tp=2]}\n"
    )
    said = answer("sweep", grid, "--out", tmp_path / "rows.csv", "--workers", 1)
    assert (said["rows"], said["errors"]) == (1, 0)
    assert Path(said["file"]).is_file()


@pytest.mark.parametrize("job", ["raytrace", "spectral"])
def test_jobs_that_are_no_language_models_plan_the_same_way(job: str, tmp_path: Path) -> None:
    what = ("--workload", job, "--steps", "1e6")
    said = answer("compare", *what, "--offers", OFFERS, "--only", "all-in", "--gpus", 64, "--currency", "CNY")
    (one,) = said["platforms"]
    step = one["prediction"]["step_time_s"]["value"]
    assert one["training_h"] == pytest.approx(1e6 * step / 3600)
    assert sum(one["prediction"]["breakdown"].values()) == pytest.approx(step)
    assert one["layout"] is None
    assert Decimal(one["cost"]["total"]) > 0
    risk = answer("risk", "--cluster", "dgx-h100", "--nodes", 8, *what, "--runs", 2)
    assert 0 < risk["goodput_frac"]["value"] < 1
    assert risk["input"] is None
    stages = answer("growth", "--cluster", "dgx-h100", "--stages", "8,16", *what)["stages"]
    assert stages[1]["steps_per_s"] > stages[0]["steps_per_s"]
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        f"schema: 1\ngrid: {{cluster: [dgx-h100], nodes: [8], workload: [{job}], steps: [1e6]}}\n"
    )
    (row,) = do_piece(points(load_sweep(grid).axes))
    assert row["error"] is None
    assert row["step_time_s"] == pytest.approx(risk["prediction"]["step_time_s"]["value"])


QUICK = {
    "layout": small("layout", "--cluster", H100, "--nodes", 2, "--workload", OWN),
    "compare": ("compare", "--workload", OWN, "--offers", OFFERS, "--gpus", 16, "--currency", "CNY"),
    "size": (
        "size",
        "--workload",
        OWN,
        "--offers",
        OFFERS,
        "--only",
        "all-in",
        "--most-gpus",
        32,
        "--deadline",
        "900d",
    ),
    "growth": small("growth", "--cluster", H100, "--stages", "1,4,16", "--workload", OWN),
    "risk": small("risk", "--cluster", H100, "--nodes", 4, "--workload", OWN, "--runs", 2),
}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", QUICK)
def test_text_keeps_to_80_columns_and_says_all_in_words(name: str, lang: str) -> None:
    text = run(*QUICK[name], "--lang", lang)
    assert [line for line in text.splitlines() if cell_len(line) > 80] == []
    assert "plan." not in text
    assert "{" not in text.replace('{"', "").replace('": {', "").replace("{\n", "")


@pytest.mark.parametrize("name", QUICK)
def test_pages_open_offline_in_both_languages(name: str, tmp_path: Path) -> None:
    pages = {}
    for lang in ("en", "zh"):
        file = tmp_path / f"{lang}.html"
        run(*QUICK[name], "--lang", lang, "--html", file)
        pages[lang] = file.read_text(encoding="utf-8")
        assert "<script>" not in pages[lang]
        assert "http" not in pages[lang].replace("http://www.w3.org", "").partition('id="answer"')[0]
        assert 'lang="zh-Hans"' in pages[lang] or lang == "en"
        embedded = pages[lang].partition('id="answer">')[2].partition("</script>")[0]
        assert json.loads(embedded)["command"] == f"plan {name}"
        assert len(pages[lang]) < 1_000_000
    assert pages["en"].count("<svg") == pages["zh"].count("<svg")
    assert name == "size" or "<svg" in pages["en"]


@pytest.mark.parametrize(
    ("words", "said", "fix"),
    [
        (("layout", "--cluster", "dgx-h10", "--workload", OWN), "unknown cluster 'dgx-h10'", "dgx-h100"),
        (("layout", "--cluster", H100, "--workload", "llama-3.1-7b"), "unknown model", "llama-3.1-8b"),
        (
            ("layout", "--cluster", H100, "--workload", OWN, "--layout", "micro_bach=2"),
            "unknown layout key",
            "did you mean",
        ),
        (("layout", "--cluster", H100, "--workload", OWN, "--layout", "pp=1,vpp=2"), "vpp = 2", "two stages"),
        (("layout", "--cluster", H100, "--workload", OWN, "--precision", "fp9"), "unknown precision", "fp8"),
        (("layout", "--cluster", H100, "--workload", OWN, "--tokens", "-1"), "-1 tokens", "300e9"),
        (
            ("compare", "--workload", OWN, "--offers", OFFERS, "--currency", "EUR"),
            "no exchange rate for EUR",
            "--rates",
        ),
        (("compare", "--workload", OWN, "--only", "nebius-h100"), "unknown offer", "nebius-h100-sxm"),
        (("compare", "--workload", OWN, "--need", "enterprize"), "unknown need", "enterprise"),
        (
            ("compare", "--workload", OWN, "--offers", OFFERS, "--storage", "bets"),
            "unknown storage class",
            "best",
        ),
        (("size", "--workload", OWN, "--offers", OFFERS, "--deadline", "2020-01-01"), "in the past", "21d"),
        (("size", "--workload", OWN, "--offers", OFFERS, "--deadline", "-3 d"), "in the past", "21d"),
        (
            ("size", "--workload", OWN, "--offers", OFFERS, "--budget", "5 EUR"),
            "budget in EUR",
            "--currency EUR",
        ),
        (
            ("growth", "--cluster", H100, "--workload", OWN, "--stages", "8,4"),
            "does not grow",
            "smallest first",
        ),
        (("risk", "--cluster", H100, "--workload", OWN, "--fleet", "llama3"), "unknown fleet", "llama-3"),
        (("risk", "--cluster", H100, "--workload", OWN, "--save", "30"), "no unit", "250 ms"),
        (("layout", "--cluster", H100, "--workload", "halo3d"), "one layout", "compare"),
        (("risk", "--cluster", H100, "--workload", "spectral"), "how many steps", "--steps"),
        (("risk", "--cluster", H100, "--workload", OWN, "--steps", "5"), "jobs of phases", "models"),
        (("sweep", "no.yaml", "--out", "rows.csv"), "no file 'no.yaml'", "path"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_bad_input_says_what_and_the_fix(words: tuple[object, ...], said: str, fix: str) -> None:
    with pytest.raises(AssayError) as fault:
        run(*words)
    assert said in fault.value.what
    assert fix in str(fault.value)
    assert fault.value.exit_code == 2


def test_the_command_line_lists_the_commands_and_suggests_the_nearest() -> None:
    ended = assay("plan", "--help")
    assert ended.code == 0
    assert [name for name in COMMANDS if name not in ended.out] == []
    ended = assay("plan", "layot")
    assert ended.code == 2
    assert "layout" in ended.told
