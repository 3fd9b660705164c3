import json

import pytest
from hypothesis import given
from record_strategies import attestations, events, facts, readings

from assay.codec.lines import Header, LineDecoder, LineRecord, encode, to_line, to_text
from assay.domain.attestation import TOLD, Attestation
from assay.domain.event import Event
from assay.domain.fact import Fact
from assay.domain.reading import Origin, Reading
from assay.errors import InputError

LINE: dict[str, object] = {
    "type": "reading",
    "quantity": "gemm.bf16.rate",
    "subject": "rank:0",
    "value": 7.61e14,
    "unit": "FLOP/s",
    "recipe": {"shape": "8192x8192x8192", "load": "all", "statistic": "median", "window_s": 0.4},
    "n": 25,
    "replicate": 2,
    "cpu_share_frac": 0.98,
    "time_s": 1796030112.41,
    "samples": {"file": "samples/rank-0000.f64", "offset": 1200, "count": 25, "unit": "s"},
}


def decoded(line: str | dict[str, object]) -> LineRecord:
    """One line, told as line 7 of r.jsonl."""
    text = line if isinstance(line, str) else json.dumps(line)
    return LineDecoder().decode(text, file="r.jsonl", number=7)


@given(readings())
def test_a_reading_is_read_as_it_was_written(reading: Reading) -> None:
    assert decoded(to_line(reading)) == reading


@given(attestations)
def test_an_attestation_is_read_as_it_was_written(attestation: Attestation) -> None:
    assert decoded(to_line(attestation)) == attestation


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"told": {}}, "'library' is null, but an object is wanted"),
        ({"calls": [{"op": "send"}]}, "'bytes' is missing"),
        ({"counted": [{"over": "air", "device": "x", "bytes": 1}]}, "bytes counted over 'air'"),
        ({"counted": [{"over": "rdma", "device": "x", "bytes": None}]}, "x counted None bytes"),
        ({"railes": {}}, "unknown key 'railes' in an attestation"),
        ({"calls": {}}, "'calls' is an object, but a list of objects is wanted"),
    ],
)
def test_a_spoiled_attestation_is_refused_with_its_place(change: dict[str, object], what: str) -> None:
    told = {key: {"value": "x"} for key in TOLD}
    line = {"type": "attestation", "benchmark": "pairs", "replicate": 0, "rank": 0, "host": "h0"}
    whole = line | {"transport": "nccl", "told": told, "calls": [], "counted": [], "rails": {}}
    assert isinstance(decoded(whole), Attestation)
    with pytest.raises(InputError) as raised:
        decoded(whole | change)
    assert what in raised.value.what
    assert raised.value.where == "r.jsonl:7"


@given(facts())
def test_a_fact_is_read_as_it_was_written(fact: Fact) -> None:
    assert decoded(to_line(fact)) == fact


@given(events)
def test_an_event_is_read_as_it_was_written(event: Event) -> None:
    assert decoded(to_line(event)) == event


@pytest.mark.parametrize("rank", [None, 3])
def test_a_header_is_read_as_it_was_written(rank: int | None) -> None:
    header = Header(run="r", rank=rank)
    assert decoded(to_line(header)) == header


@given(readings())
def test_a_line_is_one_line(reading: Reading) -> None:
    assert to_text([reading, reading]).encode().count(b"\n") == 2


def test_the_documented_line_is_read() -> None:
    reading = decoded(LINE)
    assert isinstance(reading, Reading)
    assert (reading.origin, reading.source, reading.replicate) == (Origin.MEASURED, "r.jsonl:7", 2)
    assert encode(reading) == LINE | {"source": "r.jsonl:7"}


def test_recipes_that_differ_only_in_kind_are_kept_apart() -> None:
    decoder = LineDecoder()
    made = [
        decoder.decode(json.dumps(LINE | {"recipe": {"direct": value}}), file="f", number=1)
        for value in (True, 1, 1.0, True)
    ]
    kinds = [type(r.recipe.get("direct")) for r in made if isinstance(r, Reading)]
    assert kinds == [bool, int, float, bool]


