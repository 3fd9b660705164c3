"""Pickles of strangers build nothing but plain data."""

from __future__ import annotations

import os
import pickle

import pytest

from assay.errors import InputError
from assay.formats.flight_recorder import is_dump, load_pickle, read


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("echo harm",)


@pytest.mark.parametrize(
    "data", [pickle.dumps(Evil()), pickle.dumps(pytest.raises), b"\x80\x04junk", b"\x80\x05"]
)
def test_what_is_not_plain_data_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="safe to read"):
        load_pickle(data, "dump")


def test_plain_data_comes_through() -> None:
    raw = {"version": "2.4", "pg_config": {}, "entries": [{"collective_seq_id": 1, "state": "completed"}]}
    assert load_pickle(pickle.dumps(raw), "dump") == raw
    assert is_dump(raw)
    (dump,) = read(raw, "nccl_trace_rank_17")
    assert dump.rank == 17
    assert dump.entries[0].state == "completed"


@pytest.mark.parametrize("raw", [None, 3, [], {}, {"entries": 5}, {"entries": [], "x": 1}, [{"a": 1}]])
def test_other_documents_are_no_dumps(raw: object) -> None:
    assert not is_dump(raw)


def test_damaged_entries_are_passed_over() -> None:
    raw = {"version": "2", "entries": [None, 4, {"process_group": 7, "frames": "x", "time_created_ns": "y"}]}
    (dump,) = read(raw, "d0")
    assert len(dump.entries) == 1
    assert dump.entries[0].frame == ""
