"""Scoring against published measurements (validation/collectives)."""

from pathlib import Path

import pytest

from assay.errors import InputError
from assay.fabric.published import read_published
from assay.fabric.validate import validate_collectives

FOLDER = Path(__file__).parents[2] / "validation" / "collectives"


def rows_of(name: str, words: tuple[str, ...]) -> list[str]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [lines[0], *(line for line in lines[1:] if line.startswith(words))]


def test_hopper_nodes_are_predicted_within_the_promised_error() -> None:
    rows = read_published(rows_of("single_node.csv", ("h200_sxm,2.29.2,half,all_",)), "single_node.csv")
    score = validate_collectives(rows).groups["in a node"]
    assert score.n == len(rows)
    assert score.median_abs_error_frac is not None
    assert score.median_abs_error_frac < 0.08
    assert score.p90_abs_error_frac is not None
    assert score.p90_abs_error_frac < 0.25


def test_every_row_is_scored_or_says_why_not() -> None:
    lines = rows_of("measured.csv", ("C001", "C020", "C022", "C077", "C087"))
    rows = validate_collectives(read_published(lines, "measured.csv")).rows
    assert len(rows) == len(lines) - 1
    for row in rows:
        assert (row.predicted is None) == (row.skipped is not None)
    assert {row.id.partition(":")[0] for row in rows if row.skipped} == {"C020", "C077", "C087"}


def test_leaving_a_source_out_names_its_own_fit() -> None:
    lines = rows_of("measured.csv", ("C001", "C007", "C032", "C039", "C053", "C054", "C110"))
    result = validate_collectives(read_published(lines, "measured.csv"), cross=True)
    assert result.cross == "source"
    assert result.fitted is not None
    assert len(result.fitted) > 2


def test_columns_that_are_not_known_are_told() -> None:
    with pytest.raises(InputError, match="curve_id"):
        read_published(["a,b,c", "1,2,3"], "x.csv")


def test_a_row_that_is_no_number_is_told_with_its_line() -> None:
    lines = ["gpu,nccl,dtype,collective,gpus,bytes,time_us", "h200_sxm,2.29.2,half,all_gather,8,many,1"]
    with pytest.raises(InputError, match=r"x.csv:2"):
        read_published(lines, "x.csv")


def test_rows_that_their_notes_call_cold_or_outliers_stand_apart() -> None:
    rows = read_published(rows_of("measured.csv", ("C079", "C001")), "measured.csv")
    apart = {row.id: row.health for row in rows if row.health != "healthy"}
    assert apart == {"C079:8": "cold", "C079:16": "cold", "C079:262144": "outlier"}
    groups = {row.id: row.groups for row in validate_collectives(rows).rows}
    assert groups["C079:8"] == ("not known to be healthy",)


@pytest.mark.parametrize(
    ("version", "date", "taken"),
    [
        ("2.18.5", "2024", (2, 18)),
        ("not stated (2.8-2.10 era)", "2021-12", (2, 8)),
        ("not stated", "2021-12", (2, 9)),
        ("", "2019-20", (2, 4)),
        ("", "2024-09", (2, 20)),
        ("", "", (2, 27)),
    ],
)
def test_a_row_without_a_version_takes_the_one_of_half_a_year_before(
    version: str, date: str, taken: tuple[int, int]
) -> None:
    head = "curve_id,gpu_model,nodes,gpus_per_node,collective,bytes,time_us,nccl_version,date,intra"
    line = f"X,H100 SXM5,1,8,all_reduce,1024,20,{version},{date},NVSwitch"
    assert read_published([head, line], "x.csv")[0].options.nccl == taken


def test_fewer_gpus_of_a_table_are_a_part_of_the_same_machine() -> None:
    rows = read_published(rows_of("single_node.csv", ("l40s,2.27.3,half,all_gather",)), "single_node.csv")
    assert {row.per_node for row in rows} == {2, 4, 8}
    assert {len(row.cluster.node.gpus) for row in rows if row.cluster is not None} == {8}
