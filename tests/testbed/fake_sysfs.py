"""A fabricated machine: the /sys, /proc, /etc and /dev that a GPU server with RDMA adapters would show.

`build(top)` writes a healthy one with two sockets, two NVIDIA GPUs and two 400 Gbit/s adapters; a test
then changes single files with `write`.
"""

from __future__ import annotations

from pathlib import Path

COUNTERS = (
    "port_xmit_data",
    "port_rcv_data",
    "port_xmit_packets",
    "port_rcv_packets",
    "symbol_error",
    "link_downed",
    "link_error_recovery",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "VL15_dropped",
)
HW_COUNTERS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "out_of_buffer",
    "np_cnp_sent",
    "rp_cnp_handled",
    "np_ecn_marked_roce_packets",
    "roce_adp_retrans",
    "roce_slow_restart",
    "rx_icrc_encapsulated",
)

LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max core file size        0                    unlimited            bytes
Max processes             96364                96364                processes
Max open files            1048576              1048576              files
Max locked memory         unlimited            unlimited            bytes
"""

MEMINFO = """\
MemTotal:       2113512448 kB
MemAvailable:   2000000000 kB
SwapTotal:             0 kB
SwapFree:              0 kB
CmaTotal:              0 kB
"""

#: Of process time, 5 % is stolen: user nice system idle iowait irq softirq steal guest guest_nice.
STAT = "cpu  500 0 100 9000 0 0 0 505 0 0\ncpu0 500 0 100 9000 0 0 0 505 0 0\n"

ACS_REDIRECTING = 0x1D
ACS_VALIDATING_ONLY = 0x01


def write(path: Path, text: str | bytes) -> None:
    """Write one file as the kernel would show it, with the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(text, bytes):
        path.write_bytes(text)
    else:
        path.write_text(text if text.endswith("\n") else text + "\n")


def build(top: Path, *, adapters: int = 2, gpus: int = 2) -> Path:
    """Write a healthy machine below `top`, and give `top` back."""
    _proc(top / "proc")
    _system(top)
    for i in range(gpus):
        gpu(top, f"0000:{0x1A + i:02x}:00.0", vendor="0x10de", pci_class="0x030200")
    for i in range(adapters):
        adapter(top, i)
    interface(top, "eth0", mbit_per_s=25000)
    bridge(top, "0000:00:01.0", acs=ACS_VALIDATING_ONLY)
    return top


def pci_device(top: Path, address: str, *, numa_node: int = 0) -> Path:
    """A device on the bus with a x16 link of generation 5, and the link to it from the list of devices."""
    device = top / "sys/devices/pci0000:00" / address
    write(device / "current_link_speed", "32.0 GT/s PCIe")
    write(device / "max_link_speed", "32.0 GT/s PCIe")
    write(device / "current_link_width", "16")
    write(device / "max_link_width", "16")
    write(device / "numa_node", str(numa_node))
    listed = top / "sys/bus/pci/devices" / address
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.symlink_to(device)
    return device


def gpu(top: Path, address: str, *, vendor: str, pci_class: str) -> Path:
    """A GPU as the bus lists it."""
    device = pci_device(top, address)
    write(device / "vendor", vendor)
    write(device / "class", pci_class)
    return device


def amd_card(top: Path, index: int, address: str) -> Path:
    """An MI300X as the amdgpu driver shows it."""
    device = gpu(top, address, vendor="0x1002", pci_class="0x120000")
    write(device / "product_name", "AMD Instinct MI300X OAM")
    write(device / "unique_id", f"0x5f0b7b2e1c00000{index}")
    write(device / "mem_info_vram_total", str(192 * 2**30))
    write(device / "mem_info_vram_used", str(300 * 2**20))
    write(device / "current_compute_partition", "SPX")
    write(device / "hwmon/hwmon3/power1_average", "141000000")
    write(device / "hwmon/hwmon3/power1_cap", "750000000")
    write(device / "hwmon/hwmon3/temp1_input", "41000")
    card = top / "sys/class/drm" / f"card{index}"
    card.mkdir(parents=True)
    (card / "device").symlink_to(device)
    return device


