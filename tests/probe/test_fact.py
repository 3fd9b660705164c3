from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.codec.lines import LineDecoder
from assay.domain.subject import Subject
from assay.errors import InputError
from assay.probe import Fact, facts_to_json
from assay.probe.fact import Value, known, missing

GPU = "gpu:h/0"

values = (
    st.tuples(st.text(), st.just("text"))
    | st.tuples(st.booleans(), st.just("text"))
    | st.tuples(st.integers(-(2**53), 2**53), st.just("count"))
    | st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.just("B/s"))
)


def read_back(facts: tuple[Fact, ...]) -> tuple[object, ...]:
    decoder = LineDecoder()
    lines = [json.dumps(record, allow_nan=False) for record in facts_to_json(facts)]
    return tuple(decoder.decode(line, file="rank-0000.jsonl", number=1) for line in lines)


@settings(deadline=None)
@given(values, st.text(min_size=1), st.text(min_size=1))
def test_a_fact_survives_a_line_of_a_run_folder(value: tuple[Value, str], key: str, source: str) -> None:
    before = (known(GPU, key, value[0], value[1], source),)
    assert read_back(before) == before


def test_a_missing_value_survives_with_its_reason() -> None:
    before = (missing(GPU, "gpu.power", "W", "driver lacks nvmlDeviceGetPowerUsage", "nvml"),)
    assert read_back(before) == before


def test_a_yes_or_no_is_told_in_words() -> None:
    assert [known(GPU, "gpu.lost", lost, "text", "").value for lost in (True, False)] == ["yes", "no"]


def test_a_subject_is_one_of_the_vocabulary() -> None:
    assert known("port:h/mlx5_0[1]", "port.state", "ACTIVE", "text", "").subject == Subject(
        "port", "h/mlx5_0[1]"
    )
    with pytest.raises(InputError, match="rack"):
        known("rack:7", "rack.height", 42, "count", "")
