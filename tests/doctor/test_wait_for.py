"""The wait-for graph names the rank that waits for nobody, over all groups of a job."""

from __future__ import annotations

import json
import pickle

import pytest
from case_files import DATA
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.doctor.diagnose import diagnose
from assay.doctor.wait_for import wait_for
from assay.formats.flight_recorder import Dump, Entry, read

GROUPS = {"tp0": (0, 1), "tp1": (2, 3), "dp0": (0, 2), "dp1": (1, 3), "world": (0, 1, 2, 3)}


def entry(
    group: str, seq: int, state: str = "completed", name: str = "nccl:all_reduce", sizes: str = "[[8]]"
) -> Entry:
    return Entry(
        group=group,
        seq=seq,
        p2p=False,
        name=name,
        sizes=sizes,
        dtypes="['Float']",
        state=state,
        created_s=float(seq),
        frame="step train.py:1",
    )


def dump(rank: int, *entries: Entry) -> Dump:
    groups = {name: (name, ranks) for name, ranks in GROUPS.items()}
    return Dump(file=f"r{rank}", line=1, rank=rank, host=None, groups=groups, status={}, entries=entries)


def test_the_root_is_found_through_two_groups() -> None:
    """3 sits in its loader; 2 waits for 3 in tp1, 0 for 2 in dp0, and 1 for 0 in tp0."""
    graph = wait_for(
        [
            dump(0, entry("tp0", 1), entry("dp0", 1, "started")),
            dump(1, entry("tp0", 1), entry("tp0", 2, "started")),
            dump(2, entry("tp1", 1), entry("tp1", 2, "started")),
            dump(3, entry("tp1", 1)),
        ]
    )
    assert graph.roots == (3,)
    assert graph.mismatch is None


def test_the_rank_that_calls_another_collective_is_odd() -> None:
    dumps = [dump(r, entry("world", 1), entry("world", 2, "started")) for r in (0, 1, 3)]
    odd = dump(2, entry("world", 1), entry("world", 2, "started", name="gloo:broadcast"))
    graph = wait_for([*dumps, odd])
    assert graph.mismatch is not None
    assert graph.mismatch.odd == (2,)
    assert graph.mismatch.what == "type"


def test_a_missing_dump_alone_makes_nobody_the_culprit() -> None:
    """2 left no dump, but 3 has one, waits for nobody, and 0 and 1 wait for it."""
    graph = wait_for(
        [
            dump(0, entry("world", 1), entry("world", 2, "started")),
            dump(1, entry("world", 1), entry("world", 2, "started")),
            dump(3, entry("world", 1)),
        ]
    )
    assert graph.roots == (3,)
    only = wait_for([dump(r, entry("world", 1), entry("world", 2, "started")) for r in (0, 1, 3)])
    assert only.absent == (2,)


def test_gloo_entries_without_a_state_count_by_being_retired() -> None:
    raw = {
        "version": "2.0",
        "pg_config": {"0": {"desc": "default", "ranks": "[0, 1]"}},
        "entries": [
            {
                "process_group": ["0", "default"],
                "collective_seq_id": s,
                "profiling_name": "gloo:all_reduce",
                "retired": True,
            }
            for s in (1, 2)
        ],
    }
    (first,) = read(raw | {"rank": 0}, "a")
    (second,) = read(raw | {"rank": 1, "entries": raw["entries"][:1]}, "b")  # type: ignore[index]
    assert wait_for([first, second]).roots == (1,)


def test_a_job_that_is_done_has_no_root() -> None:
    assert wait_for([dump(r, entry("world", 1)) for r in range(4)]).roots == ()


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.data())
def test_whoever_did_not_come_is_the_root(ranks: int, data: st.DataObject) -> None:
    late = data.draw(st.integers(0, ranks - 1))
    groups = {"world": ("world", tuple(range(ranks)))}
    dumps = [
        Dump(
            file=f"r{rank}",
            line=1,
            rank=rank,
            host=None,
            groups=groups,
            status={},
            entries=(entry("world", 1),)
            if rank == late
            else (entry("world", 1), entry("world", 2, "started")),
        )
        for rank in range(ranks)
    ]
    assert wait_for(data.draw(st.permutations(dumps))).roots == (late,)


def document(rank: int, last: int) -> dict[str, object]:
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
        "entries": [
            {
                "process_group": ("0", "default_pg"),
                "collective_seq_id": s,
                "profiling_name": "nccl:all_reduce",
                "input_sizes": [[4]],
                "output_sizes": [[4]],
                "state": "scheduled" if s == 3 else "completed",
                "is_p2p": False,
                "frames": [],
            }
            for s in range(last + 1)
        ],
        "rank": rank,
    }


@pytest.mark.parametrize("packed", [True, False], ids=["pickle", "json"])
def test_dumps_of_each_rank_name_the_rank_that_is_missing(packed: bool) -> None:
    files: list[tuple[str, list[str] | bytes]] = []
    for rank, last in ((0, 3), (1, 2), (2, 3)):
        raw = document(rank, last)
        files.append((f"dump{rank}", pickle.dumps(raw) if packed else [json.dumps(raw)]))
    diagnosis = diagnose(files)
    assert diagnosis.first is not None
    assert diagnosis.first.code == "APP_COLLECTIVE_DESYNC"
    assert str(diagnosis.first.subject) == "rank:1"


@pytest.mark.parametrize(
    ("job", "code", "rank"),
    [
        ("killed", "RANK_LOST", 3),
        ("stopped", "APP_COLLECTIVE_DESYNC", 3),
        ("odd", "APP_COLLECTIVE_DESYNC", 2),
    ],
)
def test_the_rank_of_a_real_gloo_job_is_named_and_no_other(job: str, code: str, rank: int) -> None:
    files = [(p.name, [p.read_text()]) for p in sorted((DATA / "recorder" / job).iterdir())]
    diagnosis = diagnose(files)
    assert diagnosis.first is not None
    assert diagnosis.first.code == code
    assert {str(f.subject) for f in diagnosis.findings} == {f"rank:{rank}"}


def test_a_rank_that_says_that_it_waited_is_not_the_root() -> None:
    ahead = (entry("world", 1), entry("world", 2, "started"))
    dumps = [dump(r, entry("world", 1)) if r < 2 else dump(r, *ahead) for r in range(4)]
    assert wait_for(dumps).roots == (0, 1)
    assert wait_for(dumps, waiting=[1]).roots == (0,)


def p2p(name: str, seq: int, state: str = "completed") -> Entry:
    return entry("world", seq, state, name=name)._replace(p2p=True)


def test_a_pipeline_is_followed_to_the_stage_that_sends_nothing() -> None:
    """0 computes; 1 waits to receive from 0, 2 from 1, 3 from 2."""
    dumps = [
        dump(0, entry("world", 1), p2p("nccl:send 0->1", 1)),
        dump(1, p2p("nccl:recv 1<-0", 1), p2p("nccl:send 1->2", 2), p2p("nccl:recv 1<-0", 3, "started")),
        dump(2, p2p("nccl:recv 2<-1", 1), p2p("nccl:recv 2<-1", 2, "started")),
        dump(3, p2p("nccl:recv 3<-2", 1, "started")),
    ]
    assert wait_for(dumps).roots == (0,)
