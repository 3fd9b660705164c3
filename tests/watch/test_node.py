"""One node's readings: GPUs from a driver's library, ports from sysfs, ranks from processes, a slow disk."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import fake_sysfs
import pytest
from compile_nvml import compile_nvml
from servers import until

from assay.domain.subject import Subject
from assay.probe.files import Roots
from assay.probe.ranks import RUNNING, STOPPED, Ranks
from assay.watch.metrics import BY_NAME, METRICS, labels_of, subject_of
from assay.watch.sources.node import NodeReader, StorageProbe
from assay.watch.sources.peers import Peers


@pytest.fixture(scope="module")
def nvml_library(tmp_path_factory):
    return compile_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def machine(tmp_path, nvml_library, monkeypatch):
    """8 GPUs and 8 ports; `machine("2 throttle 64")` tells the driver what to answer, and reads the node."""
    top = fake_sysfs.build(tmp_path / "machine", adapters=8, gpus=8)
    state = tmp_path / "nvml.txt"
    state.write_text("-1 count 8\n")
    monkeypatch.setenv("NVML_STUB", str(state))
    reader = NodeReader("n1", roots=Roots.under(top), nvml_library=nvml_library)
    clock = iter(range(0, 10_000, 100))

    def read(*lines: str) -> dict[tuple[str, str], float]:
        state.write_text("\n".join(("-1 count 8", *lines)) + "\n")
        return {(m, str(s)): v for m, s, v in reader.read(float(next(clock)))}

    yield read, top
    reader.close()


def test_a_healthy_node_tells_every_gpu_and_port(machine):
    read, _ = machine
    values = read()
    for gpu in range(8):
        assert values["gpu_lost", f"gpu:n1/{gpu}"] == 0
        assert values["gpu_pcie_width_frac", f"gpu:n1/{gpu}"] == 1
        assert values["gpu_nvlinks_down", f"gpu:n1/{gpu}"] == 0
        assert 0 < values["gpu_temperature_degC", f"gpu:n1/{gpu}"] < 90
        assert values["port_up", f"port:n1/mlx5_{gpu}[1]"] == 1
        assert values["port_rate_Bps", f"port:n1/mlx5_{gpu}[1]"] == 5e10
    assert {name for name, _ in values} <= BY_NAME.keys()


def test_what_goes_wrong_shows(machine):
    read, top = machine
    ports = top / "sys/class/infiniband/mlx5_4/ports/1"
    before = read()
    fake_sysfs.write(ports / "counters/link_downed", "7")
    fake_sysfs.write(ports / "state", "1: DOWN")
    values = read("2 throttle 64", "3 lost 1", "5 ecc_unc 4")
    assert values["gpu_throttled_thermal", "gpu:n1/2"] == 1
    assert values["gpu_lost", "gpu:n1/3"] == 1
    assert ("gpu_temperature_degC", "gpu:n1/3") not in values
    assert values["gpu_ecc_uncorrected_total", "gpu:n1/5"] == 4
    assert before["port_link_downed_total", "port:n1/mlx5_4[1]"] != 7
    assert values["port_link_downed_total", "port:n1/mlx5_4[1]"] == 7
    assert values["port_up", "port:n1/mlx5_4[1]"] == 0


def test_a_counter_of_words_is_told_in_bytes(machine):
    read, top = machine
    fake_sysfs.write(top / "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "1000")
    assert read()["port_xmit_data_bytes_total", "port:n1/mlx5_0[1]"] == 4000


def test_a_machine_without_anything_tells_nothing_of_it(tmp_path):
    reader = NodeReader(
        "bare", roots=Roots.under(fake_sysfs.build(tmp_path, adapters=0, gpus=0)), nvml_library="none.so"
    )
    names = {name for name, _, _ in reader.read(0.0)}
    reader.close()
    assert not any(name.startswith(("gpu_", "port_", "storage_")) for name in names)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_a_series_comes_back_as_the_subject_that_it_was(metric):
    examples = {"gpu": "gpu:n1/3", "device": "port:n1/mlx5_0[1]", "rank": "rank:7", "peer": "link:n1>n2"}
    subject = Subject.parse(examples.get(metric.labels[0], "") if metric.labels else "node:n1")
    labels = dict(zip(metric.labels, labels_of(subject, metric), strict=True))
    assert subject_of("n1", labels) == subject
    assert metric.exported.startswith("assay_")
    if metric.name.endswith(("_s", "_s_total")):
        assert "seconds" in metric.exported


@pytest.fixture
def rank_process():
    started = []

    def start(rank: int) -> subprocess.Popen:
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "64000"}
        process = subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()


def test_ranks_are_found_stopped_and_gone(rank_process):
    ranks = Ranks(Roots.under("/"))
    process = rank_process(63123)

    def state(rank=63123):
        return next((p.state for p in ranks.read() if p.rank == rank), None)

    until(lambda: state() == RUNNING)
    process.send_signal(19)
    until(lambda: state() == STOPPED)
    process.send_signal(18)
    until(lambda: state() == RUNNING)
    process.kill()
    process.wait()
    assert state() is None


def test_a_rank_tells_how_long_it_waited_for_a_processor(rank_process):
    process = rank_process(63124)
    ranks = Ranks(Roots.under("/"))
    found = until(lambda: next((p for p in ranks.read() if p.pid == process.pid), None))
    assert found.cpu_wait_s is not None
    assert found.cpu_wait_s >= 0


def test_the_storage_probe_measures_and_tells_a_write_that_does_not_end(tmp_path):
    probe = StorageProbe(tmp_path, every_s=0.05)
    try:
        assert 0 < until(lambda: probe.latency_s() > 0 and probe.latency_s()) < 10
    finally:
        probe.close()
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_blocks_is_told_while_it_blocks(tmp_path):
    """Opening a pipe that nobody reads blocks, as a file system that has lost its server does."""
    path = tmp_path / f".assay-probe-{os.uname().nodename}-{os.getpid()}"
    os.mkfifo(path)
    probe = StorageProbe(tmp_path, every_s=0.05)
    try:
        until(lambda: probe.latency_s() > 1.0)
    finally:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        probe.close()


def test_peers_probe_each_other_and_one_that_goes_has_lost_all():
    port = _free_udp_port()
    addresses = {"a": "127.0.0.1", "b": "127.0.0.2", "never": "127.0.0.3"}
    a = Peers("a", addresses, bind="127.0.0.1", port=port, every_s=0.1)
    b = Peers("b", addresses, bind="127.0.0.2", port=port, every_s=0.1)

    def told():
        return {(m, str(s)): v for m, s, v in a.values()}

    try:
        whole = {("pair_rate_Bps", "link:a>b"), ("pair_lost_frac", "link:a>b")}
        got = until(lambda: whole <= told().keys() and told(), 60)
        b.close()
        gone = until(lambda: told()["pair_lost_frac", "link:a>b"] == 1.0 and told(), 60)
    finally:
        a.close()
    assert got["pair_lost_frac", "link:a>b"] < 0.5
    assert 0 < got["pair_round_trip_s", "link:a>b"] < 0.2
    assert abs(got["pair_clock_offset_s", "link:a>b"]) < 0.1
    assert ("pair_round_trip_s", "link:a>b") not in gone
    assert not any(subject == "link:a>never" for _, subject in gone)


def _free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
