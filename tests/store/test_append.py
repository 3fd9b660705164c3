import json
import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from assay.errors import MeasurementError
from assay.store.append import LineFile, SampleFile, set_aside_torn_tail, torn_tail


def test_each_append_adds_one_whole_line(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "rank-0000.jsonl")
    file.append({"type": "fact", "value": "µ\n"})
    file.append({"n": 2})
    file.sync()
    lines = (tmp_path / "rank-0000.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [{"type": "fact", "value": "µ\n"}, {"n": 2}]
    assert torn_tail(tmp_path / "rank-0000.jsonl") == 0
    file.close()


def test_a_second_writer_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    for n in range(2):
        file = LineFile(tmp_path / "a.jsonl")
        file.append({"n": n})
        file.close()
    assert (tmp_path / "a.jsonl").read_text() == '{"n": 0}\n{"n": 1}\n'


def test_a_value_that_is_no_json_is_refused_and_nothing_written(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a.jsonl")
    with pytest.raises(MeasurementError, match="nan"):
        file.append({"value": float("nan")})
    assert (tmp_path / "a.jsonl").read_bytes() == b""
    file.close()


def test_samples_are_little_endian_and_counted_in_items(tmp_path: Path) -> None:
    file = SampleFile(tmp_path / "samples" / "rank-0000.f64", "samples/rank-0000.f64")
    assert file.append([1.0, 2.0]) == (0, 2)
    assert file.append(iter([3.5])) == (2, 1)
    file.sync()
    file.close()
    assert np.fromfile(file.path, dtype="<f8").tolist() == [1.0, 2.0, 3.5]


def test_half_a_sample_that_a_killed_writer_left_does_not_shift_later_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.f64"
    path.write_bytes(np.array([1.0]).tobytes() + b"abc")
    file = SampleFile(path, "a.f64")
    assert file.append([2.0]) == (1, 1)
    file.close()
    assert np.fromfile(path, dtype="<f8").tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("content", "bytes_torn"),
    [(b"", 0), (b"a\n", 0), (b"a\nbc", 2), (b"abc", 3), (b"\n" + b"x" * 70_000, 70_000)],
)
def test_the_torn_tail_is_what_follows_the_last_newline(
    tmp_path: Path, content: bytes, bytes_torn: int
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    assert torn_tail(path) == bytes_torn


def test_a_torn_tail_is_set_aside_and_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n"')
    assert torn_tail(tmp_path / "none") == 0
    assert set_aside_torn_tail(path, tmp_path / "torn" / "a") == 4
    assert set_aside_torn_tail(path, tmp_path / "torn" / "a") == 0
    assert path.read_bytes() == b'{"n": 1}\n'
    assert (tmp_path / "torn" / "a").read_bytes() == b'{"n"\n'


def test_appending_to_a_cut_off_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"n"')
    with pytest.raises(MeasurementError, match="cut off"):
        LineFile(tmp_path / "a.jsonl")


def test_a_line_that_does_not_fit_is_taken_back_and_the_error_names_path_and_cause(tmp_path: Path) -> None:
    # A limit on the size of a file makes write(2) come up short and then fail, as a full disk does.
    code = f"""
        import resource, signal
        from assay.errors import MeasurementError
        from assay.store.append import LineFile
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
        file = LineFile({str(tmp_path / "a.jsonl")!r})
        file.append({{"text": "x" * 10}})
        try:
            file.append({{"text": "y" * 100}})
        except MeasurementError as fault:
            print(fault)
        file.append({{"n": 2}})
    """
    assert hasattr(resource, "RLIMIT_FSIZE")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=True
    )
    assert str(tmp_path / "a.jsonl") in done.stdout
    assert "File too large" in done.stdout
    assert (tmp_path / "a.jsonl").read_text() == '{"text": "xxxxxxxxxx"}\n{"n": 2}\n'


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MeasurementError, match=r"cannot read .*Not a directory"):
        LineFile(tmp_path / "file" / "a.jsonl")


def test_the_worker_needs_nothing_but_the_standard_library() -> None:
    code = "import sys, assay.store.append; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=os.environ
    )
    loaded = {module.partition(".")[0] for module in done.stdout.split()}
    assert loaded & {"numpy", "pydantic", "ruamel", "torch"} == set()
    assert "assay.store.append" in done.stdout
