"""A generated run of several nodes through the whole command: each fault once, at its level."""

from __future__ import annotations

from collections import Counter

import pytest

from assay.store.generate import main
from commands import assay

SHAPE = ("--nodes", "16", "--gpus", "2", "--pairs", "all", "--restarts", "5", "--seed", "2")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), []),
        (("--plant", "node:node05:peer.bandwidth:-30%"), [("NODE_SLOW", "node:node05")]),
        (
            ("--cohort", "leaf:leaf1@4-7", "--plant", "nodes:4-7:peer.bandwidth:-30%"),
            [("LEAF_SLOW", "group:leaf1")],
        ),
        (
            ("--cohort", "firmware:28.39@0-7", "--plant", "nodes:0-7:gemm.bf16.rate:-6%"),
            [("COHORTS_DIFFER", "cluster")],
        ),
    ],
)
def test_a_fault_is_told_once_and_health_is_said(tmp_path, words, expected):
    assert main([str(tmp_path / "run"), *SHAPE, *words]) == 0
    answer = assay("judge", tmp_path / "run", "--json").json
    assert [(f["code"], f["subject"]) for f in answer["findings"]] == expected
    said = Counter("none odd" in note for note in answer["notes"])
    assert said[True] == (not expected)


@pytest.mark.parametrize(
    ("plants", "expected"),
    [
        ((), []),
        (("group:leaf1:leaf.*:-20%",), [("LEAF_SLOW", "group:leaf1")]),
    ],
)
def test_a_leaf_that_is_slow_among_its_own_nodes(tmp_path, plants, expected):
    shape = ("--nodes", "48", "--gpus", "1", "--pairs", "rails", "--restarts", "3")
    words = [word for plant in plants for word in ("--plant", plant)]
    assert main([str(tmp_path / "run"), *shape, *words]) == 0
    answer = assay("judge", tmp_path / "run", "--json").json
    assert [(f["code"], f["subject"]) for f in answer["findings"]] == expected
