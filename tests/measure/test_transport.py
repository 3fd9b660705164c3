"""Counting bytes at the devices, and what NCCL's log tells of the way that they go."""

from pathlib import Path

from assay.measure.transport import Sent, told_by_log

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


def test_the_log_tells_the_network_and_the_registration():
    log = (
        "h0:1:1 [0] NCCL INFO Using network IB\n"
        "h0:1:1 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
    )
    assert {key: value for key, value, _ in told_by_log(log)} == {
        "transport.network": "IB",
        "transport.registration": "GDRDMA",
    }
    assert {value for _, value, _ in told_by_log("")} == {None}
