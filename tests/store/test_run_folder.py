import json
from pathlib import Path

import pytest

from assay.codec.lines import Header, encode
from assay.domain.event import Event
from assay.domain.fact import Fact
from assay.domain.reading import Origin, Reading, SampleRef
from assay.domain.recipe import Recipe
from assay.domain.subject import Subject
from assay.errors import RunError
from assay.store.append import LineFile, SampleFile
from assay.store.run import (
    Manifest,
    create_run,
    line_file,
    open_run,
    read_manifest,
    sample_file,
    samples,
)
from assay.store.seal import check_seal, seal

MANIFEST = Manifest(
    run="20261130T091500-3f2a9c",
    created_s=1.5,
    assay_version="0.1",
    command=("assay", "measure"),
    suite="quick",
    only=("gemm",),
    ranks=2,
    hosts=("h1",),
    restarts=3,
    seed=1,
    backend="gloo",
)
RANK0 = line_file(0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of two ranks with a reading, a fact and an event."""
    folder = create_run(tmp_path / "run", MANIFEST)
    kept = SampleFile(folder / sample_file(0), sample_file(0))
    kept.append([9.0])
    offset, count = kept.append([1.0, 2.0, 3.0])
    kept.close()
    rank = Subject("rank", "0")
    records = (
        Header(run=MANIFEST.run, rank=0),
        Reading(
            quantity="gemm.bf16.rate",
            subject=rank,
            origin=Origin.MEASURED,
            value=2.0,
            unit="FLOP/s",
            recipe=Recipe.of(shape="8x8x8"),
            samples=SampleRef(file=sample_file(0), offset=offset, count=count, unit="s"),
        ),
        Fact(key="host.name", subject=Subject("node", "h1"), value="h1", unit="text"),
        Event(kind="task_done", time_s=2.0, subject=rank),
    )
    for name, part in ((RANK0, records), (line_file(1), (Header(run=MANIFEST.run, rank=1),))):
        file = LineFile(folder / name)
        for record in part:
            file.append(encode(record))
        file.close()
    return folder


def test_a_run_is_read_as_it_was_written(run: Path) -> None:
    opened = open_run(run)
    assert opened.manifest == MANIFEST == read_manifest(run)
    assert [r.value for r in opened.readings] == [2.0]
    assert opened.readings[0].source == f"{run / RANK0}:2"
    assert [f.key for f in opened.facts] == ["host.name"]
    assert [e.kind for e in opened.events] == ["task_done"]
    assert opened.torn == ()


def test_samples_come_from_where_the_reading_says(run: Path) -> None:
    opened = open_run(run)
    ref = opened.readings[0].samples
    assert ref is not None
    assert samples(opened, ref).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("file", "offset", "words"),
    [
        (sample_file(0), 3, "1 are there"),
        ("samples/none.f64", 0, "cannot read"),
        ("../elsewhere.f64", 0, "outside the run"),
    ],
)
def test_samples_that_are_not_there_are_told(run: Path, file: str, offset: int, words: str) -> None:
    with pytest.raises(RunError, match=words):
        samples(open_run(run), SampleRef(file=file, offset=offset, count=3, unit="s"))


def test_a_folder_with_another_run_is_refused_and_left_alone(run: Path) -> None:
    before = (run / "run.json").read_bytes()
    with pytest.raises(RunError, match="holds another run") as caught:
        create_run(run, MANIFEST)
    assert "--resume" in str(caught.value)
    assert "--out" in str(caught.value)
    assert (run / "run.json").read_bytes() == before


def test_a_folder_with_anything_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(RunError, match="not empty"):
        create_run(tmp_path, MANIFEST)
    with pytest.raises(RunError, match=r"not empty|cannot make"):
        create_run(tmp_path / "thesis.txt", MANIFEST)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["thesis.txt"]


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert create_run(tmp_path, MANIFEST) == tmp_path


def test_a_cut_off_line_is_an_error_that_says_how_to_go_on(run: Path) -> None:
    _append(run / RANK0, '{"type": "reading", "quan')
    with pytest.raises(RunError, match="cut off") as caught:
        open_run(run)
    assert caught.value.where == f"{run / RANK0}:5"
    assert f"assay qualify --resume {run}" in str(caught.value)
    assert "--partial" in str(caught.value)


def test_a_partial_run_counts_what_was_cut_off(run: Path) -> None:
    # Even a last line that looks whole was cut off when its newline is not there.
    _append(run / RANK0, json.dumps({"type": "header", "schema_version": 1, "run": MANIFEST.run, "rank": 0}))
    _append(run / line_file(1), "{")
    opened = open_run(run, partial=True)
    assert opened.torn == (f"{run / RANK0}:5", f"{run / line_file(1)}:2")
    assert len(opened.readings) == 1


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[]", "an object is wanted"),
        ('{"type": "readin"}', "unknown type of line"),
        ('{"type": "fact", "key": "a", "subject": "rank:0", "value": NaN, "unit": "1"}', "NaN"),
        ("\0\0\0", "not JSON"),
    ],
)
def test_a_bad_line_is_always_an_error(run: Path, bad: str, words: str, partial: bool) -> None:
    _append(run / RANK0, bad + "\n" + '{"type": "fact"')
    with pytest.raises(RunError, match=words) as caught:
        open_run(run, partial=partial)
    assert caught.value.where == f"{run / RANK0}:5"
    assert caught.value.fix


def test_bytes_that_are_no_text_are_told_with_their_line(run: Path) -> None:
    with open(run / RANK0, "ab") as file:
        file.write(b'{"type": "\xff"}\n')
    with pytest.raises(RunError, match="UTF-8") as caught:
        open_run(run)
    assert caught.value.where == f"{run / RANK0}:5"


def test_a_file_of_another_run_is_refused(run: Path) -> None:
    (run / line_file(1)).write_text(json.dumps(encode(Header(run="other", rank=1))) + "\n")
    with pytest.raises(RunError, match="belongs to run other"):
        open_run(run)


def test_a_file_under_another_ranks_name_is_refused(run: Path) -> None:
    (run / line_file(1)).write_bytes((run / RANK0).read_bytes())
    with pytest.raises(RunError, match="was written as rank-0000"):
        open_run(run)


def test_a_rank_that_the_run_does_not_have_is_refused(run: Path) -> None:
    (run / line_file(2)).write_text("")
    with pytest.raises(RunError, match="ranks 0 … 1"):
        open_run(run)


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(RunError, match="not a run folder"):
            open_run(place)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema_version": 2}, "schema_version is 2"),
        ({"rnks": 2}, "did you mean 'ranks'"),
        ({"ranks": "2"}, "'ranks' is text"),
        ({"ranks": 0}, "0 ranks"),
        ({"hosts": [1]}, "a list of text"),
        ({"run": ""}, "needs an id"),
    ],
)
def test_a_wrong_manifest_is_told(run: Path, change: dict[str, object], words: str) -> None:
    data = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(data | change))
    with pytest.raises(RunError, match=words) as caught:
        open_run(run)
    assert caught.value.where == f"{run / 'run.json'}:1"


def test_a_manifest_without_a_key_is_told(run: Path) -> None:
    data = json.loads((run / "run.json").read_text())
    del data["seed"]
    (run / "run.json").write_text(json.dumps(data))
    with pytest.raises(RunError, match="'seed' missing"):
        open_run(run)


def test_a_seal_holds_while_nothing_changes_and_ignores_what_is_made_from_the_run(run: Path) -> None:
    whole = seal(run)
    (run / "verdict.json").write_text("{}")
    assert check_seal(run) == whole == seal(run)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (RANK0, "x", "rank-0000.jsonl was changed"),
        (sample_file(0), "x", "samples/rank-0000.f64 was changed"),
        ("agent.jsonl", "x", "agent.jsonl was added"),
        (line_file(1), None, "rank-0001.jsonl is gone"),
    ],
)
def test_a_broken_seal_names_what_changed(run: Path, name: str, content: str | None, words: str) -> None:
    seal(run)
    if content is None:
        (run / name).unlink()
    else:
        _append(run / name, content)
    with pytest.raises(RunError, match=words):
        check_seal(run)


def test_a_run_without_a_seal_did_not_end(run: Path) -> None:
    with pytest.raises(RunError, match="not sealed"):
        check_seal(run)


def _append(file: Path, text: str) -> None:
    with open(file, "a", encoding="utf-8") as out:
        out.write(text)
