from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import some_words, words

from assay.catalog.quantities import quantity
from assay.codec.claims import Claims, Promise, dump_claims, load_claims
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.errors import InputError

GOOD = """\
schema: 1
provider: Example Cloud
offer: eight cards
promises:
  - quantity: gemm.bf16.rate
    value: 700 TFLOP/s
    recipe: {shape: 8192x8192x8192, load: all}
    note: at full clock
  - {quantity: gpu.name, value: H100, subject: "gpu:node01/3"}
  - {quantity: price.gpu_hour, value: 20 CNY/h}
  - {quantity: gpu.count, value: 8}
"""


def loaded(text: str) -> Claims:
    """Claims from text, shown as c.yaml."""
    return load_claims(text, "c.yaml", quantity_of=quantity)


def test_promises_become_claimed_readings() -> None:
    claims = loaded(GOOD)
    rate, name, price, count = claims.readings
    assert (claims.provider, claims.offer) == ("Example Cloud", "eight cards")
    assert rate == Reading(
        quantity="gemm.bf16.rate",
        subject=CLUSTER,
        origin=Origin.CLAIMED,
        value=700e12,
        unit="FLOP/s",
        recipe=Recipe.of(shape="8192x8192x8192", load="all"),
        source="c.yaml:5",
    )
    assert claims.promises[0].note == "at full clock"
    assert (name.value, name.subject) == ("H100", Subject("gpu", "node01/3"))
    assert (price.value, price.unit, count.value, count.unit) == (20.0, "CNY/h", 8.0, "count")


@pytest.mark.parametrize(
    ("old", "new", "words", "line"),
    [
        ("value: 700", "vaule: 700", "did you mean 'value'", 6),
        ("700 TFLOP/s", "700", "has no unit", 6),
        ("700 TFLOP/s", "700 GB/s", "floating-point rate, dense is wanted", 6),
        ("700 TFLOP/s", "-700 TFLOP/s", "cannot be negative", 6),
        ("8}", "-8}", "cannot be negative", 11),
        ("8}", ".nan}", "not finite", 11),
        ("value: H100", "value: 100", "is text, not a number", 9),
        ("value: H100, ", "", "'value' is missing in promises", 9),
        ("gpu:node01/3", "link:a>b", "is about a gpu or rank", 9),
        ("gpu:node01/3", "gpu", "needs a name", 9),
        ("gpu.count, value: 8", "price.gpu_hour, value: 3 CNY/h", "stands twice, first at c.yaml:10", 11),
        ("provider: Example Cloud\n", "", "'provider' is missing", 1),
        ("price.gpu_hour", "price.gpuhour", "did you mean 'price.gpu_hour'", 10),
    ],
)
def test_what_is_wrong_in_claims_is_told_with_file_and_line(
    old: str, new: str, words: str, line: int
) -> None:
    assert old in GOOD
    with pytest.raises(InputError) as caught:
        loaded(GOOD.replace(old, new, 1))
    assert words in str(caught.value)
    assert caught.value.where == f"c.yaml:{line}"


@st.composite
def claims_records(draw: st.DrawFn) -> Claims:
    """Any claims that a file can state."""
    subjects = {
        "gemm.bf16.rate": "gpu:n/1",
        "peer.latency": "pair:a|b",
        "gpu.count": "node:n",
        "gpu.name": "rank:0",
    }
    promises = []
    for name in draw(st.lists(st.sampled_from(sorted(subjects)), min_size=1, unique=True)):
        known = quantity(name)
        reading = Reading(
            quantity=name,
            subject=draw(st.sampled_from([CLUSTER, Subject.parse(subjects[name])])),
            origin=Origin.CLAIMED,
            value=draw(some_words if known.unit == "text" else st.floats(0, 1e20)),
            unit=known.unit,
            recipe=Recipe.of(
                draw(st.dictionaries(st.sampled_from(["bytes", "ranks"]), st.integers(0, 2**60)))
            ),
        )
        promises.append(Promise(reading=reading, source=draw(words), note=draw(words)))
    return Claims(
        provider=draw(some_words),
        promises=tuple(promises),
        offer=draw(words),
        date=draw(words),
        currency=draw(words),
    )


@given(claims_records())
def test_claims_are_read_as_they_were_written(claims: Claims) -> None:
    again = loaded(dump_claims(claims))
    bare = tuple(replace(p, reading=replace(p.reading, source="")) for p in again.promises)
    assert replace(again, promises=bare) == claims
