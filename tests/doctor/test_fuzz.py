"""No input makes a traceback: whatever is read, the answer is a diagnosis or an error that says what is wrong."""

# ruff: noqa: E501  (lines of other programs stay whole)

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from case_files import cases, diagnosed
from hypothesis import given, settings
from hypothesis import strategies as st
from test_specifications import EXAMPLES

from assay.catalog.messages import Texts
from assay.doctor.diagnose import diagnose
from assay.doctor.facts import Facts
from assay.doctor.timeline import timeline
from assay.errors import AssayError
from assay.formats.blocks import Blocks
from assay.report.diagnosis import answer, plain_text

TEXTS = [text for case in cases() for _, text in case.texts()]
TEXTS += [text for example in EXAMPLES for _, text in example.files()]
LINES = sorted({line for text in TEXTS for line in text.splitlines()})
WORDS = st.sampled_from(
    [
        "NCCL",
        "INFO",
        "WARN",
        "h:1:2 [0]",
        "Channel 00/0 :",
        "0[0] -> 1[1]",
        "via NET/IB/0",
        "Xid (PCI:0000:1b:00):",
        "-1",
        "99999999999999999999999",
        "GPU 0:",
        "Link 0:",
        "<inactive>",
        "[rank0]:",
        "WorkNCCL(SeqNum=",
        "= ",
        ": ",
        "\t",
        "GB/s",
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 8",
        "0x",
        "∞",
        "\x1b[4m",
        "==(",
        "==>",
        "$ ulimit -l",
        "{",
        "}",
        "NaN",
    ]
)
KEYS = st.sampled_from(
    [
        "traceEvents",
        "ph",
        "cat",
        "name",
        "ts",
        "dur",
        "entries",
        "pg_config",
        "pg_status",
        "ranks",
        "rank",
        "version",
        "process_group",
        "collective_seq_id",
        "state",
        "frames",
        "input_sizes",
        "DCGM GPU Diagnostic",
        "test_categories",
        "tests",
        "results",
        "warnings",
        "distributedInfo",
        "X",
        "kernel",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | KEYS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)


def survives(name: str, content: list[str] | bytes) -> None:
    try:
        diagnosis = diagnose([(name, content)])
    except AssayError:
        return
    texts = Texts("en")
    json.dumps(answer(diagnosis, texts, assay_version="0"))
    assert plain_text(diagnosis, texts)
    timeline(diagnosis.facts)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(WORDS | st.text(max_size=12), max_size=8).map(" ".join), max_size=25))
def test_words_in_any_order(lines: list[str]) -> None:
    survives("x", [line + "\n" for line in lines])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_real_text_cut_spliced_and_damaged(text: str, data: st.DataObject) -> None:
    lines = text.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["cut", "drop", "double", "splice", "number"])):
            case "cut":
                lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
            case "drop":
                lines[at] = ""
            case "double":
                lines.insert(at, lines[at])
            case "splice":
                lines[at] = lines[at].strip() + data.draw(st.sampled_from(lines))
            case _:
                lines[at] = lines[at].replace(
                    "0", data.draw(st.sampled_from(["-", "9" * 30, "٣", "1e999", ""]))
                )
    survives("x", lines)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_json_and_any_plain_pickle(document: object) -> None:
    survives("x", [json.dumps(document)])
    survives("x", pickle.dumps(document))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_as_a_pickle(data: bytes) -> None:
    survives("x", b"\x80\x04" + data)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(TEXTS), min_size=2, max_size=5))
def test_files_of_different_jobs_together(texts: list[str]) -> None:
    diagnosis = diagnosed([(f"f{i}", text) for i, text in enumerate(texts)])
    assert plain_text(diagnosis, Texts("zh"))


def readers() -> list[type[Any]]:
    """Every reader of blocks, each with the sibling formats' lines to try it on."""
    return [type(one) for one in Blocks("x").all]


@pytest.mark.parametrize("reader", readers(), ids=lambda one: one.__name__)
def test_every_reader_takes_any_line_in_any_order(reader: type[Any]) -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.sampled_from(LINES) | st.lists(WORDS, max_size=6).map(" ".join), max_size=30))
    def feed(lines: list[str]) -> None:
        own = reader("x")
        for number, line in enumerate(lines, 1):
            assert isinstance(own.feed(line, number), bool)
        if hasattr(own, "finish"):
            own.finish()
        for record in own.records:
            Facts().add(record)

    feed()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(TEXTS),
    st.sampled_from([b"\x00", b"\xff\xfe", b"\x1b[", b"\xe2\x80\xa8", b"\r"]),
    st.integers(0, 4000),
)
def test_bytes_that_are_no_text(text: str, strange: bytes, at: int) -> None:
    data = text.encode()
    damaged = data[:at] + strange * 3 + data[at:]
    survives("x", damaged.decode("utf-8", "replace").splitlines(keepends=True))


def test_a_very_long_line_ends_soon() -> None:
    for start in ("h:1:2 [0] NCCL INFO ", "GPU 0: ", "# nThread 1 ", "[", "1 ", "|", "Channel 00/0 : "):
        survives("x", [start + "0 " * 200_000 + "\n"])
