"""The storage benchmark, run for real where fio is installed."""

import shutil

import pytest

from assay.measure import disk

fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs the package fio")
SMALL = {"file_bytes": 8 << 20, "runtime_s": 0.3, "iodepth": 4}
MISSING = {
    "storage.sequential_write.bandwidth",
    "storage.sequential_read.bandwidth",
    "storage.random_read_4k.iops",
    "storage.random_read_4k.latency",
}


@fio
def test_rates_and_latencies_of_one_job_and_of_all(run_benchmark):
    measured = run_benchmark("storage", **SMALL)
    assert measured.outcome.whole
    assert {r["subject"] for r in measured.valued()} == {"node:h0"}
    for load, jobs in (("alone", 1), ("all", 2)):
        about = {"load": load, "jobs": jobs, "file_bytes": 8 << 20, "nodes": 1}
        for quantity in MISSING - {"storage.random_read_4k.latency"}:
            (reading,) = measured.readings(quantity, **about)
            assert reading["value"] > 0
            assert reading["n"] > 0
            assert reading["recipe"]["ioengine"] in ("libaio", "io_uring", "psync")
            assert isinstance(reading["recipe"]["direct"], bool)
        (p50,) = measured.readings("storage.random_read_4k.latency", statistic="p50", **about)
        (p99,) = measured.readings("storage.random_read_4k.latency", statistic="p99", **about)
        assert 0 < p50["value"] <= p99["value"] < 10
    assert not (measured.folder / "scratch").exists()


@fio
def test_files_in_another_place_are_deleted_as_well(run_benchmark, tmp_path):
    place = tmp_path / "elsewhere"
    measured = run_benchmark("storage", **SMALL, path=str(place))
    assert measured.valued()
    assert list(place.iterdir()) == []


@fio
def test_files_that_are_not_noise_are_not_measured(run_benchmark):
    measured = run_benchmark("storage", corrupt=True, **SMALL)
    assert not measured.valued()
    assert measured.reasons() == {"job.0 holds data that can be compressed"}
    assert {r["quantity"] for r in measured.lines if r["type"] == "reading"} == MISSING
    assert not (measured.folder / "scratch").exists()


@fio
def test_files_that_would_fill_the_disk_are_not_written(run_benchmark):
    measured = run_benchmark("storage", **SMALL | {"file_bytes": 1 << 60})
    assert not measured.valued()
    (reason,) = measured.reasons()
    assert "MiB of test files want 2 times that free" in reason


def test_without_fio_the_reason_names_the_package(run_benchmark, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    measured = run_benchmark("storage", **SMALL)
    assert not measured.valued()
    assert measured.reasons() == {"fio is not installed (package fio)"}


def test_the_filesystem_of_a_mount_is_named():
    assert disk.filesystem_of("/proc/self") == "proc"
