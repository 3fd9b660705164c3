"""dmesg and journal text: Xid and SXid, GPUs that fell off the bus, AER, IOMMU faults, NIC links, OOM."""

from __future__ import annotations

from assay.formats.sentences import Sentence

_BDF = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?"

SENTENCES = (
    Sentence(
        "gpu.xid",
        "Xid",
        r"Xid \((?:PCI:)?(?P<busid>[0-9a-fA-F:.]+)\): (?P<xid>\d+)(?:, pid='?<?(?P<pid>[\w ]+)>?'?)?"
        r"(?:.*?caused by previous Xid (?P<cause>\d+))?",
    ),
    Sentence("gpu.xid", "Xid", r"(?i)\bXid[: ]+(?P<xid>\d+)\b(?!.*PCI:)"),
    Sentence("gpu.xid", "XID", r"\bXID[: ]+(?P<xid>\d+)\b(?!.*PCI:)"),
    Sentence(
        "gpu.sxid",
        "SXid",
        r"SXid \(PCI:(?P<busid>[0-9a-fA-F:.]+)\): (?P<sxid>\d+)(?:, (?P<kind>Fatal|Non-fatal))?",
    ),
    Sentence("amd.reset", "reset", rf"amdgpu (?P<busid>{_BDF}): .*GPU reset begin"),
    Sentence(
        "amd.memory_error",
        "uncorrectable",
        rf"amdgpu (?P<busid>{_BDF}): .*[1-9]\d* uncorrectable hardware errors",
    ),
    Sentence("amd.access_fault", "fault", r"Memory access fault by GPU node-\d+"),
    Sentence("amd.access_fault", "fault", rf"amdgpu (?P<busid>{_BDF}): .*page fault"),
    Sentence("amd.hang", "Hang", r"HW Exception by GPU node-\d+.*GPU Hang"),
    Sentence("gpu.off_bus", "fallen", r"fallen off the bus"),
    Sentence("gpu.named", "NVIDIA", r"The NVIDIA GPU (?P<busid>" + _BDF + r")"),
    Sentence(
        "nvlink.dcgm_down",
        "NvLink",
        r"GPU (?P<index>\d+)'s NvLink link (?P<link>\d+) is currently down",
    ),
    Sentence("gpu.probe_failed", "probe", r"NVIDIA probe routine failed for (?P<count>\d+) device"),
    Sentence(
        "gpu.init_failed",
        "GPU",
        r"NVRM: GPU (?P<busid>" + _BDF + r"): (?:RmInitAdapter|rm_init_adapter) failed",
    ),
    Sentence("sw.lib_mismatch", "API", r"NVRM: API mismatch: the client has the version"),
    Sentence(
        "gpu.no_handle", "handle", r"Unable to determine the device handle for GPU ?(?P<busid>" + _BDF + ")"
    ),
    Sentence(
        "iommu.fault",
        "IO_PAGE_FAULT",
        r"(?P<busid>" + _BDF + r").*IO_PAGE_FAULT|IO_PAGE_FAULT.*device=(?P<device>" + _BDF + ")",
    ),
    Sentence(
        "iommu.fault",
        "DMAR",
        r"DMAR:.*(?:\[DMA (?:Write|Read)[^\]]*\] )?Request device \[?(?P<busid>" + _BDF + r")\]?.*fault",
    ),
    Sentence("iommu.translated", "iommu", r"iommu: Default domain type: (?P<type>\w+)"),
    Sentence("iommu.fault", "F_TRANSLATION", r"smmu.*event: F_TRANSLATION client: (?P<busid>" + _BDF + ")"),
    Sentence(
        "pcie.limited",
        "limited",
        r"(?P<busid>" + _BDF + r").*available PCIe bandwidth, limited by (?P<speed>[\d.]+) GT/s PCIe "
        r"x(?P<width>\d+) link at (?P<at>\S+) \(capable of (?P<able>[\d.]+) Gb/s",
    ),
    Sentence(
        "pcie.aer",
        "AER",
        r"(?P<busid>" + _BDF + r").*AER: (?:.*?)(?P<severity>Corrected|Correctable|Uncorrected|Uncorrectable)"
        r"|AER: (?:Multiple )?(?P<severity2>Corrected|Uncorrected)(?: \(\S+\))? error "
        r"(?:message )?received: (?P<source>\S+)",
    ),
    Sentence(
        "pcie.aer",
        "PCIe",
        r"(?P<busid>" + _BDF + r").*PCIe Bus Error: severity=(?P<severity>Corrected|Uncorrected)",
    ),
    Sentence(
        "nic.link_down", "Link", r"mlx5_core (?P<busid>" + _BDF + r")\s*(?P<name>\w+)?:.*Link (?:DOWN|down)"
    ),
    Sentence("nic.link_down", "link", r"mlx5_core (?P<busid>" + _BDF + r").*[Ll]ink (?:DOWN|down)"),
    Sentence("nic.link_down", "Link", r"(?P<name>(?:mlx5|bnxt|ib)\w+):.*Link (?:is )?(?:DOWN|Down|down)"),
    Sentence(
        "nic.link_down",
        "module",
        r"mlx5_core (?P<busid>" + _BDF + r").*Port module event(?:\[error\])?: module \d+, "
        r"(?:Cable unplugged|Cable error)",
    ),
    Sentence("nic.link_down", "DOWN", r"mlx5_ib.*(?P<name>mlx5_\w+) port \d+ .*(?:to|is) DOWN"),
    Sentence("nic.link_up", "Link", r"mlx5_core (?P<busid>" + _BDF + r").*Link (?:UP|up|ACTIVE)"),
    *(
        Sentence("nic.unwell", word, rf"mlx5_core (?P<busid>{_BDF}).*(?P<what>{pattern})")
        for word, pattern in (
            ("compromised", r"health compromised"),
            ("recovery", r"health recovery failed"),
            ("Fatal", r"Fatal error \d+ detected"),
            ("insufficient", r"insufficient power on the PCIe slot"),
            ("temperature", r"High temperature"),
            ("teardown", r"teardown.*fail"),
        )
    ),
    Sentence("host.memory_error", "EDAC", r"EDAC \S+: \d+ UE "),
    Sentence("host.memory_error", "Hardware", r"(?i)hardware error\]?.*(?:uncorrected|fatal|panic)"),
    Sentence("host.memory_error", "Uncorrected", r"(?i)uncorrected hardware memory error"),
    Sentence("kernel.lockup", "lockup", r"BUG: soft lockup - CPU#\d+ stuck for \d+s"),
    Sentence("kernel.lockup", "LOCKUP", r"hard LOCKUP on cpu \d+"),
    Sentence("kernel.lockup", "stall", r"rcu.* self-detected stall"),
    Sentence("kernel.hung", "blocked", r"task (?P<task>\S+) blocked for more than (?P<seconds>\d+) seconds"),
    *(
        Sentence("disk.failed", word, pattern)
        for word, pattern in (
            ("timeout", r"nvme\d+: I/O .*timeout"),
            ("controller", r"nvme\d+: controller is down"),
            ("Removing", r"nvme\d+: Removing after probe failure"),
            ("error", r"I/O error, dev \w+|(?:EXT4-fs|BTRFS|F2FS-fs) (?:error|critical)"),
            ("BTRFS", r"BTRFS (?:error|critical)"),
            ("Remounting", r"Remounting filesystem read-only"),
            ("Corruption", r"XFS .*Corruption"),
        )
    ),
    *(
        Sentence("fs.unreachable", word, pattern)
        for word, pattern in (
            ("Lustre", r"Lustre: .*Connection to (?P<target>\S+) .*was lost"),
            ("LustreError", r"LustreError: .* (?P<target>\S+): operation \S+ to node \S+ failed"),
            ("server", r"nfs: server (?P<target>\S+) not responding"),
            ("ceph", r"ceph: mds\d+ (?:hung|caps stale)|libceph: osd\d+ .*down"),
            ("mmfs", r"(?:node|disk) lease overdue|mmfs:.*(?:Expelled|unmounted)"),
        )
    ),
    Sentence("kernel.oom", "oom_kill", r"Detected \d+ oom_kill event"),
    Sentence("kernel.oom", "Evicted", r"Evicted.*low on resource: memory"),
    Sentence("kernel.oom", "OOMKilled", r"OOMKilled"),
    Sentence("kernel.oom", "Killed", r"(?i)out of memory: Killed process (?P<killed>\d+)|oom-kill"),
    Sentence(
        "ib.fabric_error",
        "lid",
        r"^-E-.*(?:symbol_error|link_down|port_rcv_errors|link_error_recovery|effective_ber|exceeded)",
    ),
    *(
        Sentence("ib.fabric_error", word, rf"^\s*{word}\s*:\s*[1-9]\d+")
        for word in (
            "symbol_error_counter",
            "link_downed_counter",
            "port_rcv_errors",
            "link_error_recovery_counter",
        )
    ),
    Sentence("module.peermem", "nvidia_peermem", r"nvidia_peermem: module loaded"),
)
#: Lines of a kernel log, whatever they say: known, though nothing follows from them.
LINE = (
    r"(?:\[\s*\d+\.\d+\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]+ \d{4}\] |kernel: "
    r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S+ \S+?(?:\[\d+\])?: |\s+NVRM: )"
)
