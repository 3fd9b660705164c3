from pathlib import Path

import numpy as np
import pytest

from assay.catalog.quantities import quantity
from assay.domain.quantity import SUBJECTS_OF
from assay.domain.reading import Reading
from assay.errors import EXIT_USAGE
from assay.store.generate import main
from assay.store.run import Run, open_run, samples
from assay.store.seal import check_seal

SMALL = ["--nodes", "2", "--gpus", "2", "--restarts", "3", "--pairs", "all"]


def generated(folder: Path, *words: str) -> Run:
    """A small run made by the command line."""
    assert main([str(folder), *SMALL, *words]) == 0
    return open_run(folder)


def values(run: Run, quantity_id: str, subject: str) -> list[float]:
    """Values of a quantity for a subject over all restarts."""
    return [
        r.number
        for r in run.readings
        if r.quantity == quantity_id and str(r.subject) == subject and r.number is not None
    ]


def test_the_same_arguments_give_the_same_bytes_in_another_place(tmp_path: Path) -> None:
    for name in ("a", "b"):
        generated(tmp_path / name, "--seed", "7", "--plant", "gpu:node01/1:gemm.bf16.rate:-5%")
    assert _content(tmp_path / "a") == _content(tmp_path / "b")


def test_another_seed_gives_another_run(tmp_path: Path) -> None:
    one, two = generated(tmp_path / "a", "--seed", "1"), generated(tmp_path / "b", "--seed", "2")
    assert one.manifest.run != two.manifest.run
    assert one.readings[0].value != two.readings[0].value


def test_a_generated_run_is_sealed_and_every_reading_fits_the_catalogue(tmp_path: Path) -> None:
    run = generated(tmp_path / "run")
    check_seal(tmp_path / "run")
    for reading in run.readings:
        known = quantity(reading.quantity)
        assert reading.unit == known.unit
        assert reading.subject.kind in SUBJECTS_OF[known.scope]
        assert known.unstated(reading.recipe) == ()
    assert {r.replicate for r in run.readings} == {0, 1, 2}


def test_readings_follow_from_their_samples(tmp_path: Path) -> None:
    run = generated(tmp_path / "run")
    checked = 0
    for reading in run.readings:
        ref = reading.samples
        if ref and ref.unit == reading.unit and reading.recipe.get("statistic") in ("median", "p50"):
            assert np.median(samples(run, ref)) == pytest.approx(reading.value)
            checked += 1
    assert checked


def test_bus_bandwidth_follows_from_time(tmp_path: Path) -> None:
    run = generated(tmp_path / "run")
    by_key: dict[tuple[str, object, object], Reading] = {
        (r.quantity, r.recipe, r.replicate): r for r in run.readings if r.quantity.startswith("collective.")
    }
    checked = 0
    for (name, recipe, replicate), busbw in by_key.items():
        if name.endswith("busbw"):
            time_s = by_key["collective.all_reduce.time", recipe, replicate].number
            assert time_s is not None
            size = busbw.recipe.get("bytes")
            assert isinstance(size, int)
            assert busbw.value == pytest.approx(size * 2 * 3 / 4 / time_s)
            checked += 1
    assert checked


def test_a_planted_fault_changes_its_subject_and_nothing_else(tmp_path: Path) -> None:
    plain = generated(tmp_path / "plain")
    faulty = generated(tmp_path / "faulty", "--plant", "gpu:node01/1:gemm.bf16.rate:-20%")
    before = values(plain, "gemm.bf16.rate", "gpu:node01/1")
    after = values(faulty, "gemm.bf16.rate", "gpu:node01/1")
    assert after == pytest.approx([0.8 * v for v in before])
    others = [[r.value for r in run.readings if str(r.subject) != "gpu:node01/1"] for run in (plain, faulty)]
    assert others[0] == others[1]


def test_a_link_can_be_slow_one_way_and_to_all_others(tmp_path: Path) -> None:
    plain = generated(tmp_path / "plain")
    faulty = generated(tmp_path / "faulty", "--plant", "link:node01>*:peer.bandwidth:-30%")
    slow = values(faulty, "peer.bandwidth", "link:node01>node00")
    assert slow == pytest.approx([0.7 * v for v in values(plain, "peer.bandwidth", "link:node01>node00")])
    back = "link:node00>node01"
    assert values(faulty, "peer.bandwidth", back) == values(plain, "peer.bandwidth", back)


def test_a_whole_leaf_and_a_rail_can_be_slow(tmp_path: Path) -> None:
    words = ["--nodes", "6", "--gpus", "2", "--restarts", "2", "--pairs", "rails"]
    plants = ["--plant", "nodes:2-3:peer.bandwidth:-20%", "--plant", "link:*/1>*/1:peer.bandwidth:-50%"]
    for name, more in (("plain", []), ("faulty", plants)):
        assert main([str(tmp_path / name), *words, *more]) == 0
    runs = [open_run(tmp_path / name) for name in ("plain", "faulty")]
    factors: dict[str, float] = {}
    for before, after in zip(runs[0].readings, runs[1].readings, strict=True):
        if before.quantity == "peer.bandwidth" and before.number and after.number:
            factors[str(before.subject)] = after.number / before.number
    assert factors["link:node02>node00"] == pytest.approx(0.8)
    assert factors["link:node00>node01"] == 1.0
    assert factors["link:node00/1>node01/1"] == pytest.approx(0.5)
    assert factors["link:node00/0>node01/0"] == 1.0


