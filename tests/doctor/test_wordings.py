"""One cause in the words of other versions and tools, and texts that look like it and mean something else."""

# ruff: noqa: E501  (lines of other programs stay whole)

from __future__ import annotations

import pytest
from case_files import diagnosed

from assay.domain.finding import Severity


def nccl(*lines: str, host: str = "h1", pid: int = 100, dev: int = 0) -> str:
    return "".join(f"{host}:{pid}:{pid + 1} [{dev}] NCCL INFO {line}\n" for line in lines)


def warn(text: str, *, host: str = "h1", dev: int = 0) -> str:
    return f"\n{host}:100:101 [{dev}] file.cc:10 NCCL WARN {text}\n"


def table(hosts: int, per_host: int, product: str, rows: list[tuple[int, float]], command: str = "") -> str:
    """The text of all_reduce_perf with these (bytes, busbw in GB/s)."""
    head = f"$ {command}\n" if command else ""
    head += (
        f"# nThread 1 nGpus 1 minBytes 8 maxBytes {rows[-1][0] if rows else 8} step: 2(factor) "
        "warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
    )
    for rank in range(hosts * per_host):
        host = f"n{rank // per_host}"
        head += f"#  Rank {rank:2} Group  0 Pid {rank + 9} on {host} device {rank % per_host:2} [0x1b] {product}\n"
    head += "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    body = "".join(
        f"{size:12} {size // 4:12}     float     sum      -1    100.5   {bw / 2:.2f}   {bw:.2f}      0\n"
        for size, bw in rows
    )
    return head + body + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n"


XML_GPU = (
    '<pci busid="0000:{bus}:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">'
    '<gpu dev="{dev}" sm="90" rank="{dev}" gdr="1"><nvlink target="0000:03:00.0" count="{links}"/></gpu></pci>\n'
)
NVLINK_ROWS = "".join(f"\t Link {i}: 26.562 GB/s\n" for i in range(17))
XID = "[  12.5] NVRM: Xid (PCI:0000:{bus}:00): {text}\n"

