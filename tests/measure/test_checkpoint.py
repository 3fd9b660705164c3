"""The checkpoint benchmark, run for real."""

import pytest

SMALL = {"bytes_per_rank": 1 << 20}
YIELDS = {f"checkpoint.{way}.{what}" for way in ("save", "load") for what in ("time", "bandwidth")}


def test_save_and_load_of_the_whole_state(run_benchmark):
    measured = run_benchmark("checkpoint", **SMALL)
    assert measured.outcome.whole
    assert {r["quantity"] for r in measured.valued()} == YIELDS
    assert {r["subject"] for r in measured.valued()} == {"cluster"}
    for way in ("save", "load"):
        (time,) = measured.readings(f"checkpoint.{way}.time", bytes=2 << 20, ranks=2)
        (rate,) = measured.readings(f"checkpoint.{way}.bandwidth", bytes=2 << 20, ranks=2)
        assert time["value"] * rate["value"] == pytest.approx(2 << 20)
    assert not (measured.folder / "scratch").exists()


def test_a_wrong_element_after_the_load_is_not_measured(run_benchmark):
    measured = run_benchmark("checkpoint", corrupt=True, **SMALL)
    assert not measured.valued()
    assert measured.reasons() == {"the loaded tensors differ from the saved ones (on rank 1)"}
    assert not (measured.folder / "scratch").exists()


def test_a_state_that_would_fill_the_disk_is_not_saved(run_benchmark):
    measured = run_benchmark("checkpoint", bytes_per_rank=1 << 60)
    assert measured.outcome.whole
    assert not measured.valued()
    (reason,) = measured.reasons()
    assert "MiB of test files want 2 times that free" in reason


def test_without_numpy_it_is_not_measured_with_the_reason(run_benchmark, monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['numpy'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    measured = run_benchmark("checkpoint", from_nothing=True, **SMALL)
    assert measured.outcome.whole
    assert measured.reasons() == {"torch.distributed.checkpoint needs NumPy, which is not installed"}