def bridge(top: Path, address: str, *, acs: int | None) -> Path:
    """A PCI bridge whose extended config space holds the access control register `acs`."""
    device = pci_device(top, address)
    write(device / "class", "0x060400")
    config = bytearray(4096)
    # Advanced error reporting at 0x100, which points to access control at 0x148.
    config[0x100:0x104] = (0x0001 | 1 << 16 | (0x148 << 20 if acs is not None else 0)).to_bytes(4, "little")
    if acs is not None:
        config[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        config[0x14E:0x150] = acs.to_bytes(2, "little")
    write(device / "config", bytes(config))
    return device


def adapter(top: Path, index: int) -> Path:
    """A ConnectX-7 with one InfiniBand port at NDR."""
    device = pci_device(top, f"0000:{0x40 + index:02x}:00.0", numa_node=index % 2)
    write(device / "class", "0x020700")
    (device / "net" / f"ib{index}").mkdir(parents=True)
    (device / "driver").symlink_to(top / "sys/bus/pci/drivers/mlx5_core")
    card = top / "sys/class/infiniband" / f"mlx5_{index}"
    write(card / "hca_type", "MT4129")
    write(card / "fw_ver", "28.39.2048")
    write(card / "board_id", "MT_0000000838")
    write(card / "node_guid", f"a088:c203:00e0:{index:04x}")
    (card / "device").symlink_to(device)
    port = card / "ports/1"
    write(port / "state", "4: ACTIVE")
    write(port / "phys_state", "5: LinkUp")
    write(port / "rate", "400 Gb/sec (4X NDR)")
    write(port / "link_layer", "InfiniBand")
    for place, names in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
        for i, name in enumerate(names):
            write(port / place / name, str(i % 10 * index))
    return card


def interface(top: Path, name: str, *, mbit_per_s: int) -> Path:
    """An Ethernet interface without a device behind it, as in a container."""
    directory = top / "sys/class/net" / name
    write(directory / "operstate", "up")
    write(directory / "mtu", "9000")
    write(directory / "speed", str(mbit_per_s))
    for statistic in ("bytes", "packets", "errors", "dropped"):
        write(directory / f"statistics/rx_{statistic}", "10")
        write(directory / f"statistics/tx_{statistic}", "20")
    return directory


def _proc(proc: Path) -> None:
    """Two sockets of two cores of two threads each, in no container and with no limits but a quota."""
    processors = [
        f"processor\t: {i}\nmodel name\t: Intel(R) Xeon(R) Platinum 8480C\nphysical id\t: {i // 4}\n"
        f"core id\t\t: {i // 2 % 2}\nflags\t\t: fpu vme de\n"
        for i in range(8)
    ]
    write(proc / "cpuinfo", "\n".join(processors))
    write(proc / "meminfo", MEMINFO)
    write(proc / "stat", STAT)
    write(proc / "loadavg", "1.50 1.20 0.90 3/1234 5678")
    write(proc / "uptime", "86400.25 600000.00")
    write(proc / "cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 iommu=pt intel_iommu=on")
    write(proc / "self/limits", LIMITS)
    write(proc / "self/cgroup", "0::/system.slice/job_7")
    write(proc / "self/mountinfo", "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw")
    (proc / "self/ns").mkdir(parents=True)
    (proc / "self/ns/pid").symlink_to("pid:[4026531836]")
    write(proc / "1/cgroup", "0::/init.scope")
    write(proc / "sys/kernel/random/boot_id", "c3803d89-3b11-4130-9bcc-27ee2b7b9f88")
    write(proc / "sys/kernel/osrelease", "5.15.0-105-generic")
    write(proc / "sys/kernel/core_pattern", "|/usr/share/apport/apport %p")
    write(proc / "sys/kernel/numa_balancing", "1")


def _system(top: Path) -> None:
    sys, etc = top / "sys", top / "etc"
    write(sys / "class/dmi/id/sys_vendor", "NVIDIA")
    write(sys / "class/dmi/id/product_name", "DGXH100")
    write(sys / "class/dmi/id/product_serial", "1660224000001")
    write(sys / "class/dmi/id/bios_version", "1.01.03")
    for node in range(2):
        write(sys / f"devices/system/node/node{node}/cpulist", "0-3")
    for cpu in range(8):
        write(sys / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", "performance")
    write(sys / "devices/system/clocksource/clocksource0/current_clocksource", "tsc")
    write(sys / "fs/cgroup/system.slice/job_7/cpu.max", "400000 100000")
    write(sys / "fs/cgroup/system.slice/cpu.max", "max 100000")
    write(sys / "fs/cgroup/system.slice/job_7/memory.max", str(512 * 2**30))
    write(sys / "kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    write(sys / "kernel/iommu_groups/0/type", "identity")
    write(sys / "module/nvidia/version", "550.54.15")
    write(sys / "module/nvidia_peermem/version", "550.54.15")
    write(etc / "os-release", 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 22.04.4 LTS"')
    write(etc / "nccl.conf", "# site\nNCCL_IB_HCA=mlx5_0,mlx5_1\nNCCL_DEBUG = WARN\nnonsense")
    (top / "dev/shm").mkdir(parents=True)
    write(top / "dev/shm/nccl-a1B2c3", "x")
    write(top / "usr/local/cuda/version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}')
    write(
        top / "usr/bin/ofed_info",
        '#!/bin/bash\nif [ "$1" == "-s" ]; then echo MLNX_OFED_LINUX-23.10-2.1.3.1:',
    )
    library = top / "usr/lib/x86_64-linux-gnu"
    write(library / "libnccl.so.2.21.5", "")
    (library / "libnccl.so.2").symlink_to("libnccl.so.2.21.5")
