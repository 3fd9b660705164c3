"""Lines of single calls, by the versions of NCCL that print them."""

from pathlib import Path

import pytest

from assay.formats.nccl_calls import chosen_in, registered_in
from assay.formats.nccl_log import Channel, ports, read_line

DATA = Path(__file__).parent / "data"
HEAD = "h0:4711:4720 [3] NCCL INFO "


def test_algorithm_and_protocol_of_a_call():
    log = (DATA / "nccl_2.19_per_iter_mpirun.log").read_text().splitlines()
    assert chosen_in(log) == "RING/SIMPLE"
    assert chosen_in([HEAD + "8 Bytes -> Algo 0 proto 0 time 12.5"]) == "TREE/LL"
    assert chosen_in([HEAD + "Using network IB"]) is None


def test_a_kernel_over_symmetric_memory_is_told_by_its_name():
    """2.27, and 2.30 with one number more at the end."""
    line = (
        "AllReduce [Symmetric]: 1048576 Bytes -> Kernel AllReduce_RSxLDMC_AGxSTMC nchannels 16 nthreads 512"
    )
    for tail in ("", " nWorks 1"):
        assert chosen_in([HEAD + line + tail]) == "SYMMETRIC/AllReduce_RSxLDMC_AGxSTMC"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        # 2.19 and 2.21, by the subsystem NVLS
        ("rank 3 successfully local-registered sendbuff 0x7f, recvbuff 0x7f, sendbuff size 64", "NVLS"),
        ("rank 3 reuse local-registered NVLS sendbuff 0x7f, recvbuff 0x7f", "NVLS"),
        ("rank 3 successfully registered collNet sendbuff 0x7f (handle 0x1)", "COLLNET"),
        # 2.23
        ("rank 3 - IPC local register buffer 0x7f size 64 (baseAddr 0x7f size 64) to peer 2", "IPC"),
        ("rank 3 - IPC graph register buffer 0x7f size 64 (baseAddr 0x7f size 64) to peer 2", "IPC"),
        # from 2.25 on, by the subsystem REG
        ("rank 3 - NET register userbuff 0x7f (handle 0x1), buffSize 64", "NET"),
        ("rank 3 - NET reuse buffer 0x7f size 64 (baseAddr 0x7f size 64) handle 0x1", "NET"),
        ("rank 3 - COLLNET reuse register userbuff 0x7f (handle 0x1), buffSize 64, type Send", "COLLNET"),
        ("rank 3 successfully registered NVLS sendbuff 0x7f, recvbuff 0x7f", "NVLS"),
        ("rank 3 failed to NET register userbuff 0x7f buffSize 64 GDR flag 0", "NET refused"),
        (
            "rank 3 - COLLNET failed to register userbuff 0x7f, buffSize 64, type Recv, GDR 0",
            "COLLNET refused",
        ),
        # what is no registration of a call's buffer
        ("rank 3 - IPC deregistered buffer 0x7f peer 2 ipc remote buffer 0x7f", "none"),
        ("rank 3 - deregistered net buffer handle 0x1", "none"),
        ("register comm 0x55 buffer 0x7f size 64", "none"),
        ("rank 3 - IPC registering buffer 0x7f size 64 (baseAddr 0x7f size 64) to peer 2", "none"),
        ("NVLS Created Multicast group 7 nranks 8 size 64 on rank 3", "none"),
    ],
)
def test_buffers_that_a_call_had_registered(said, kind):
    assert registered_in([HEAD + said]) == kind


def test_several_kinds_are_all_told():
    lines = [
        HEAD + "rank 3 successfully registered NVLS sendbuff 0x7f, recvbuff 0x7f",
        HEAD + "rank 3 - NET register userbuff 0x7f (handle 0x1), buffSize 64",
    ]
    assert registered_in(lines) == "NET + NVLS"


@pytest.mark.parametrize(
    ("via", "device"),
    [
        ("NET/IB/3/GDRDMA", 3),
        ("NET/IB/12(7)/GDRDMA(PCI)/Shared", 12),
        ("NET/AWS Libfabric/0", 0),
        ("P2P/CUMEM", None),
    ],
)
def test_the_device_that_a_channel_sends_through(via, device):
    (channel,) = read_line(f"{HEAD}Channel 00/0 : 3[3] -> 11[3] [send] via {via}", 1, "log")
    assert isinstance(channel, Channel)
    assert channel.net_device == device


def test_ports_by_the_numbers_that_channels_use():
    assert ports("[0]mlx5_0:1/IB [1]mlx5_3:2/RoCE [RO]; OOB eth0:10.0.0.1<0>") == ("mlx5_0/1", "mlx5_3/2")
    assert ports("[0]mlx5_0+mlx5_1:1/IB [1]mlx5_2:1/IB") == (None, "mlx5_2/1")
    assert ports("[0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}") == ()
