"""Files are known by what they say, and no file makes anything but an AssayError."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from format_samples import DATA, sample
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import AssayError, InputError
from assay.formats import recognise as registry
from assay.formats.recognise import file_format, formats, parse, recognise

KINDS = {
    "nccl_allreduce.log": "nccl-tests",
    "nccl_alltoall.log": "nccl-tests",
    "nccl_broadcast.log": "nccl-tests",
    "nccl_2.19_per_iter_mpirun.log": "nccl-tests",
    "nccl_2.19.json": "nccl-tests-json",
    "fio_randread.json": "fio",
    "fio_jobfile.json": "fio",
    "fio_failed.json": "fio",
    "nvbandwidth_results.log": "nvbandwidth",
    "nvbandwidth_noise.json": "nvbandwidth-json",
    "nvbandwidth_error.json": "nvbandwidth-json",
    "ib_loopback_8M_size.log": "perftest",
    "ib_loopback_all_sizes.log": "perftest",
    "ib_write_lat.txt": "perftest",
    "ib_read_bw_gbits_duration.txt": "perftest",
    "gemm_mamf.csv": "gemm-table",
}


def test_every_sample_has_its_origin_and_its_kind():
    files = {path.name for path in DATA.iterdir()} - {"ORIGINS.md"}
    origins = (DATA / "ORIGINS.md").read_text(encoding="utf-8")
    assert files == set(KINDS)
    assert [name for name in files if f"`{name}`" not in origins] == []


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_file_is_known_by_its_content_and_to_one_format_only(name: str, kind: str):
    lines = sample(name)
    assert recognise(lines) == kind
    assert [known.name for known in formats().values() if known.recognise(lines)] == [kind]
    for record in parse(lines, "data"):
        assert record.tool in ("nccl-tests", "fio", "nvbandwidth", "perftest", "gemm-table")  # type: ignore[attr-defined]


@pytest.mark.parametrize("lines", [[], [""], ["hello", "world"], ["{", "}"], ["a,b", "1,2"], ["#bytes"]])
def test_an_unknown_file_is_none_and_parsing_it_says_what_is_known(lines: list[str]):
    assert recognise(lines) is None
    with pytest.raises(InputError, match="no known tool") as caught:
        parse(lines, "x.log")
    assert "nccl-tests" in str(caught.value)


def test_an_unknown_kind_suggests():
    with pytest.raises(InputError, match=r"unknown file format 'ncl-tests'[\s\S]*did you mean 'nccl-tests'"):
        parse(["x"], "x.log", kind="ncl-tests")


def test_a_plug_in_adds_a_format_with_the_decorator(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_FORMATS", formats())

    @file_format("site-log", "our own log", lambda head: head[:1] == ("SITE 1",))
    def parse_site(lines: Iterable[str], name: str) -> tuple[object, ...]:
        return (f"{name}: {len(list(lines))}",)

    assert recognise(["SITE 1"]) == "site-log"
    assert parse(["SITE 1", "x"], "a") == ("a: 2",)
    with pytest.raises(InputError, match="registered twice"):
        file_format("site-log", "again", lambda head: False)(parse_site)


def only_our_errors(lines: list[str], kind: str | None = None) -> None:
    found: tuple[object, ...] | AssayError
    try:
        found = parse(lines, "fuzz", kind=kind)
    except AssayError as error:
        found = error
    if isinstance(found, AssayError):
        assert found.what
        assert found.where is not None
        assert found.where.startswith("fuzz:")
    else:
        assert found


PIECES = st.sampled_from(
    [
        "N/A",
        "nan",
        "1e999",
        "-1",
        "0",
        "9" * 5000,
        "{",
        "}",
        '"',
        "[1,0]<stdout>:",
        "#",
        ",",
        "\t",
        "null",
        "true",
        "٣",
        "\x00",
    ]
)


@given(data=st.data(), name=st.sampled_from(sorted(KINDS)))
def test_a_damaged_file_ends_in_a_record_or_in_our_error(data: st.DataObject, name: str):
    lines = sample(name)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        cut = data.draw(st.integers(0, len(line)))
        how = data.draw(st.sampled_from(["drop", "double", "cut", "insert", "replace", "end"]))
        if how == "drop":
            lines[at : at + 1] = ["" if len(lines) == 1 else lines[at - 1]]
        elif how == "double":
            lines.insert(at, line)
        elif how == "cut":
            lines[at] = line[:cut]
        elif how == "insert":
            lines[at] = line[:cut] + data.draw(PIECES) + line[cut:]
        elif how == "replace":
            words = line.split(" ")
            words[data.draw(st.integers(0, len(words) - 1))] = data.draw(PIECES | st.text(max_size=5))
            lines[at] = " ".join(words)
        else:
            lines = lines[: at + 1]
    only_our_errors(lines, KINDS[name])


@given(
    st.lists(st.text(max_size=40) | PIECES, max_size=12),
    st.sampled_from([None, *sorted(set(KINDS.values()))]),
)
def test_any_text_ends_in_a_record_or_in_our_error(lines: list[str], kind: str | None):
    only_our_errors(lines, kind)


NESTED = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data(), name=st.sampled_from([name for name in sorted(KINDS) if name.endswith(".json")]))
def test_any_value_at_any_place_of_the_json_ends_in_a_record_or_in_our_error(data: st.DataObject, name: str):
    text = "\n".join(sample(name))
    root = json.JSONDecoder().raw_decode(text[text.index("\n{") + 1 if not text.startswith("{") else 0 :])[0]
    node = root
    for _ in range(data.draw(st.integers(0, 5))):
        inner = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not inner:
            break
        key = data.draw(st.sampled_from(inner))
        if not isinstance(node[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            node[key] = data.draw(NESTED)
            break
        node = node[key]
    only_our_errors(json.dumps(root, indent=1).splitlines(), KINDS[name])


def test_absurd_nesting_is_our_error():
    only_our_errors(["{" + '"a":[' * 100_000], "fio")
