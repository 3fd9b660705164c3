"""Rows of unseen tables: blank cells, other column orders, unknown models, devices and frameworks."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predict_fixtures import carried

from assay.domain.score import ScoredRow
from assay.errors import InputError
from assay.predict.published import marginal
from assay.predict.published_systems import system_of
from assay.predict.tables import read_table
from assay.predict.validate_training import NEEDS, validate_training

_TABLES = ("measured.csv.gz", "a100_multi_node.csv.gz")
_ROWS = [row.cells for name in _TABLES for row in carried("training", name, NEEDS)][::61]
_COLUMNS = list(_ROWS[0])
_MODELS = ("Foo 13B", "Zeta-MoE 40B-A4B", "Qwen9 1.5T", "unknown model", "")
_DEVICES = ("H20 96GB", "H100 PCIe", "TPU v5p", "B200", "A100", "MI300X", "RTX 4090", "")
_FRAMEWORKS = ("FooTrain 1.0", "DeepSpeed", "Megatron-Bridge 27.01", "torchtitan compile", "JAX MaxText", "")
_WORDS = ("", "unknown", "nan", "inf", "-4", "0", "1.5", "7", "1e9")


def scored(rows: Sequence[dict[str, str]], columns: Sequence[str]) -> tuple[ScoredRow, ...]:
    """The rows through a CSV with its columns in this order, as a user's file comes."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(rows)
    return validate_training(read_table(text.getvalue().splitlines(), file="theirs.csv", needs=NEEDS)).rows


@settings(max_examples=30, deadline=None)
@given(data=st.data(), columns=st.permutations(_COLUMNS))
def test_any_row_is_predicted_or_skipped_with_a_reason(data: st.DataObject, columns: list[str]) -> None:
    row = dict(data.draw(st.sampled_from(_ROWS)))
    for key, names in (("model_name", _MODELS), ("gpu_model", _DEVICES), ("software", _FRAMEWORKS)):
        row[key] = data.draw(st.sampled_from((row[key], *names)))
    row |= dict.fromkeys(data.draw(st.lists(st.sampled_from(_COLUMNS), max_size=8)), "")
    row |= data.draw(st.dictionaries(st.sampled_from(_COLUMNS), st.sampled_from(_WORDS), max_size=2))
    (one,) = scored([row], columns)
    assert bool(one.skipped) == (one.predicted is None)
    if one.predicted is not None:
        assert one.low is not None
        assert one.high is not None
        assert math.isfinite(one.predicted)
        assert 0 < one.low < one.predicted < one.high


def test_the_order_of_columns_changes_nothing() -> None:
    as_they_are, turned = scored(_ROWS, _COLUMNS), scored(_ROWS, _COLUMNS[::-1])
    assert [one.predicted for one in turned] == [one.predicted for one in as_they_are]


@pytest.mark.parametrize("software", ["FooTrain 1.0", ""])
def test_an_unknown_framework_and_model_skip_no_row_whose_size_is_stated(software: str) -> None:
    unknown = {"software": software, "source": "a table", "model_name": "Foo 13B", "params_b": "13"}
    found = scored([row | unknown for row in _ROWS], _COLUMNS)
    reasons = {one.skipped for one in found if one.skipped}
    assert reasons <= {"the row has neither a step time nor a rate"}


def test_missing_gpus_follow_from_the_degrees() -> None:
    row = next(row for row in _ROWS if row["dp"] and row["gpus_total"])
    assert marginal(row | {"gpus_total": ""}).situations == marginal(row).situations


def test_experts_alone_say_how_many_a_token_visits() -> None:
    row = _ROWS[0] | {"model_name": "Foo MoE", "layers": "32", "hidden": "4096", "experts": "8", "topk": ""}
    assert marginal(row).situations[0].workload.model.topk == 2


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("H100 PCIe 80GB", "h100-pcie"),
        ("H200 NVL", "h200-nvl"),
        ("GB200 NVL72", "gb200"),
        ("NVIDIA H20", "h20"),
        ("RTX 4090", "rtx-4090"),
        ("A100 40GB", "a100-sxm-40gb"),
    ],
)
def test_devices_are_found_by_the_names_people_write(said: str, found: str) -> None:
    assert system_of({"gpu_model": said}).gpu == found


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(InputError, match="gpu_model 'TPU v5p' is not in the catalogue"):
        system_of({"gpu_model": "TPU v5p"})