def test_a_state_that_was_written_as_true_is_yes() -> None:
    line: dict[str, object] = {"type": "fact", "key": "k", "subject": "rank:0", "value": True, "unit": "text"}
    fact = decoded(line)
    assert isinstance(fact, Fact)
    assert fact.value == "yes"


def test_many_lines_share_their_recipes_and_subjects() -> None:
    decoder = LineDecoder()
    made = [
        decoder.decode(json.dumps(LINE | {"subject": f"rank:{i % 8}", "n": i}), file="f", number=i)
        for i in range(100_000)
    ]
    recipes = {id(r.recipe) for r in made if isinstance(r, Reading)}
    subjects = {id(r.subject) for r in made if isinstance(r, Reading)}
    assert (len(made), len(recipes), len(subjects)) == (100_000, 1, 8)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"replicat": 2}, "unknown key 'replicat' in a reading; did you mean 'replicate'"),
        ({"type": "readng"}, "unknown type of line 'readng'; did you mean 'reading'"),
        ({"type": 3}, "unknown type of line 3"),
        ({"origin": "measurd"}, "did you mean 'measured'"),
        ({"subject": "rnk:0"}, "unknown kind of subject 'rnk'"),
        ({"subject": None}, "'subject' is null, but text is wanted"),
        ({"unit": "TFLOP/s"}, "is not a base unit"),
        ({"value": "fast"}, "value 'fast' in unit"),
        ({"value": None}, "no value and no reason"),
        ({"reason": "crowded"}, "a value and a reason"),
        ({"value": True}, "'value' is true or false"),
        ({"value": [1]}, "'value' is a list"),
        ({"n": 2.5}, "'n' is a number, but a whole number"),
        ({"n": -1}, "'n' is -1"),
        ({"replicate": True}, "'replicate' is true or false"),
        ({"time_s": "now"}, "'time_s' is text"),
        ({"low": 1.0}, "an interval needs both ends"),
        ({"low": 2.0, "high": 1.0}, "is empty"),
        ({"recipe": []}, "'recipe' is a list"),
        ({"recipe": {"shape": [8, 8]}}, "recipe parameter 'shape' is a list"),
        ({"recipe": {"shape": None}}, "recipe parameter 'shape' is null"),
        ({"samples": {"fil": "x"}}, "did you mean 'file'"),
        ({"samples": {"file": "x"}}, "'offset' and a 'count'"),
        ({"samples": 3}, "'samples' is a whole number"),
    ],
)
def test_a_wrong_reading_is_told_with_file_and_line(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError) as caught:
        decoded(LINE | change)
    assert caught.value.where == "r.jsonl:7"
    assert words in f"{caught.value.what}; {caught.value.fix}"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"type": "reading", "value": 1e999}', "'quantity' is missing"),
        (json.dumps(LINE).replace("761000000000000.0", "1e999"), "not finite"),
        (json.dumps(LINE).replace("0.98", "1e999"), "not a finite number"),
        (json.dumps(LINE).replace("0.98", "Infinity"), "Infinity is not a number"),
        (json.dumps(LINE)[:40], "not JSON: .* at column"),
        ("[" * 100_000, "nested too deep"),
        ('{"type": "event", "kind": "k", "subject": "cluster"}', "an event needs a time"),
        (
            '{"type": "event", "kind": "k", "subject": "cluster", "time_s": 1, "details": {"a": []}}',
            "detail 'a'",
        ),
        ('{"type": "fact", "key": "k", "subject": "cluster", "unit": "1"}', "'value' is missing"),
        (
            '{"type": "fact", "key": "k", "subject": "cluster", "unit": "1", "valu": 1}',
            "did you mean 'value'",
        ),
        ('{"type": "header", "schema_version": 2, "run": "r"}', "schema_version is 2"),
    ],
)
def test_a_line_that_is_none_is_told(line: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        decoded(line)
    assert caught.value.where == "r.jsonl:7"
