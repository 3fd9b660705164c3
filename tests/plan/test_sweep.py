"""A sweep gives every row of its grid, goes on where it was stopped, and outlives a killed worker."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import pytest

from assay.api.sweeping import do_piece, sweep
from assay.codec.sweep import load_sweep
from assay.errors import InputError
from assay.plan.sweep import AXES, RESULTS, pieces, points

GRID = """\
schema: 1
grid:
  cluster: [dgx-h100]
  nodes: [1, 2]
  workload: [llama-3.1-8b]
  layout: ["tp=2", "tp=3", best]
  global_batch: [64]
  tokens: [1e11]
"""


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    file = tmp_path / "grid.yaml"
    file.write_text(GRID)
    return file


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of the grid by two workers, of which one is killed; the next tests compare with it."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "grid.yaml").write_text(GRID)
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        # After the first piece a real worker of the pool is killed, whatever it is doing.
        workers = [child.pid for child in multiprocessing.active_children() if child.pid]
        if done and not killed and workers:
            os.kill(workers[0], signal.SIGKILL)
            killed.append(workers[0])

    done = sweep(folder / "grid.yaml", folder / "rows.csv", workers=2, piece=1, progress=kill)
    assert killed
    assert done.workers_lost >= 1
    return done.file


def test_a_killed_worker_loses_nothing(whole: Path) -> None:
    rows = rows_of(whole)
    alone = [
        row
        for piece in pieces(points(load_sweep(GRID, "grid.yaml").axes), 6)
        for row in do_piece(piece.points)
    ]
    assert len(rows) == len(alone) == 6
    for row, wanted in zip(rows, alone, strict=True):
        assert row == {name: "" if value is None else str(value) for name, value in wanted.items()}


def test_every_combination_is_a_row_and_what_fails_says_why(whole: Path) -> None:
    rows = rows_of(whole)
    assert list(rows[0]) == [*AXES, *RESULTS]
    assert [(row["nodes"], row["layout"]) for row in rows] == [
        (n, layout) for n in ("1", "2") for layout in ("tp=2", "tp=3", "best")
    ]
    assert [bool(row["error"]) for row in rows] == [False, True, False] * 2
    assert "does not divide" in rows[1]["error"]
    assert float(rows[2]["step_time_s"]) <= float(rows[0]["step_time_s"])
    assert float(rows[0]["days_with_failures"]) > float(rows[0]["days"])


def test_a_stopped_sweep_goes_on_and_does_no_piece_twice(grid: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done >= 3:
            raise Stop

    with pytest.raises(Stop):
        sweep(grid, out, workers=1, piece=1, progress=stop)
    assert not out.exists()
    # A part that was cut off is done again.
    parts = sorted((tmp_path / "rows.csv.parts").iterdir())
    parts[0].write_text(parts[0].read_text()[:40])
    done = sweep(grid, out, workers=1, piece=1)
    assert (done.done_before, done.rows) == (len(parts) - 1, 6)
    assert rows_of(out) == rows_of(whole)
    assert sweep(grid, out, piece=1).done_before == 6


def test_a_dask_scheduler_gives_the_same_rows(grid: Path, whole: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="optional: Dask is not installed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        done = sweep(grid, tmp_path / "dask.csv", scheduler=cluster.scheduler_address)
    assert (done.rows, done.errors, done.workers_lost) == (6, 2, 0)
    assert rows_of(done.file) == rows_of(whole)


def test_parquet_holds_the_same_rows(grid: Path, whole: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="optional: pyarrow is not installed")
    shutil.copytree(whole.with_name("rows.csv.parts"), tmp_path / "rows.parquet.parts")
    done = sweep(grid, tmp_path / "rows.parquet", piece=1)
    table = parquet.read_table(done.file)
    assert done.done_before == 6
    assert table.num_rows == 6
    assert table.column_names == [*AXES, *RESULTS]
    assert table.column("error").null_count == 4


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("nodes: [1, 2]", "nodse: [1, 2]", "'nodes'"),
        ("nodes: [1, 2]", "nodes: [one]", "nodes"),
        ("nodes: [1, 2]", "nodes: []", "at least one nodes"),
        ("schema: 1\n", "", "schema"),
    ],
)
def test_a_fault_in_a_sweep_file_says_where(tmp_path: Path, old: str, new: str, word: str) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text(GRID.replace(old, new))
    with pytest.raises(InputError) as fault:
        sweep(file, tmp_path / "rows.csv")
    assert word in str(fault.value)


def test_what_cannot_be_written_or_reached_is_told_before_anything_is_done(
    grid: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"neither \.csv nor \.parquet"):
        sweep(grid, tmp_path / "rows.xlsx")
    assert not (tmp_path / "rows.xlsx.parts").exists()


def test_pieces_are_named_by_what_they_ask() -> None:
    axes: dict[str, list[object]] = {"cluster": ["a"], "nodes": [1, 2, 3], "workload": ["w"]}
    some = pieces(points(axes), 2)
    assert [len(one.points) for one in some] == [2, 1]
    assert [one.key for one in some] == [one.key for one in pieces(points(axes), 2)]
    assert len({one.key for one in pieces(points(axes), 1)}) == 3
    assert json.loads(json.dumps(do_piece([]))) == []
