"""What people paste from a shell on the node: limits, modules, services, versions, mounts, jobs.

A prompt line (`$ lsmod | grep peermem`) tells what the next lines are; some facts are known only from
an answer that stays empty.
"""

from __future__ import annotations

import re

from assay.formats import slurm_state
from assay.formats.sentences import Sentence

#: A command line as pasted, with or without host and user before the prompt.
PROMPT = re.compile(r"^(?:[\w.@~:/\[\]-]+)?[$#>] (?P<command>(?!thread|Rank|Using|Out of|Avg|nThread)\S.*)$")

SENTENCES = (
    Sentence("live.no_answer", "answer", r"^assay: (?P<host>\S+) (?:did not answer|gave no whole answer)"),
    Sentence("host.cma_total", "CmaTotal", r"CmaTotal:\s+(?P<kB>\d+) kB"),
    Sentence("limit.memlock", "locked", r"max locked memory\s+\(kbytes, -l\)\s+(?P<value>\d+|unlimited)"),
    Sentence("limit.memlock", "Max", r"Max locked memory\s+(?P<value>\d+|unlimited)"),
    Sentence("limit.nofile", "files", r"(?:open files\s+\(-n\)|Max open files)\s+(?P<value>\d+|unlimited)"),
    Sentence("module.loaded", "nvidia_peermem", r"^(?P<name>nvidia_peermem)\s+\d+\s+\d+"),
    Sentence("module.loaded", "nv_peer_mem", r"^(?P<name>nv_peer_mem)\s+\d+\s+\d+"),
    Sentence("peermem.unregistered", "memory_peers", r"memory_peers/(?P<name>\w+)/version'?:? ?No such file"),
    Sentence("peermem.registered", "GDR", r"^GDR is enabled|^GPUDirect RDMA is enabled"),
    Sentence("host.kernel", "Linux", r"Linux version (?P<release>\d+\.\d+\S*)"),
    Sentence("fm.inactive", "inactive", r"^inactive$|Active: inactive|nvidia-fabricmanager.*inactive"),
    Sentence("fm.inactive", "found", r"Unit nvidia-fabricmanager(?:\.service)? could not be found"),
    Sentence("fm.failed", "failed", r"Active: failed|nvidia-fabricmanager.*(?:failed|Failed)"),
    Sentence("fm.active", "active", r"^active$|Active: active \(running\)"),
    Sentence("fm.stopped", "Stopped", r"Stopped (?:NVIDIA )?fabric manager|Stopped nvidia-fabricmanager"),
    Sentence("fm.started", "Started", r"Started (?:NVIDIA )?fabric manager|Started nvidia-fabricmanager"),
    Sentence(
        "fm.switch_error", "NVSwitch", r"detected NVSwitch (?P<kind>fatal|non-fatal) error (?P<sxid>\d+)"
    ),
    Sentence(
        "imex.missing",
        "imex",
        r"(?:nvidia-imex|nvidia-caps-imex-channels|imex).*"
        r"(?:inactive|could not be found|No such file|not (?:running|ready|found)|DOWN|failed)",
    ),
    Sentence(
        "imex.missing", "IMEX", r"IMEX.*(?:not (?:running|ready|found)|unavailable|DOWN|UNAVAILABLE|No such)"
    ),
    Sentence("imex.missing", "Domain", r"Domain State: (?:DEGRADED|DOWN|INVALID|UNAVAILABLE)"),
    Sentence("imex.missing", "Node", r"^Node #\d+ +- +(?P<addr>\S+) +- +(?!READY)(?P<state>[A-Z_]{4,})\b"),
    Sentence(
        "fm.mismatch",
        "fabric",
        r"fabric manager .*version \S+ (?:don't|does not|doesn't) match with driver version",
    ),
    Sentence(
        "gpu.thermal_violation", "thermal", r"clocks? throttl\w+ due to (?:\w+ )?thermal|thermal violation"
    ),
    Sentence(
        "gpu.gres_short",
        "gres",
        r"gres/gpu count reported lower than configured \((?P<have>\d+) < (?P<want>\d+)\)",
    ),
    Sentence("host.affinity", "affinity", r"pid (?P<process>\d+)'s current affinity list: (?P<list>[\d,-]+)"),
    Sentence("ib.ber", "BER", r"Effective Physical BER\s*:\s*(?P<ber>\d+(?:\.\d+)?[eE]-?\d+)"),
    Sentence("sw.lib_mismatch", "mismatch", r"Driver/library version mismatch"),
    Sentence("sw.driver", "Driver", r"Driver Version(?: Detected)?\s*[:|]\s*(?P<version>\d+\.\d+(?:\.\d+)?)"),
    Sentence("sw.driver", "Kernel", r"NVRM version:.*?(?P<version>\d{3}\.\d+(?:\.\d+)?)\s"),
    Sentence("sw.driver", "UNIX", r"loading NVIDIA UNIX .*?(?P<version>\d{3}\.\d+(?:\.\d+)?)\s"),
    Sentence(
        "sw.nccl_package",
        "nccl",
        r"^(?P<name>nvidia[-_]nccl[-_]cu\d+)\s*(?:==|\s)\s*(?P<version>\d+\.\d+\.\d+\S*)",
    ),
    Sentence("gpu.listed", "UUID", r"^GPU (?P<index>\d+): (?P<name>.+?) \(UUID: GPU-"),
    Sentence(
        "gpu.row",
        "NVIDIA",
        r"^\|\s+(?P<index>\d+)\s+(?P<name>NVIDIA [^|]*?)\s+(?:On|Off|N/A)\s*\|",
    ),
    Sentence("gpu.row", "GeForce", r"^\|\s+(?P<index>\d+)\s+(?P<name>GeForce [^|]*?)\s+(?:On|Off|N/A)\s*\|"),
    Sentence("gpu.row", "Tesla", r"^\|\s+(?P<index>\d+)\s+(?P<name>Tesla [^|]*?)\s+(?:On|Off|N/A)\s*\|"),
    *(
        Sentence(
            "gpu.table",
            word,
            r"^\|\s+(?P<index>\d+)\s+(?P<name>\S.*?)\s+(?:On|Off|N/A)\s*\|\s+"
            r"(?P<busid>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s+(?:On|Off|N/A)\s*\|\s+(?P<errors>\d+|ERR!)",
        )
        for word in ("On", "Off")
    ),
    *(
        Sentence("dcgm.health", word, r"^\|\s+->\s+(?P<index>\d+)\s+\|\s+(?P<status>Failure|Warning)")
        for word in ("Failure", "Warning")
    ),
    Sentence("dcgm.health_memory", "uncorrectable", r"^\|.*uncorrectable memory error"),
    Sentence("gpu.mig", "MIG", r"^\s*MIG \d+g\.\d+gb|^\| MIG devices:"),
    Sentence(
        "gpu.csv",
        "NVIDIA",
        r"^(?P<index>\d+), (?P<name>(?:NVIDIA|Tesla|GeForce)[^,]+), (?P<driver>\d+\.\d+[.\d]*)$",
    ),
    Sentence("dcgm.device_ids", "Device", r"GPU Device IDs Detected\s*\|\s*(?P<ids>[0-9a-fA-F,]+)"),
    Sentence("cfg.numa_balancing", "numa_balancing", r"numa_balancing\s*[=:]\s*(?P<value>[01])\b"),
    Sentence("mlx.relaxed_ordering", "PCI_WR_ORDERING", r"PCI_WR_ORDERING\s+(?P<value>\w+)"),
    Sentence(
        "shm.mount",
        "dev",
        r"^(?P<fs>\S+)\s+(?P<size>[\d.]+[KMGTP]?)\s+(?P<used>[\d.]+[KMGTP]?)\s+"
        r"(?P<avail>[\d.]+[KMGTP]?)\s+(?P<use>\d+)%\s+/dev/shm$",
    ),
    Sentence(
        "shm.mount",
        "shm",
        r"^(?P<fs>\S+)\s+(?P<size>[\d.]+[KMGTP]?)\s+(?P<used>[\d.]+[KMGTP]?)\s+"
        r"(?P<avail>[\d.]+[KMGTP]?)\s+(?P<use>\d+)%\s+/dev/shm$",
    ),
    Sentence(
        "shm.file", "nccl", r"^-rw\S*\s+\d+\s+\S+\s+\S+\s+(?P<size>\d+)\s+(?P<date>.*?)\s+(?P<name>nccl-\S+)$"
    ),
    Sentence("k8s.no_rdma", "RDMA", r"missing RDMA device spec|RDMA device .*not found"),
    Sentence("k8s.no_rdma", "rdma", r"Insufficient rdma/|no devices in device pool"),
    Sentence("k8s.no_rdma", "devices", r"no devices in device pool, creating empty resource server"),
    *(
        Sentence("k8s.section", word, rf"^\s*\"?(?P<name>{word})( resources)?\"?:")
        for word in ("Capacity", "Allocatable", "Limits", "Requests", "Allocated")
    ),
    *(
        Sentence("k8s.section", word, rf"^\s*\"?(?P<name>{word})\"?:")
        for word in ("capacity", "allocatable", "limits", "requests")
    ),
    Sentence("gpu.label", "product", r"nvidia\.com/gpu\.product\"?[=:]\s*\"?(?P<name>[\w-]+)"),
    *(
        Sentence("nvlink.all_inactive", word, r"(?i)nvlink information as all links are inactive")
        for word in ("Nvlink", "NVLink", "NvLink")
    ),
    Sentence("k8s.gpus", "nvidia", r"nvidia\.com/gpu\"?:\s+\"?(?P<count>\d+)"),
    Sentence("net.mtu", "mtu", r"^\d+: (?P<iface>[^:@]+)(?:@\S+)?: <[^>]*>.* mtu (?P<mtu>\d+)"),
    Sentence("net.address", "inet", r"^\s+inet (?P<addr>\d+\.\d+\.\d+\.\d+)/(?P<bits>\d+).*?(?P<iface>\S+)$"),
    Sentence(
        "net.address", "inet", r"^\d+: (?P<iface>\S+)\s+inet (?P<addr>\d+\.\d+\.\d+\.\d+)/(?P<bits>\d+)"
    ),
    Sentence(
        "net.address",
        "UP",
        r"^(?P<iface>[\w.@-]+)\s+UP\s+(?P<addr>\d+\.\d+\.\d+\.\d+)/(?P<bits>\d+)",
    ),
    Sentence(
        "ib.netdev", "port", r"^(?P<dev>\w+) port (?P<port>\d+) ==> (?P<iface>\S+) \((?P<state>Up|Down)\)"
    ),
    Sentence("host.virtual", "running", r"^\s*\d+\s+\S+\s+running$"),
    Sentence("host.virtual", "Hypervisor", r"Hypervisor (?:vendor|detected):"),
    *(Sentence("host.virtual", kind, rf"^{kind}$") for kind in ("kvm", "qemu", "vmware", "microsoft", "xen")),
    Sentence("host.ats", "ATSCtl", r"ATSCtl:\s*Enable\+"),
    Sentence("host.slow_query", "real", r"^real\s+(?P<minutes>\d+)m(?P<seconds>[\d.]+)s"),
    *slurm_state.SENTENCES,
    Sentence("disk.quota", "quota", r"Disk quota exceeded"),
    Sentence(
        "net.route",
        "src",
        r"^(?P<net>\d+\.\d+\.\d+\.\d+)/(?P<bits>\d+) dev (?P<iface>\S+) .*\bsrc (?P<addr>[\d.]+)",
    ),
    Sentence("net.flags", "flags", r"^(?P<iface>[\w.-]+): flags=\d+<"),
    Sentence(
        "net.netmask",
        "netmask",
        r"^\s+inet (?P<addr>\d+\.\d+\.\d+\.\d+)\s+netmask (?P<mask>\d+\.\d+\.\d+\.\d+)",
    ),
    Sentence("slurm.error", "error", r"^(?:srun|slurmstepd): error: (?P<what>.*)"),
    Sentence("munge.clock", "clocks", r"[Cc]heck for out of sync clocks"),
    Sentence("munge.clock", "credential", r"[Jj]ob credential expired"),
    Sentence("clock.skew", "moved", r"modification time of \S+ moved backwards by \d+ seconds"),
    Sentence("munge.clock", "credential", r"(?:Rewound|Expired) credential"),
    Sentence("clock.skew", "skew", r"[Cc]lock skew"),
    Sentence("conf.file", "conf", r"(?P<path>/etc/nccl\.conf|\.nccl\.conf)"),
    Sentence("xla.error", "XlaRuntimeError", r"XlaRuntimeError"),
)
#: Settings written into a command line or a comment: `-x NCCL_ALGO=RING`, `# NCCL_P2P_DISABLE=1`.
SETTINGS = re.compile(r"\b(R?NCCL_[A-Z0-9_]+)=(\S+)")
#: A line of /etc/nccl.conf, of `env`, or of a job script.
VARIABLE = re.compile(r"^(?:export )?(?P<name>R?NCCL_[A-Z0-9_]+)=[\"']?(?P<value>[^\s\"']*)[\"']?\s*$")
