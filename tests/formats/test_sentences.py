"""A vocabulary finds what a line says by its words; every sentence of every table can be met."""

from __future__ import annotations

import re

import pytest

from assay.formats import clock_text, kernel_log, nccl_log, node_text, torch_text
from assay.formats.sentences import Sentence, Vocabulary

TABLES = (clock_text, kernel_log, nccl_log, node_text, torch_text)


def test_a_line_may_state_several_facts() -> None:
    words = Vocabulary(
        [
            Sentence("a", "link", r"link (?P<n>\d+)"),
            Sentence("b", "down", "is down"),
            Sentence("c", "up", "up"),
        ]
    )
    assert dict(words.find("link 7 is down")) == {"a": {"n": "7"}, "b": {}}
    assert words.find("nothing here") == []


@pytest.mark.parametrize("table", TABLES, ids=lambda one: one.__name__.rpartition(".")[2])
def test_every_sentence_is_well_formed(table: object) -> None:
    for sentence in table.SENTENCES:  # type: ignore[attr-defined]
        re.compile(sentence.pattern)
        assert re.fullmatch(r"[A-Za-z][A-Za-z_0-9]+", sentence.word), f"{sentence.word!r} can never be met"