FIRST = [
    (
        "NET_FIREWALL",
        nccl("Bootstrap : Using eth0:10.1.0.1<0>")
        + nccl(
            "socketPollConnect: Connect to 10.1.0.2<43021> returned 113(No route to host) errno 115(Operation now in progress)"
        ),
    ),
    ("NET_FIREWALL", warn("ncclOsSocketPollConnect to 10.1.0.2<43021> failed with error No route to host")),
    (
        "NET_WRONG_IFACE",
        nccl("Bootstrap : Using docker0:172.17.0.1<0>")
        + nccl("Bootstrap : Using docker0:172.17.0.1<0>", host="h2")
        + warn("Connect to 172.17.0.1<41111> failed : Connection refused"),
    ),
    (
        "NET_HOSTNAME_COLLISION",
        nccl("Bootstrap : Using eth0:10.1.0.1<0>", host="localhost")
        + nccl("Bootstrap : Using eth0:10.1.0.2<0>", host="localhost", pid=300),
    ),
    (
        "NET_HOSTNAME_COLLISION",
        nccl(
            "Ring 00 : 2[2] -> 3[3] via P2P/IPC",
            "Ring 00 : 3[3] -> 8[2] via P2P/IPC",
            "Ring 00 : 8[2] -> 9[3] via P2P/IPC",
        ),
    ),
    (
        "NET_MULTINIC_SAME_SUBNET",
        "$ ip addr\n2: ens1f0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP\n"
        "    inet 10.1.1.11/24 brd 10.1.1.255 scope global ens1f0\n3: ens2f0: <BROADCAST,MULTICAST,UP> mtu 9000 qdisc mq\n"
        "    inet 10.1.1.12/24 brd 10.1.1.255 scope global ens2f0\n",
    ),
    ("NET_HOSTNAME_RESOLUTION", "[rank1]: RuntimeError: [Errno -3] Temporary failure in name resolution\n"),
    ("NET_NO_INTERFACE", warn("Bootstrap : no socket interface found")),
    ("SYS_MEMLOCK_LIMIT", warn("Call to ibv_create_cq failed")),
    (
        "SYS_KERNEL_CMA_ZERO",
        warn("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory")
        + "$ ulimit -l\nunlimited\n$ grep Cma /proc/meminfo\nCmaTotal:              0 kB\nCmaFree:               0 kB\n",
    ),
    (
        "IB_LINK_FLAP",
        "[Mon Jan 12 16:24:18 2026] mlx5_core 0000:ab:00.0 ibp171s0: Link down\n"
        "[Mon Jan 12 16:24:23 2026] mlx5_core 0000:ab:00.0 ibp171s0: Link up\n",
    ),
    (
        "IB_HCA_SET_MISMATCH",
        nccl("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.1.0.1<0>")
        + nccl("NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.1.0.2<0>", host="h2"),
    ),
    (
        "IB_RELAXED_ORDERING_FORCED",
        warn(
            "NET/IB : req 0/1 tag 0 peer 10.1.0.2<4> collective mismatch error, local size 32768 "
            "remote size 1048576"
        )
        + "$ mlxconfig -d /dev/mst/mt4123_pciconf0 q | grep ORDERING\n         PCI_WR_ORDERING                     force_relax(1)\n",
    ),
    (
        "SHARP_PORT_USED_BY_SM",
        "[h1:1:28576 unique id 12] ERROR collect_ports_data: device mlx5_0 port 1 is not valid (port is used by SM)\n",
    ),
    (
        "SHARP_AM_NOT_ON_SM",
        "Sep 04 11:42:31 h1 sharp_am[7206]: Local Port validation failed. error: FabricProvider must bind to "
        "port with master SM (SM LID:35 local LID:2. Exiting.\n",
    ),
    ("SHARP_UNAVAILABLE", warn("NET/IB : SHARP coll init error: Cannot create SHARP job(-11)")),
    (
        "ROCE_GID_INDEX",
        nccl("NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.1.0.1<0>")
        + warn(
            "Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_0:1, curr state INIT, next state RTR, "
            "local GID index 1, local GID fe80::1, remote GID fe80::2"
        ),
    ),
    ("ROCE_NO_ROUTE", warn("Call to ibv_modify_qp failed with error Network is unreachable")),
    (
        "IB_CABLE_PAIRING",
        "$ ip -br addr\nenp1s0f0 UP 192.168.11.1/30\nenp1s0f1 UP 192.168.12.1/30\n"
        + warn(
            "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_1:1, curr state INIT, next state RTR, "
            "local GID index 3, local GID ::ffff:192.168.12.1, remote GID ::ffff:192.168.13.2"
        ),
    ),
    (
        "GDR_PATH_TOO_FAR",
        nccl(
            "NCCL_NET_GDR_LEVEL set by environment to SYS",
            "Connected all rings",
            "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
            "Pattern 4, crossNic 0, nChannels 2, bw 12.0/12.0, type SYS/SYS, sameChannels 1",
        ),
    ),
    (
        "GDR_PEERMEM_MISSING",
        nccl(
            "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0",
            "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA",
            "Connected all rings",
        ),
    ),
    (
        "PCIE_IOMMU_P2P",
        "[ 811.1] DMAR: [DMA Write NO_PASID] Request device [b3:00.0] fault addr 0x38f000000000 "
        "[fault reason 0x05] PTE Write access is not set\n",
    ),
    (
        "PCIE_AER_ERRORS",
        "".join(
            f"[ {i}.1] pcieport 0000:15:01.0: AER: Corrected error received: 0000:15:01.0\n" for i in range(5)
        ),
    ),
    (
        "PCIE_VM_TOPOLOGY",
        '<system version="1">\n<cpu numaid="-1" arch="x86_64" vendor="GenuineIntel">\n'
        '<pci busid="0000:03:00.0" class="0x030200" link_speed="" link_width="0"><gpu dev="0" sm="80" rank="0" gdr="0"/></pci>\n'
        "</cpu>\n</system>\n",
    ),
    (
        "P2P_UNSUPPORTED_GEFORCE",
        "| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |\n"
        "|   0  NVIDIA GeForce RTX 4090    Off  | 00000000:01:00.0 Off |                  Off |\n",
    ),
    (
        "FABRIC_MANAGER_DOWN",
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized\n",
    ),
    (
        "NVLINK_DOWN",
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n" + NVLINK_ROWS + "\t Link 17: 26.562 GB/s\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n" + NVLINK_ROWS + "\t Link 17: <inactive>\n",
    ),
    (
        "NVLINK_DOWN",
        '<system version="1"><cpu numaid="0">\n'
        + "".join(
            XML_GPU.format(bus=bus, dev=dev, links=12 if dev == 2 else 18)
            for dev, bus in enumerate(("1b", "43", "52", "61"))
        )
        + "</cpu></system>\n",
    ),
    (
        "NVLINK_FABRIC_ERROR",
        "[ 99.1] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 31 LTSSM Fault Up\n",
    ),
    (
        "NVLINK_FABRIC_ERROR",
        XID.format(
            bus="3b", text="74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6"
        ),
    ),
    (
        "IMEX_NOT_READY",
        "[CUDA_ERROR_NOT_PERMITTED] operation not permitted in expression cuMemCreate(&handle, size, &prop, 0)\n"
        "$ ls /dev/nvidia-caps-imex-channels\nls: cannot access '/dev/nvidia-caps-imex-channels': No such file or directory\n",
    ),
    (
        "GPU_XID_79",
        XID.format(bus="9b", text="79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
    ),
    (
        "GPU_XID_94_CONTAINED",
        XID.format(bus="9b", text="94, pid=77, name=python3, Contained: SM (0x1). RST: No, D-RST: No"),
    ),
    (
        "GPU_ECC_UNCORRECTABLE",
        XID.format(bus="9b", text="95, pid=77, name=python3, Uncontained: LTC TAG (0x2,0x0). RST: Yes"),
    ),
    (
        "GPU_XID_APP_FAULT",
        XID.format(bus="9b", text="31, pid=77, name=python3, Ch 00000008, intr 0. MMU Fault: ENGINE GRAPHICS")
        + XID.format(bus="9b", text="43, pid=77, name=python3, Ch 00000008"),
    ),
    (
        "GPU_MISSING",
        "$ ssh good nvidia-smi -L\n"
        + "".join(f"GPU {i}: NVIDIA H100 80GB HBM3 (UUID: GPU-{i})\n" for i in range(8))
        + "$ ssh bad nvidia-smi -L\n"
        + "".join(f"GPU {i}: NVIDIA H100 80GB HBM3 (UUID: GPU-{i})\n" for i in range(7)),
    ),
    (
        "GPU_MISSING",
        "$ nvidia-smi -L\n" + "".join(f"GPU {i}: NVIDIA H100 80GB HBM3 (UUID: GPU-{i})\n" for i in range(7)),
    ),
    ("GPU_MISSING", "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error\n"),
    ("SW_NCCL_ARCH_MISSING", warn("Cuda failure 'named symbol not found'")),
    (
        "SW_NCCL_VERSION_CONFLICT",
        "$ pip list | grep nccl\nnvidia-nccl-cu11          2.14.3\nnvidia-nccl-cu12          2.18.1\n",
    ),
    (
        "SW_NCCL_VERSION_CONFLICT",
        warn("Mismatched NCCL version detected : rank 0 version 21805 rank 1 version 22005"),
    ),
    (
        "CFG_ENV_LEFTOVER",
        nccl(
            "NCCL_P2P_DISABLE set by environment to 1.",
            "Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct",
            "Connected all rings",
        ),
    ),
    ("CFG_ENV_LEFTOVER", "$ cat /etc/nccl.conf\nNCCL_IB_DISABLE=1\n"),
    (
        "CFG_CPU_AFFINITY",
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\t0-55,112-167\t0\nGPU1\tNV18\t X \t0-55,112-167\t0\n"
        + nccl("Setting affinity for GPU 0 to 0f"),
    ),
    (
        "STO_SHM_TOO_SMALL",
        warn(
            "Error: failed to extend /dev/shm/nccl-abcdef to 33030532 bytes, error: No space left on device (28)"
        ),
    ),
    (
        "STO_SHM_TOO_SMALL",
        "RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.\n",
    ),
    (
        "APP_SHAPE_MISMATCH",
        "[rank1]: RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=7, OpType=ALLREDUCE, TensorShape=[21]), but Rank 0 is running collective: x\n",
    ),
    (
        "APP_CHECKPOINT_STALL",
        "Saving model checkpoint to output/checkpoint-500\n"
        "[rank1]:[E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=6075, "
        "OpType=_ALLGATHER_BASE, NumelIn=1366, NumelOut=4098, Timeout(ms)=1800000) ran for 1800391 milliseconds before timing out.\n"
        "[rank1]:[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 1] Timeout at NCCL work: 6075, last enqueued NCCL work: 6139, "
        "last completed NCCL work: 6074.\n",
    ),
    (
        "APP_OOM_AS_NCCL",
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        "[rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n",
    ),
    (
        "APP_COLLECTIVE_DESYNC",
        nccl(
            "AllReduce: opCount 1a sendbuff 0x1 recvbuff 0x2 count 100 datatype 7 op 0 root 0 comm 0x3 [nranks=2] stream 0x4"
        )
        + nccl(
            "Broadcast: opCount 1a sendbuff 0x1 recvbuff 0x2 count 7 datatype 7 op 0 root 0 comm 0x3 [nranks=2] stream 0x4",
            pid=200,
            dev=1,
        ),
    ),
    (
        "APP_COLLECTIVE_DESYNC",
        "Not all ranks joining collective 7 at entry 6\ngroup info: 0:default_pg\ncollective: nccl:all_reduce\n"
        "missing ranks: {3}\n",
    ),
    (
        "TIME_CLOCK_SKEW",
        "$ srun -N 3 bash -c 'echo \"$(hostname): $(date)\"' | sort\nip-10-1-0-1: Wed Mar  6 10:00:01 UTC 2024\n"
        "ip-10-1-0-2: Wed Mar  6 10:00:01 UTC 2024\nip-10-1-0-3: Wed Mar  6 09:58:40 UTC 2024\n",
    ),
    (
        "TIME_CLOCK_SKEW",
        "Reference ID    : A9FEA97B (169.254.169.123)\nSystem time     : 3.204819203 seconds slow of NTP time\nLeap status     : Normal\n",
    ),
    (
        "TIME_NOT_SYNCED",
        "Reference ID    : 00000000 ()\nStratum         : 0\nLeap status     : Not synchronised\n",
    ),
    (
        "IB_PORT_DOWN",
        'CA: h1 mlx5_3:\n      0x1000000000000a00    101    1[  ] ==(                Down/ Polling)==>             [  ] "" ( )\n',
    ),
    (
        "IB_LINK_RATE_LOW",
        "CA: h1 mlx5_3:\n      0x1000000000000a00    101    1[  ] ==( 4X  25.78125 Gbps Active/  LinkUp)==>      11    1[  ] "
        '"MF0;sw1:MQM9700/U1" ( Could be 53.125 Gbps)\n',
    ),
    (
        "ROCE_ECE_INSTABILITY",
        table(
            2,
            8,
            "NVIDIA H100 80GB HBM3",
            [
                (2**20 * 2**i, bw)
                for i, bw in enumerate([10, 20, 40, 80, 120, 160, 200, 230, 260, 300, 180, 320, 190, 330])
            ],
        ),
    ),
    (
        "CFG_ENV_MISMATCH_RANKS",
        warn("NET/Socket : peer 10.1.0.2<4> message truncated : receiving 65536 bytes instead of 32768"),
    ),
]


@pytest.mark.parametrize(("code", "text"), FIRST, ids=[f"{i}-{code}" for i, (code, _) in enumerate(FIRST)])
def test_the_cause_is_named_first(code: str, text: str) -> None:
    diagnosis = diagnosed([("x", text)])
    assert diagnosis.findings
    assert diagnosis.findings[0].code == code


SILENT = {
    "sockets on one node": nccl(
        "NET/IB : No device found.",
        "Using network Socket",
        "Failed to open libibverbs.so[.1]",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "Connected all rings",
        "comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
    ),
    "bootstrap on loopback on one node": nccl(
        "Bootstrap : Using lo:127.0.0.1<0>",
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "Connected all rings",
    ),
    "one corrected AER": "[ 1.1] pcieport 0000:15:01.0: AER: Corrected error received: 0000:15:01.0\n",
    "slow link at idle": "GPU 00000000:1B:00.0\n    Performance State                     : P8\n    PCI\n        GPU Link Info\n"
    "            PCIe Generation\n                Max                       : 5\n                Current                   : 1\n"
    "            Link Width\n                Max                       : 16x\n                Current                   : 16x\n"
    "    Utilization\n        GPU                               : 0 %\n",
    "lspci of an idle GPU": "e3:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev a1)\n"
    "\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)\n",
    "PCIe cards without a bridge": "GPU 0: NVIDIA A100 80GB PCIe (UUID: GPU-0)\n"
    + "".join(f"\t Link {i}: <inactive>\n" for i in range(12)),
    "DCGM on cards without a bridge": "GPU 0: NVIDIA A100 80GB PCIe (UUID: GPU-0)\n| GPU 0's NvLink link 0 is currently down\n",
    "second ports that nobody uses": "".join(
        f"CA 'mlx5_{i}'\n\tCA type: MT4123\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n"
        "\t\tRate: 200\n\t\tLink layer: InfiniBand\n\tPort 2:\n\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 10\n"
        "\t\tLink layer: InfiniBand\n"
        for i in range(2)
    ),
    "a saved checkpoint": "Saving model checkpoint to out/1\nCheckpoint saved in 3.2 s\nstep: 5 loss: 2.1\n",
    "NVLS above the wire": table(1, 8, "NVIDIA H100 80GB HBM3", [(2**30, 470.0), (2**33, 480.0)]),
    "ring for measuring": table(
        2,
        8,
        "NVIDIA H100 80GB HBM3",
        [(2**30, 350.0), (2**33, 370.0)],
        "NCCL_ALGO=RING mpirun ./all_reduce_perf",
    ),
    "last calls alike": nccl(
        "AllReduce: opCount 1a sendbuff 0x1 recvbuff 0x2 count 9 datatype 7 op 0 root 0 comm 0x3 [nranks=2] stream 0x4"
    )
    + nccl(
        "AllReduce: opCount 1a sendbuff 0x9 recvbuff 0x8 count 9 datatype 7 op 0 root 0 comm 0x7 [nranks=2] stream 0x5",
        pid=200,
        dev=1,
    ),
    "clocks within a second": "$ pdsh -w h[1-2] date\nh1: Wed Mar  6 10:00:01 UTC 2024\nh2: Wed Mar  6 10:00:02 UTC 2024\n",
    "a chrony that follows a server": "Reference ID    : A9FEA97B (169.254.169.123)\nStratum         : 4\n"
    "System time     : 0.000000801 seconds slow of NTP time\nLeap status     : Normal\n",
    "an unlimited node": "$ ulimit -l\nunlimited\n$ ulimit -n\n1048576\n$ sysctl kernel.numa_balancing\nkernel.numa_balancing = 0\n",
    "known probing lines": nccl(
        "NET/Plugin: Could not find: libnccl-net.so.",
        "NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.",
        "NVLS multicast support is not available on dev 0",
    ),
    "a training log": "".join(
        f"iteration {i}/100 | elapsed time per iteration (ms): 1520.3 | lm loss: 2.{i:02} |\n"
        for i in range(50)
    ),
    "an adaptive port waits": "# Port counters: Lid 5 port 1 (CapMask: 0x5A00)\nPortXmitData:....................999999999\nPortXmitWait:....................5000\n",
    "an imbalanced NV mesh": "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tNV2\tNV1\tNV1\nGPU1\tNV2\t X \tNV1\tNV1\nGPU2\tNV1\tNV1\t X \tNV2\nGPU3\tNV1\tNV1\tNV2\t X \n",
    "an empty file": "",
    "prose": "We had a hang yesterday, but today it works. Nothing to see here.\n",
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT.keys())
def test_what_only_looks_like_it_stays_silent(text: str) -> None:
    diagnosis = diagnosed([("x", text)])
    assert [f.code for f in diagnosis.findings if f.severity is not Severity.INFO] == []


RECEIVE, SEND = (
    "Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0",
    "Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0",
)
MORE_SILENT = {
    "sending through host memory, as on PCIe": nccl(RECEIVE + "/GDRDMA", SEND, "Connected all rings"),
    "a GPU too far from its adapter": nccl(
        "GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 7 > 4)", RECEIVE, SEND, "Connected all rings"
    ),
    "three cards, two of them bridged": "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tNV12\tSYS\nGPU1\tNV12\t X \tSYS\nGPU2\tSYS\tSYS\t X \n",
    "a company network on 172.17": nccl("Bootstrap : Using eno1:172.17.120.7<0>")
    + nccl("Bootstrap : Using eno1:172.17.120.8<0>", host="h2"),
    "interfaces as ip prints them": "1: lo    inet 127.0.0.1/8 scope host lo\n2: eth0    inet 10.0.1.2/24 brd 10.0.1.255 scope global eth0\n"
    "3: eth1    inet 10.0.2.2/24 brd 10.0.2.255 scope global eth1\n4: eth2    inet 10.0.3.2/24 brd 10.0.3.255 scope global eth2\n",
}
MORE_FIRST = [
    (
        "CFG_CPU_AFFINITY",
        nccl("Setting affinity for GPU 0 to ff") + nccl("Setting affinity for GPU 0 to ffffff", pid=300),
    ),
    ("CFG_ENV_LEFTOVER", nccl("NCCL_P2P_LEVEL set by environment to LOC", "Connected all rings")),
    (
        "SW_NCCL_VERSION_CONFLICT",
        "\nh1:100:101 [0] bootstrap.cc:77 NCCL WARN Message truncated : received 1024 bytes instead of 256\n",
    ),
    (
        "NET_MULTINIC_SAME_SUBNET",
        "2: eth0    inet 10.0.1.2/24 brd 10.0.1.255 scope global eth0\n3: eth1    inet 10.0.1.3/24 brd 10.0.1.255 scope global eth1\n",
    ),
    (
        "ROCE_ECE_INSTABILITY",
        table(
            2,
            8,
            "NVIDIA H100 80GB HBM3",
            [(2**31 << i, bw) for i, bw in enumerate([60.0, 35.0, 80.0])],
            "mpirun ./all_reduce_perf -b 2G",
        )
        + table(
            2,
            8,
            "NVIDIA H100 80GB HBM3",
            [(2**31 << i, 190.0) for i in range(3)],
            "mpirun -x NCCL_IB_ECE_ENABLE=0 ./all_reduce_perf -b 2G",
        ),
    ),
    (
        "NVLINK_DOWN",
        "\t"
        + "\t".join(f"GPU{i}" for i in range(4))
        + "\n"
        + "".join(
            f"GPU{a}\t"
            + "\t".join(" X " if a == b else "NV14" if 2 in (a, b) else "NV18" for b in range(4))
            + "\n"
            for a in range(4)
        ),
    ),
    (
        "GPU_FAULTY_DEVICE",
        '{"DCGM GPU Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "GPU Memory", "results": '
        '[{"gpu_id": "3", "status": "Fail", "warnings": [{"warning": "Error in memory"}]}, {"gpu_id": "4", "status": "Pass"}]}]}]}}',
    ),
    (
        "RANK_LOST",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n",
    ),
    ("DISK_FULL", "OSError: [Errno 28] No space left on device: '/data/ckpt/iter_100'\n"),
    ("ROCE_LOSSY", "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:812345\n"),
    ("GPU_XID_79", "<4>[   12.5] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.\n" * 4),
]


@pytest.mark.parametrize("text", MORE_SILENT.values(), ids=MORE_SILENT.keys())
def test_these_are_no_faults_either(text: str) -> None:
    assert [f.code for f in diagnosed([("x", text)]).findings if f.severity is not Severity.INFO] == []


@pytest.mark.parametrize(("code", "text"), MORE_FIRST, ids=[code for code, _ in MORE_FIRST])
def test_these_causes_are_named_first(code: str, text: str) -> None:
    assert [f.code for f in diagnosed([("x", text)]).findings][:1] == [code]


def test_the_folder_of_a_file_names_the_node() -> None:
    (finding,) = diagnosed(
        [("bundle/node-17/dmesg.txt", XID.format(bus="9b", text="79, pid=7, GPU has fallen off the bus."))]
    ).findings
    assert str(finding.subject) == "gpu:node-17/0000:9b:00"


def test_lines_of_two_processes_that_ran_into_each_other_are_both_read() -> None:
    text = "h1:1:2 [0] NCCL INFO Using networkh2:3:4 [1] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"
    assert [f.code for f in diagnosed([("x", text)]).findings] == ["GDR_PEERMEM_MISSING"]
