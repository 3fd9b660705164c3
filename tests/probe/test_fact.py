from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import InputError
from assay.probe import Fact, facts_from_json, facts_to_json


def fact(**changes: object) -> Fact:
    fields: dict[str, object] = {
        "subject": "gpu:h/0",
        "key": "gpu.power",
        "value": 300.0,
        "unit": "W",
        "reason": None,
        "source": "nvmlDeviceGetPowerUsage",
    }
    return Fact(**(fields | changes))  # type: ignore[arg-type]


values = (
    st.tuples(st.text(), st.just("text"))
    | st.tuples(st.booleans(), st.just("text"))
    | st.tuples(st.integers(), st.just("count"))
    | st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.just("B/s"))
)


@given(values, st.text(), st.text())
def test_a_fact_survives_a_line_of_json(value: tuple[object, str], key: str, source: str) -> None:
    before = (fact(value=value[0], unit=value[1], key=key, source=source),)
    line = json.dumps(facts_to_json(before), allow_nan=False)
    assert facts_from_json(json.loads(line)) == before


def test_a_missing_value_survives_json_with_its_reason() -> None:
    before = (fact(value=None, reason="driver lacks nvmlDeviceGetPowerUsage"),)
    assert facts_from_json(json.loads(json.dumps(facts_to_json(before)))) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"value": None},
        {"reason": "there is a value too"},
        {"value": None, "reason": ""},
        {"unit": "watt"},
        {"unit": "text"},
        {"value": "300"},
        {"value": True},
        {"value": float("nan")},
        {"value": float("inf")},
        {"subject": "rack:7"},
    ],
)
def test_a_fact_refuses_what_contradicts_itself(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"gpu\.power"):
        fact(**changes)


@pytest.mark.parametrize(
    "record",
    [
        {},
        facts_to_json([fact()])[0] | {"extra": 1},
        facts_to_json([fact()])[0] | {"value": [1]},
        facts_to_json([fact()])[0] | {"reason": 1},
        facts_to_json([fact()])[0] | {"subject": None},
    ],
)
def test_a_record_that_is_no_fact_is_refused(record: dict[str, object]) -> None:
    with pytest.raises(InputError):
        facts_from_json([record])
