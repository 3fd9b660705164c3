"""Many large documents are read by several processes, with the same answer as by one."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

import assay.api.reading as reading
from assay.doctor.diagnose import diagnose
from assay.store.bundle import read_artefacts

RANKS, ENTRIES = 4, 400


def dump(rank: int) -> str:
    last = ENTRIES - (rank == 2)
    entries = [
        {
            "process_group": ["0", "default_pg"],
            "collective_seq_id": seq,
            "profiling_name": "nccl:all_reduce",
            "input_sizes": [[1024, seq]],
            "output_sizes": [[1024, seq]],
            "input_dtypes": ["Float"],
            "state": "scheduled" if seq == ENTRIES - 1 else "completed",
            "time_created_ns": seq,
            "is_p2p": False,
            "frames": [{"name": "step", "filename": "train.py", "line": 7}],
        }
        for seq in range(last)
    ]
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(RANKS)))}}
    return json.dumps({"version": "2.10", "rank": rank, "pg_config": groups, "entries": entries})


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="optional: needs two processors")
def test_processes_give_the_answer_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(RANKS):
        (tmp_path / f"{rank}.json").write_text(dump(rank))
    (tmp_path / "broken.json").write_text('{"entries": [' + "1," * 100_000)
    (tmp_path / "note.txt").write_text("[ 1.0] NVRM: Xid (PCI:0000:9b:00): 31, pid=1, name=a, MMU Fault\n")
    monkeypatch.setattr(reading, "_HEAVY_BYTES", 1000)
    monkeypatch.setattr(reading, "_WORTH_BYTES", 1000)
    given = [str(tmp_path)]
    artefacts = list(reading.read_given(given, io.BytesIO()))
    assert sum(isinstance(one, reading.Read) for one in artefacts) == RANKS + 1
    many = diagnose(reading.read_given(given, io.BytesIO()))
    alone = diagnose(read_artefacts(given, io.BytesIO()))
    assert many.findings == alone.findings
    assert [(r.file, r.kinds, r.problem) for r in many.readings] == [
        (r.file, r.kinds, r.problem) for r in alone.readings
    ]
