"""Figures that contradict another program, or themselves over time."""

from __future__ import annotations

import numpy as np
import pytest

from assay.catalog.messages import LANGUAGES, Texts
from assay.catalog.quantities import quantity
from assay.domain.finding import Finding, Severity
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.judge.consistency import find_inconsistent

CARD = {"shape": "8192x8192x8192", "load": "all", "statistic": "median"}


def reading(
    quantity_id: str, value: float, replicate: int = 0, subject: str = "gpu:h/0", **recipe: str | int
) -> Reading:
    return Reading(
        quantity=quantity_id,
        subject=Subject.parse(subject),
        origin=Origin.MEASURED,
        value=value,
        unit=quantity(quantity_id).unit,
        recipe=Recipe.of(recipe),
        replicate=replicate,
        time_s=1796030000.0 + 20 * replicate,
        source=f"rank-0000.jsonl:{replicate + 1}",
    )


def busbw(method: str, value: float, replicate: int = 0, **recipe: str | int) -> Reading:
    stated = {"bytes": 2**30, "ranks": 8, "dtype": "fp32", "transport": "nccl", "statistic": "mean"} | recipe
    return reading("collective.all_reduce.busbw", value, replicate, "cluster", method=method, **stated)


def find(*readings: Reading) -> tuple[Finding, ...]:
    return find_inconsistent(readings, quantity)


def test_nccl_tests_that_give_another_figure_are_named_with_both() -> None:
    (found,) = find(busbw("pipelined", 4.6e11), busbw("nccl-tests", 4.8e11))
    assert (found.code, str(found.subject)) == ("NCCL_TESTS_DISAGREE", "cluster")
    assert Texts("en").say(found.because) == (
        "all-reduce bus bandwidth at 1 GiB: nccl-tests gives 480 GB/s and the same loop here 460 GB/s: "
        "4.35 % apart, more than 3 %."
    )
    assert [e.line for e in found.evidence] == [1, 1]


@pytest.mark.parametrize(
    "theirs",
    [
        busbw("nccl-tests", 4.7e11),
        busbw("nccl-tests", 6e11, bytes=2**20),
        busbw("nccl-tests", 6e11, ranks=4),
        busbw("nccl-tests", 6e11, transport="gloo"),
        busbw("aligned", 6e11),
    ],
)
def test_what_agrees_or_is_about_other_work_is_not_held_against_it(theirs: Reading) -> None:
    assert find(busbw("pipelined", 4.6e11), theirs) == ()


def test_intervals_that_overlap_leave_doubt() -> None:
    noisy = [busbw("pipelined", 4.6e11 * f, i) for i, f in enumerate((0.9, 1.0, 1.1))]
    quiet = [busbw("pipelined", 4.6e11 * f, i) for i, f in enumerate((0.999, 1.0, 1.001))]
    theirs = [busbw("nccl-tests", 5e11 * f, i) for i, f in enumerate((0.999, 1.0, 1.001))]
    assert find(*quiet, *theirs)[0].confidence_frac == 1.0
    assert find(*noisy, *theirs)[0].confidence_frac < 1.0


def test_a_rate_that_drops_and_comes_back_is_told_in_the_order_of_time() -> None:
    rates = [7e14, 7e14, 5e14, 7e14, 7e14]
    series = [reading("gemm.bf16.rate", rate, i, **CARD) for i, rate in enumerate(rates)]
    (found,) = find(*reversed(series))
    assert (found.code, found.severity) == ("SHAPE_UNSTABLE", Severity.MEDIUM)
    assert Texts("en").say(found.because) == (
        "BF16 GEMM rate changed by 28.6 % over 5 restarts (limit 10 %); it was low in #2 (+40 s)."
    )
    assert [e.text.split(", ", 1)[1] for e in found.evidence][1:3] == [
        "#1 (+20 s): 700 TFLOP/s, +0.0%",
        "#2 (+40 s): 500 TFLOP/s, -28.6%",
    ]


def test_windows_that_move_within_a_restart_are_told() -> None:
    moves = [reading("gemm.bf16.fluctuation", v, i, **CARD) for i, v in enumerate((0.01, 0.08, 0.02))]
    (found,) = find(*moves)
    assert "reached 8 % (limit 5 %) in 1 of 3 restarts: #1 (+20 s)." in Texts("en").say(found.because)


def test_steady_cards_are_no_finding_and_two_recipes_are_no_change() -> None:
    steady = [reading("gemm.bf16.rate", 7e14 * f, i, **CARD) for i, f in enumerate((1.0, 0.97, 1.02))]
    alone = [reading("gemm.bf16.rate", 8.5e14, i, **CARD | {"load": "alone"}) for i in range(3)]
    still = [reading("gemm.bf16.fluctuation", 0.01, i, **CARD) for i in range(3)]
    assert find(*steady, *alone, *still) == ()


def test_one_restart_has_nothing_to_change_from() -> None:
    assert find(reading("gemm.bf16.rate", 7e14, **CARD)) == ()


def test_on_the_cpu_a_neighbour_is_always_there() -> None:
    rates = [reading("gemm.fp32.rate", v, i, "rank:0", threads=1, **CARD) for i, v in enumerate((1e11, 2e11))]
    assert [f.severity for f in find(*rates)] == [Severity.LOW]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_findings_are_said_whole(lang: str) -> None:
    rates = [reading("gemm.bf16.rate", v, i, **CARD) for i, v in enumerate((7e14, 5e14))]
    moves = [reading("gemm.bf16.fluctuation", 0.2, **CARD)]
    found = find(*rates, *moves, busbw("pipelined", 4e11), busbw("nccl-tests", 5e11))
    assert {f.code: len(f.evidence) for f in found} == {"NCCL_TESTS_DISAGREE": 2, "SHAPE_UNSTABLE": 3}
    assert not any("{" in Texts(lang).say(f.because) for f in found)


def cards(values: np.ndarray) -> list[Reading]:
    return [
        reading("gemm.bf16.rate", float(v), restart, f"gpu:n/{card}", **CARD)
        for card, row in enumerate(values)
        for restart, v in enumerate(row)
    ]


def test_among_many_noisy_cards_none_is_named_for_what_chance_does() -> None:
    rng = np.random.default_rng(3)
    noise = 0.015 / np.sqrt(2) * rng.standard_t(4, (1024, 5)).clip(-11, 11)
    assert (np.ptp(noise, axis=1) > 0.1).any()
    assert find(*cards(7e14 * (1 + noise))) == ()


def test_among_many_steady_cards_the_one_with_a_gap_is_named() -> None:
    steady = 7e14 * (1 + 0.003 * np.random.default_rng(3).standard_normal((64, 5)))
    steady[3, 2] = 6e14
    assert [str(f.subject) for f in find(*cards(steady))] == ["gpu:n/3"]
