"""Counting bytes at the devices, and what NCCL's log tells of the way that they go."""

from pathlib import Path

from assay.measure.benchmarks.choices import chosen_in
from assay.measure.nccl_environment import LOG_FILE, log_environment, nccl_log
from assay.measure.transport import Sent, told_by_log

FORMATS = Path(__file__).parents[1] / "formats" / "data"
DATA = Path(__file__).parents[1] / "doctor" / "data" / "healthy"

NET_DEV = """\
Inter-|   Receive                            |  Transmit
 face |bytes packets errs and five more        |bytes packets errs and five more
    lo: 900 1 0 0 0 0 0 0 900 1 0 0 0 0 0 0
  eth0: 5 1 0 0 0 0 0 0 7000 1 0 0 0 0 0 0
  eth1:123456789012 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0
"""


def port(root: Path, device: str, state: str, **counters: int) -> None:
    folder = root / "infiniband" / device / "ports" / "1"
    folder.mkdir(parents=True)
    (folder / "state").write_text(f"{state}\n")
    for name, value in counters.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{value}\n")


def test_bytes_of_active_ports_and_of_devices_but_the_loopback(tmp_path):
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    (proc / "net").mkdir(parents=True)
    (proc / "net" / "dev").write_text(NET_DEV)
    port(sys, "mlx5_0", "4: ACTIVE", counters__port_xmit_data=100)
    port(sys, "mlx5_1", "1: DOWN", counters__port_xmit_data=7)
    port(sys, "rdmap0", "4: ACTIVE", hw_counters__tx_bytes=11)
    assert Sent.now(sys, proc) == Sent(rdma=411, netdev=7030)


def test_where_nothing_counts_nothing_is_told(tmp_path):
    assert Sent.now(tmp_path, tmp_path) == Sent(rdma=None, netdev=None)


def healthy(name):
    return (DATA / f"{name}.txt").read_text().splitlines()


def test_a_log_of_a_network_by_plugin():
    assert told_by_log(healthy("h23-nccl-efa-ok")) == {
        "transport.version": "2.18.6",
        "transport.network": "AWS Libfabric",
        "transport.registration": "GPUDirect RDMA",
    }


def test_a_log_of_one_node_has_no_registration_with_a_network():
    told = told_by_log(healthy("h03-nccl-single-node-nvlink"))
    assert "transport.registration" not in told
    assert told["transport.version"]


def test_channels_that_go_both_ways_are_told_as_both():
    channel = "h0:1:1 [0] NCCL INFO Channel 0{}/0 : 8[0] -> 0[0] [receive] via NET/IB/0{}"
    log = ["h0:1:1 [0] NCCL INFO Using network IB", channel.format(0, "/GDRDMA"), channel.format(1, "")]
    assert told_by_log(log) == {
        "transport.network": "IB",
        "transport.registration": "GPUDirect RDMA + host memory",
    }
    assert told_by_log([]) == {}


def test_the_environment_logs_into_the_file_and_leaves_what_the_user_set():
    file = Path("/run/logs/x.nccl")
    quiet = log_environment({}, file, every_call=False)
    assert quiet == {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV", LOG_FILE: str(file)}
    assert "TUNING" in log_environment({}, file, every_call=True)["NCCL_DEBUG_SUBSYS"]
    assert "NCCL_DEBUG" not in log_environment({"NCCL_DEBUG": "WARN"}, file, every_call=False)


def test_a_log_that_is_not_there_is_none(tmp_path):
    assert nccl_log({}) is None
    assert nccl_log({LOG_FILE: str(tmp_path / "none")}) is None
    (tmp_path / "log").write_text("a\nb\n")
    assert nccl_log({LOG_FILE: str(tmp_path / "log")}) == ["a", "b"]


def test_algorithm_and_protocol_of_a_call():
    log = (FORMATS / "nccl_2.19_per_iter_mpirun.log").read_text().splitlines()
    assert chosen_in(log) == "RING/SIMPLE"
    assert chosen_in(["h0:1:1 [0] NCCL INFO 8 Bytes -> Algo 0 proto 0 time 12.5"]) == "TREE/LL"
    assert chosen_in(["h0:1:1 [0] NCCL INFO Using network IB"]) is None
