"""nccl-tests' JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_samples import sample

from assay.errors import InputError
from assay.formats.nccl_tests_json import parse


def changed(**changes: Any) -> list[str]:
    document = json.loads("\n".join(sample("nccl_2.19.json")))
    document |= changes
    return json.dumps(
        {key: value for key, value in document.items() if value != "absent"}, indent=1
    ).splitlines()


def test_everything_is_read_and_only_nccls_environment_is_kept():
    (found,) = parse(sample("nccl_2.19.json"), "n.json")
    assert (found.collective, found.ranks, found.library_version) == ("all_reduce", 8, "2.30.7")
    assert found.ranks_from == "device list, agrees with busbw/algbw"
    assert found.env == (("NCCL_DEBUG", "WARN"), ("NCCL_IB_HCA", "mlx5_0,mlx5_1"))
    assert "not-a-real-one" not in repr(found)
    assert found.settings is not None
    assert (found.settings.step_factor, found.settings.warmup_iters, found.settings.validation) == (
        2,
        1,
        True,
    )
    row = found.rows[0]
    assert (row.bytes, row.redop, row.root) == (2**30, "sum", None)
    assert row.out_of_place is not None
    assert row.out_of_place.time_s == pytest.approx(3.95e-3)
    assert row.out_of_place.wrong == 0
    assert row.out_of_place.iterations is not None
    assert len(row.out_of_place.iterations.times_s) == 3
    assert row.out_of_place.iterations.p95_s == pytest.approx(3.95e-3 * 1.1)
    assert found.avg_busbw_Bps is None  # "nan"


def test_rows_know_their_lines_when_the_file_has_lines():
    lines = changed()
    (found,) = parse(lines, "n.json")
    assert [lines[row.line - 1].strip().split(",")[0] for row in found.rows] == [
        f'"size": {row.bytes}' for row in found.rows
    ]


def test_an_unknown_version_is_named():
    with pytest.raises(InputError, match="version 4 of nccl-tests' JSON is unknown; known: 3"):
        parse(changed(version=4), "n.json")


@pytest.mark.parametrize("key", ["out_of_bounds", "end_time"])
def test_a_run_that_did_not_end_is_refused(key: str):
    with pytest.raises(InputError, match="did not end"):
        parse(changed(**{key: "absent"}), "n.json")


def test_a_cut_off_file_is_refused_at_its_last_line():
    lines = changed()[:40]
    with pytest.raises(InputError, match="the JSON stops here") as caught:
        parse(lines, "n.json")
    assert caught.value.where == "n.json:40"
    assert "cut off" in str(caught.value)


def test_a_wrong_type_is_named_by_its_path():
    results = json.loads("\n".join(sample("nccl_2.19.json")))["results"]
    results[1]["size"] = "large"
    with pytest.raises(InputError, match=r"results\[1\]\.size is \"large\", but a whole number is wanted"):
        parse(changed(results=results), "n.json")


def test_a_device_list_that_contradicts_the_bandwidths_is_refused():
    config = json.loads("\n".join(sample("nccl_2.19.json")))["config"]
    config["devices"] = config["devices"][:4]
    with pytest.raises(InputError, match=r"4 ranks, but busbw/algbw is 1\.7500 .* = 8\.00"):
        parse(changed(config=config), "n.json")


def test_skipped_out_of_place_results_are_none():
    results = json.loads("\n".join(sample("nccl_2.19.json")))["results"]
    results[0]["out_of_place"] = None
    assert parse(changed(results=results), "n.json")[0].rows[0].out_of_place is None
