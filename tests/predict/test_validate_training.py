"""Scoring on the carried tables: groups, reasons, and the accuracy that a change must not lose."""

from __future__ import annotations

import math

import pytest
from predict_fixtures import carried

from assay.errors import InputError
from assay.predict.published import marginal, measured_s
from assay.predict.tables import TableRow, read_table
from assay.predict.validate_training import NEEDS, source_of, validate_training

#: Group → highest median and 90th percentile of the absolute error with the shipped numbers.
GATES = {
    "selective-recompute table": (0.04, 0.085),
    "dense": (0.045, 0.13),
    "A100 multi-node table": (0.075, 0.13),
    "FSDP/ZeRO": (0.045, 0.14),
    "MoE": (0.07, 0.24),
    "Blackwell dense": (0.06, 0.14),
    "2,048 GPUs and more": (0.04, 0.1),
    "fine-tuning": (0.065, 0.145),
}


@pytest.fixture(scope="module")
def rows() -> list[TableRow]:
    names = ("measured.csv.gz", "a100_multi_node.csv.gz")
    return [row for name in names for row in carried("training", name, NEEDS)]


def test_groups_stay_as_accurate_as_they_were(rows: list[TableRow]) -> None:
    groups = validate_training(rows).groups
    for name, (median, p90) in GATES.items():
        score = groups[name]
        assert score.median_abs_error_frac is not None
        assert score.p90_abs_error_frac is not None
        assert score.median_abs_error_frac < median, name
        assert score.p90_abs_error_frac < p90, name


def test_every_row_is_predicted_or_says_why(rows: list[TableRow]) -> None:
    scored = validate_training(rows).rows
    assert len(scored) == len(rows)
    for row in scored:
        assert (row.predicted is None) == (row.skipped is not None)
        if row.predicted is not None and row.low is not None and row.high is not None:
            assert row.low < row.predicted < row.high
            assert row.error_frac is not None
            assert math.isfinite(row.error_frac)
    reasons = {row.skipped for row in scored if row.skipped}
    assert reasons == {"the row has neither a step time nor a rate"}


def test_a_left_out_source_is_scored_with_numbers_fitted_on_the_others(rows: list[TableRow]) -> None:
    some = [row for row in rows if "MLPerf" in row.cells["source"] or "Korthikanti" in row.cells["source"]]
    result = validate_training(some, cross="source")
    assert result.fitted is not None
    assert {"all rows", "without MLPerf Training", "without Korthikanti et al. 2022"} <= set(result.fitted)


def test_the_numbers_of_a_class_stand_beside_its_rows(rows: list[TableRow]) -> None:
    some = [row for row in rows if "MLPerf" in row.cells["source"] or "Korthikanti" in row.cells["source"]]
    fitted = validate_training(some).fitted
    assert fitted is not None
    old, new = (next(name for name in fitted if kind in name) for kind in ("dense ampere", "dense hopper"))
    timed = [row for row in some if "Korthikanti" in row.cells["source"] and measured_s(row.cells)]
    assert old == f"shipped, dense ampere ({len(timed)} rows)"
    assert {"gemm_ampere", "unfused", "tp_ampere"} <= set(fitted[old])
    assert not {"gemm_hopper", "ep", "cast_hopper"} & set(fitted[old])
    assert {"gemm_hopper_fp8", "cast_hopper"} <= set(fitted[new])


def test_the_fit_moves_towards_its_rows(rows: list[TableRow]) -> None:
    some = [row for row in rows if "InternEvo" in row.cells["source"]]
    shipped = validate_training(some).groups["dense A100"].median_abs_error_frac
    fitted = validate_training(some, cross="fit").groups["dense A100"].median_abs_error_frac
    assert shipped is not None
    assert fitted is not None
    assert fitted <= shipped + 0.005


def test_unsaid_recomputation_is_marginalised_not_guessed(rows: list[TableRow]) -> None:
    row = next(r for r in rows if r.cells["id"] == "M0211")
    found = marginal(row.cells)
    assert {one.layout.recompute for one in found.situations} == {"none", "selective", "full"}
    assert sum(found.weights) == pytest.approx(1)
    assert "recompute marginalised" in found.assumed


def test_step_time_is_printed_else_derived_else_from_the_rate() -> None:
    base = {"global_batch_seqs": "8", "seq_len": "1024", "gpus_total": "4", "tokens_per_s_per_gpu": "2048"}
    assert measured_s(base) == pytest.approx(1.0)
    assert measured_s(base | {"step_time_derived_s": "2"}) == 2
    assert measured_s(base | {"step_time_derived_s": "2", "step_time_s": "3"}) == 3


def test_one_source_goes_by_one_name() -> None:
    def row(source: str) -> TableRow:
        return TableRow(file="f", line=2, cells={"source": source})

    assert source_of(row("MLPerf Training v4.1 closed/open results, Dell")) == "MLPerf Training"
    assert source_of(row("MLPerf Training v4.0 closed/open results, NVIDIA")) == "MLPerf Training"


def test_a_missing_column_is_named_with_its_line() -> None:
    with pytest.raises(InputError, match="column 'gpus_total' is missing"):
        read_table(["id,gpu_model", "M1,H100"], file="t.csv", needs=NEEDS)


def test_a_short_row_is_an_error_with_its_line() -> None:
    with pytest.raises(InputError, match="2 cells under 3 columns") as caught:
        read_table(["a,b,c", "1,2,3", "1,2"], file="t.csv", needs=("a",))
    assert caught.value.where == "t.csv:3"


def test_an_unknown_gpu_is_skipped_with_the_reason(rows: list[TableRow]) -> None:
    cells = dict(rows[0].cells) | {"gpu_model": "Abacus 3"}
    scored = validate_training([TableRow(file="f", line=2, cells=cells)]).rows
    assert scored[0].skipped == "gpu_model 'Abacus 3' is not in the catalogue"