def test_faults_of_clocks_facts_cores_and_whole_nodes(tmp_path: Path) -> None:
    run = generated(
        tmp_path / "run",
        *("--plant", "gpu:node01/0:clock.offset:+5 ms"),
        *("--plant", "gpu:node00/1:gpu.name:=Something else"),
        *("--plant", "node:node01:cpu_share:-50%"),
        *("--plant", "node:node00:memory.copy.bandwidth:missing"),
        *("--plant", "gpu:node01/0:gemm.bf16.fluctuation:+900%"),
    )
    assert min(values(run, "clock.offset", "gpu:node01/0")) > 4e-3
    names = {str(f.subject): f.value for f in run.facts if f.key == "gpu.name"}
    assert [s for s, v in names.items() if v == "Something else"] == ["gpu:node00/1"]
    shares = {str(r.subject): r.cpu_share_frac for r in run.readings if r.quantity == "gemm.bf16.rate"}
    assert shares["gpu:node01/0"] == pytest.approx(0.495)
    assert shares["gpu:node00/0"] == pytest.approx(0.99)
    missing = [r for r in run.readings if r.value is None]
    assert {str(r.subject) for r in missing} == {"gpu:node00/0", "gpu:node00/1"}
    assert all(r.reason for r in missing)
    restless = values(run, "gemm.bf16.fluctuation", "gpu:node01/0")
    assert min(restless) > max(values(run, "gemm.bf16.fluctuation", "gpu:node01/1"))


def test_a_lost_rank_is_an_event_and_has_no_readings_after_it(tmp_path: Path) -> None:
    run = generated(tmp_path / "run", "--lose-rank", "3")
    assert [str(e.subject) for e in run.events if e.kind == "rank_lost"] == ["rank:3"]
    assert {r.replicate for r in run.readings if str(r.subject) == "gpu:node01/1"} == {0}


def test_cohorts_are_facts_of_their_nodes(tmp_path: Path) -> None:
    run = generated(tmp_path / "run", "--cohort", "firmware:28.39.2048@1")
    told = [(str(f.subject), f.value) for f in run.facts if f.key == "firmware"]
    assert told == [("node:node01", "28.39.2048")]


def test_one_rank_alone_has_no_pairs_and_no_collectives(tmp_path: Path) -> None:
    assert main([str(tmp_path / "run"), "--nodes", "1", "--gpus", "1", "--restarts", "1"]) == 0
    names = {r.quantity for r in open_run(tmp_path / "run").readings}
    assert "gemm.bf16.rate" in names
    assert not any(name.startswith(("peer.", "collective.", "clock.")) for name in names)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--plant", "gpu:node01/7:gemm.bf16.rate:-5%"], "did you mean 'gpu:node01/1'"),
        (["--plant", "gpu:node01/1:gem.bf16.rate:-5%"], "did you mean 'gemm.bf16.rate'"),
        (["--plant", "gemm.bf16.rate"], "SUBJECT:QUANTITY:EFFECT"),
        (["--plant", "gpu:node01/1:gemm.bf16.rate:slow"], "unknown effect"),
        (["--plant", "gpu:node01/1:gemm.bf16.rate:+5 ms"], "'+5 ms' is time"),
        (["--plant", "gpu:node01/1:gemm.bf16.rate:-100%"], "leaves nothing"),
        (["--plant", "node:node01:gpu.count:=many"], "cannot read 'many'"),
        (["--device", "h100-sxm-lik"], "did you mean 'h100-sxm-like'"),
        (["--cohort", "firmware"], "KEY:VALUE@FIRST-LAST"),
        (["--cohort", "firmware:1@0-5"], "beyond 0 … 1"),
        (["--noise", "2 ms"], "--noise"),
        (["--within", "90%"], "not in 0 … 50 %"),
        (["--nodes", "0"], "must be 1 or more"),
        (["--lose-rank", "4"], "not among 0 … 3"),
        (["--figure", "gemm.rate=1 TFLOP/s"], "did you mean 'gemm.bf16.rate'"),
    ],
)
def test_a_wrong_wish_is_told_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main([str(tmp_path / "run"), *SMALL, *words]) == EXIT_USAGE
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "--lose-rank" in capsys.readouterr().out


def test_a_run_that_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generated(tmp_path / "run")
    before = _content(tmp_path / "run")
    assert main([str(tmp_path / "run"), *SMALL, "--seed", "2"]) == EXIT_USAGE
    assert "holds another run" in capsys.readouterr().err
    assert _content(tmp_path / "run") == before


def _content(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
