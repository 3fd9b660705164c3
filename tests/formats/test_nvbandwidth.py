"""nvbandwidth as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_samples import sample

from assay.errors import InputError
from assay.formats.nvbandwidth import NvBandwidth, parse_json, parse_text


def of_case(**case: Any) -> NvBandwidth:
    return parse_json([json.dumps({"nvbandwidth": {"testcases": [case]}})], "n.json")[0]


def test_the_text_with_its_matrices():
    (found,) = parse_text(sample("nvbandwidth_results.log"), "n.log")
    assert (found.version, found.driver_version, found.cuda_version) == ("v0.6", "550.54.15", "12.4")
    assert found.devices == ("0: NVIDIA GH200 480GB (00000009:01:00)",)
    first, last = found.testcases[0], found.testcases[-1]
    assert (first.name, first.line, first.status, first.unit) == (
        "host_to_device_memcpy_ce",
        10,
        "passed",
        "B/s",
    )
    assert first.matrix[1][2] == pytest.approx(312.11e9)
    assert (last.name, last.unit, last.cells) == ("host_device_latency_sm", "s", (pytest.approx(772.58e-9),))
    assert (found.waived_unnamed, found.unread) == (17, ())


def test_a_lost_cell_shows_in_the_sum():
    lines = [line.replace("369.36", "36.936") for line in sample("nvbandwidth_results.log")]
    with pytest.raises(InputError, match=r"add up to 1\.65318e\+12 B/s, but the file says 1\.9856e\+12"):
        parse_text(lines, "n.log")


def test_text_that_ends_inside_a_testcase_is_refused():
    with pytest.raises(
        InputError, match="ends inside host_to_device_memcpy_ce, which began on line 10"
    ) as caught:
        parse_text(sample("nvbandwidth_results.log")[:13], "n.log")
    assert caught.value.where == "n.log:13"
    short = sample("nvbandwidth_results.log")
    short[12] = " 0    369.36    269.33"
    with pytest.raises(InputError, match="its name and 3 cells are wanted"):
        parse_text(short, "n.log")


def test_an_error_in_the_text_belongs_to_the_running_testcase():
    lines = ["Running device_local_copy.", "Error: CUDA_ERROR_NOT_SUPPORTED", "", "something else"]
    (found,) = parse_text(lines, "n.log")
    (case,) = found.testcases
    assert (case.status, case.message, case.matrix) == ("error", "CUDA_ERROR_NOT_SUPPORTED", ())
    assert found.unread == (4,)


def test_warnings_with_braces_around_the_json_are_counted():
    (found,) = parse_json(sample("nvbandwidth_noise.json"), "n.json")
    assert found.unread == (1, 2, 3, 54, 55)
    assert [case.status for case in found.testcases] == ["passed", "waived", "passed", "waived"]
    assert found.testcases[0].cells == (pytest.approx(12.3964e9),)


def test_na_is_none_and_a_doubled_testcase_has_its_worst_status():
    (found,) = parse_json(sample("nvbandwidth_error.json"), "n.json")
    assert [(case.name, case.status) for case in found.testcases] == [
        ("device_to_device_memcpy_read_ce", "passed"),
        ("device_local_copy", "error"),
        ("all_to_host_memcpy_ce", "waived"),
    ]
    peers = found.testcases[0]
    assert peers.matrix[0][0] is None
    assert len(peers.cells) == 12
    assert min(peers.cells) > 275e9


def test_a_later_error_outdoes_a_matrix_that_was_measured():
    case = {
        "name": "x",
        "status": "Passed",
        "bandwidth_matrix": [["1.5"]],
        "bandwidth_description": "copy (GB/s)",
        "sum": 1.5,
    }
    document = {"nvbandwidth": {"testcases": [case, {"name": "x", "status": "Error"}]}}
    (found,) = parse_json([json.dumps(document)], "n.json")
    assert [(each.status, each.cells) for each in found.testcases] == [("error", (1.5e9,))]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"name": "x", "status": "Fine"}, "status 'Fine' is unknown"),
        ({"name": "x", "status": "Passed", "bandwidth_matrix": [["1"]]}, "does not end in a known unit"),
        (
            {
                "name": "x",
                "status": "Passed",
                "bandwidth_matrix": [["this"]],
                "bandwidth_description": "(GB/s)",
            },
            "neither a number nor N/A",
        ),
        ({"status": "Passed"}, "lacks name"),
    ],
)
def test_what_cannot_be_read_is_refused(case: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        of_case(**case)


def test_an_empty_run_is_refused():
    with pytest.raises(InputError, match="ran no testcase"):
        parse_json(['{"nvbandwidth": {}}'], "n.json")
    with pytest.raises(InputError, match="without a testcase"):
        parse_text(["nvbandwidth Version: v0.6"], "n.log")
