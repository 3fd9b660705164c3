"""Hypothesis strategies of the records that are written to files."""

from __future__ import annotations

from hypothesis import strategies as st

from assay.domain.attestation import TOLD, WAYS, Attestation, Calls, Counted, Told
from assay.domain.event import Event
from assay.domain.fact import Fact
from assay.domain.reading import Origin, Reading, SampleRef
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.units import BASE_UNITS

finite = st.floats(allow_nan=False, allow_infinity=False)
#: Text of any language, without surrogates, which no file can hold.
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
names = st.text("abcdefghij0123456789-_", min_size=1, max_size=8)
some_words = words.filter(bool)
base_units = st.sampled_from(sorted(set(BASE_UNITS) - {"text"}))

subjects = st.one_of(
    st.just(Subject("cluster")),
    st.builds(Subject, st.sampled_from(["rank", "node", "gpu", "port", "group"]), names),
    st.builds(lambda a, b: Subject("pair", f"{a}|{b}"), names, names),
    st.builds(lambda a, b: Subject("link", f"{a}>{b}"), names, names),
)
recipes = st.dictionaries(names, st.one_of(words, st.integers(), finite, st.booleans()), max_size=4).map(
    Recipe.of
)
sample_refs = st.builds(
    SampleRef, file=names, offset=st.integers(0, 10**9), count=st.integers(0, 10**6), unit=base_units
)


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    """Any reading, with a source."""
    ends = draw(st.one_of(st.none(), st.tuples(finite, finite).map(sorted)))
    value, unit, reason = draw(_values())
    return Reading(
        quantity=draw(names),
        subject=draw(subjects),
        origin=draw(st.sampled_from(Origin)),
        value=value,
        unit=unit,
        recipe=draw(recipes),
        low=ends and ends[0],
        high=ends and ends[1],
        n=draw(st.none() | st.integers(0, 10**6)),
        replicate=draw(st.none() | st.integers(0, 99)),
        cpu_share_frac=draw(st.none() | finite),
        reason=reason,
        samples=draw(st.none() | sample_refs),
        source=draw(some_words),
        time_s=draw(st.none() | finite),
    )


@st.composite
def facts(draw: st.DrawFn) -> Fact:
    """Any fact, with a source."""
    value, unit, reason = draw(_values())
    return Fact(
        key=draw(names),
        subject=draw(subjects),
        value=value,
        unit=unit,
        reason=reason,
        source=draw(some_words),
    )


events = st.builds(
    Event,
    kind=names,
    time_s=finite,
    subject=subjects,
    text=words,
    details=st.dictionaries(names, st.one_of(words, st.integers(), finite, st.none()), max_size=3),
    source=some_words,
)


@st.composite
def _values(draw: st.DrawFn) -> tuple[float | str | None, str, str | None]:
    kind = draw(st.sampled_from(["number", "text", "none"]))
    if kind == "number":
        return draw(finite | st.integers(-(10**15), 10**15)), draw(base_units), None
    if kind == "text":
        return draw(words), "text", None
    return None, draw(base_units), draw(some_words)


_told = st.one_of(
    st.builds(Told, value=words, source=words), st.builds(Told, value=st.none(), reason=some_words)
)
_counts = st.integers(1, 64)


@st.composite
def _calls(draw: st.DrawFn) -> Calls:
    ranks = draw(_counts)
    return Calls(
        op=draw(names),
        bytes=draw(st.integers(0, 10**12)),
        ranks=ranks,
        nodes=draw(st.integers(1, ranks)),
        here=draw(st.integers(1, ranks)),
        count=draw(_counts),
    )


_counted = st.one_of(
    st.builds(Counted, over=st.sampled_from(WAYS), device=names, bytes=st.floats(0, 1e18), source=words),
    st.builds(Counted, over=st.sampled_from(WAYS), device=names, bytes=st.none(), reason=some_words),
)
attestations = st.builds(
    Attestation,
    benchmark=names,
    replicate=st.integers(0, 99),
    rank=st.integers(0, 9999),
    host=names,
    transport=names,
    **dict.fromkeys(TOLD, _told),
    calls=st.lists(_calls(), max_size=3).map(tuple),
    counted=st.lists(_counted, max_size=3).map(tuple),
    rails=st.dictionaries(names, st.integers(0, 64), max_size=3).map(lambda d: tuple(d.items())),
    source=some_words,
)
