"""One root, many echoes: which finding explains which, and in what order they are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.domain.finding import Finding, Severity

#: A code → the codes that it explains when both are found. From the decision rules of the taxonomy.
EXPLAINS: dict[str, tuple[str, ...]] = {
    "NET_IBVERBS_MISSING": ("NET_SOCKET_FALLBACK",),
    "NET_RDMA_DEVICES_MISSING": ("NET_SOCKET_FALLBACK",),
    "NET_EFA_NOT_USED": ("NET_SOCKET_FALLBACK", "NET_WRONG_IFACE"),
    "NET_WRONG_IFACE": ("NET_SOCKET_FALLBACK", "NET_FIREWALL", "NET_MULTINIC_SAME_SUBNET"),
    "NET_ADDR_NOT_LOCAL": ("NET_WRONG_IFACE", "NET_FIREWALL", "CFG_ENV_LEFTOVER"),
    "NET_GLOO_LOOPBACK": ("NET_HOSTNAME_RESOLUTION", "NET_FIREWALL"),
    "NET_HOSTNAME_RESOLUTION": ("NET_FIREWALL",),
    "NET_HOSTNAME_COLLISION": ("NET_FIREWALL", "STO_SHM_TOO_SMALL", "CFG_DUPLICATE_GPU", "P2P_HANG"),
    "NET_MULTINIC_SAME_SUBNET": ("NET_FIREWALL", "IB_RETRY_EXCEEDED", "IB_CROSS_RAIL_UNREACHABLE"),
    "SYS_KERNEL_CMA_ZERO": ("SYS_MEMLOCK_LIMIT",),
    "SYS_NOFILE_LIMIT": ("STO_SHM_TOO_SMALL",),
    "SYS_MEMLOCK_LIMIT": ("GDR_PEERMEM_MISSING", "CFG_ENV_LEFTOVER"),
    "IB_PORT_DOWN": ("IB_RETRY_EXCEEDED", "IB_LINK_FLAP", "IB_HCA_SET_MISMATCH", "IB_LINK_RATE_LOW"),
    "IB_LINK_FLAP": ("IB_RETRY_EXCEEDED", "IB_FLUSH_FOLLOWON", "APP_UNEVEN_INPUTS", "APP_COLLECTIVE_DESYNC"),
    "IB_LINK_RATE_LOW": ("PERF_EXPECTED_LINE_RATE", "ROCE_ECMP_LOW_ENTROPY"),
    "IB_LINK_ERRORS": ("IB_RETRY_EXCEEDED", "IB_CONGESTION", "ROCE_LOSSY"),
    "IB_RELAXED_ORDERING_FORCED": ("CFG_ENV_MISMATCH_RANKS",),
    "GPU_MISSING": ("APP_CUDA_ERROR_AS_NCCL",),
    "IB_WC_LOC_PROT_ERR": ("IB_FLUSH_FOLLOWON",),
    "IB_RETRY_EXCEEDED": ("IB_FLUSH_FOLLOWON",),
    "ROCE_GID_INDEX": ("IB_RETRY_EXCEEDED", "IB_FLUSH_FOLLOWON", "ROCE_NO_ROUTE"),
    "ROCE_MTU_MISMATCH": ("IB_RETRY_EXCEEDED", "IB_FLUSH_FOLLOWON"),
    "ROCE_NO_ROUTE": ("IB_RETRY_EXCEEDED",),
    "IB_CABLE_PAIRING": ("IB_CROSS_RAIL_UNREACHABLE",),
    "PCIE_ACS_ENABLED": ("IB_WC_LOC_PROT_ERR", "IB_FLUSH_FOLLOWON", "P2P_HANG", "ROCE_ECMP_LOW_ENTROPY"),
    "PCIE_IOMMU_P2P": ("P2P_HANG",),
    "PCIE_LINK_DEGRADED": ("APP_STRAGGLER",),
    "PCIE_CHIPSET_ATTACHED": ("APP_STRAGGLER",),
    "PCIE_VM_TOPOLOGY": ("GDR_PATH_TOO_FAR",),
    "PCIE_AER_ERRORS": ("PCIE_LINK_DEGRADED",),
    "CFG_RCCL_KERNEL_PARAMS": ("P2P_HANG",),
    "P2P_UNSUPPORTED_GEFORCE": ("P2P_HANG",),
    "SW_DRIVER_REGRESSION": ("P2P_HANG",),
    "P2P_SLOWER_THAN_SHM": ("CFG_ENV_LEFTOVER",),
    "GDR_AMD_KERNEL": ("GDR_PEERMEM_MISSING",),
    "GDR_PEERMEM_NOT_REGISTERED": ("GDR_PEERMEM_MISSING",),
    "FABRIC_MANAGER_DOWN": ("NVLS_BIND_FAILED", "NVLS_FM_TRANSIENT", "IMEX_NOT_READY"),
    "FABRIC_MANAGER_RESTARTED": ("NVLS_BIND_FAILED", "NVLINK_FABRIC_ERROR"),
    "NVLS_FM_TRANSIENT": ("NVLS_BIND_FAILED",),
    "IMEX_NOT_READY": ("NVLS_BIND_FAILED",),
    "NVLINK_BRIDGE_SEATING": ("NVLINK_DOWN",),
    "NVLINK_FABRIC_ERROR": ("GPU_XID_45_FOLLOWON", "GPU_XID_APP_FAULT", "NVLINK_DOWN", "NVLS_BIND_FAILED"),
    "GPU_XID_79": (
        "GPU_MISSING",
        "GPU_XID_45_FOLLOWON",
        "GPU_XID_APP_FAULT",
        "PCIE_AER_ERRORS",
        "GPU_GSP_TIMEOUT",
        "APP_CUDA_ERROR_AS_NCCL",
        "NVLINK_FABRIC_ERROR",
    ),
    "GPU_GSP_TIMEOUT": ("GPU_XID_45_FOLLOWON", "GPU_XID_APP_FAULT", "APP_CUDA_ERROR_AS_NCCL"),
    "GPU_ROW_REMAP_FAILURE": ("GPU_ROW_REMAP_PENDING", "GPU_ECC_UNCORRECTABLE", "GPU_XID_94_CONTAINED"),
    "GPU_ECC_UNCORRECTABLE": (
        "GPU_ROW_REMAP_PENDING",
        "GPU_XID_94_CONTAINED",
        "GPU_XID_45_FOLLOWON",
        "GPU_XID_APP_FAULT",
        "APP_CUDA_ERROR_AS_NCCL",
    ),
    "GPU_XID_94_CONTAINED": ("GPU_ROW_REMAP_PENDING", "GPU_XID_45_FOLLOWON", "APP_CUDA_ERROR_AS_NCCL"),
    "GPU_FAULTY_DEVICE": ("GPU_XID_APP_FAULT",),
    "GPU_XID_APP_FAULT": ("GPU_XID_45_FOLLOWON", "APP_CUDA_ERROR_AS_NCCL"),
    "GPU_THROTTLED_THERMAL": ("APP_STRAGGLER", "GPU_THROTTLED_POWER"),
    "GPU_THROTTLED_POWER": ("APP_STRAGGLER",),
    "SW_DRIVER_LIB_MISMATCH": ("SW_DRIVER_TOO_OLD", "GPU_MISSING"),
    "SW_CUMEM_HOST_ASYMMETRIC": ("STO_SHM_TOO_SMALL",),
    "CFG_MIG_UNSUPPORTED": ("CFG_DUPLICATE_GPU",),
    "CFG_ENV_LEFTOVER": ("NET_SOCKET_FALLBACK", "P2P_HANG"),
    "STO_SHM_STALE_FILES": ("STO_SHM_TOO_SMALL",),
    "APP_OOM_AS_NCCL": ("APP_COLLECTIVE_DESYNC", "APP_UNEVEN_INPUTS", "APP_CUDA_ERROR_AS_NCCL"),
    "APP_SHAPE_MISMATCH": ("APP_COLLECTIVE_DESYNC", "CFG_ENV_MISMATCH_RANKS"),
    "APP_COLLECTIVE_DESYNC": ("APP_UNEVEN_INPUTS", "APP_STRAGGLER"),
    "APP_UNEVEN_INPUTS": ("APP_STRAGGLER",),
    "APP_CHECKPOINT_STALL": ("APP_STRAGGLER",),
    "RANK_LOST": ("APP_COLLECTIVE_DESYNC", "APP_UNEVEN_INPUTS", "APP_STRAGGLER"),
    "DISK_FULL": ("APP_CHECKPOINT_STALL",),
    "HW_BAD_NODE": ("IB_ROUTING_COLLISION", "APP_STRAGGLER"),
}
#: What makes collectives slow, and so explains a bandwidth below the expected one.
_SLOWS = (
    "NET_",
    "GDR_",
    "PCIE_",
    "NVLINK_",
    "IB_",
    "ROCE_",
    "CFG_",
    "P2P_",
    "GPU_",
    "HW_",
    "SW_",
    "FABRIC_",
    "NVLS_",
)
#: Hardware first, then what is local to a host, then connections, then shapes and symptoms.
_FIRST = ("GPU_XID", "GPU_ECC", "GPU_ROW", "GPU_GSP", "NVLINK", "FABRIC", "PCIE_AER", "GPU_", "NVLS_FM")
_THEN = ("STO_", "SYS_", "APP_OOM", "SW_", "IMEX")
_LAST = (
    "PERF_BELOW",
    "P2P_HANG",
    "IB_RETRY",
    "IB_WC",
    "IB_FLUSH",
    "NVLS_BIND",
    "ROCE_ECMP",
    "APP_STRAGGLER",
    "APP_CUDA",
)


def _tier(code: str) -> int:
    for tier, starts in ((3, _LAST), (0, _FIRST), (1, _THEN)):
        if code.startswith(starts):
            return tier
    return 2


def fold(findings: Sequence[Finding]) -> list[Finding]:
    """Join findings of one code and subject, mark those that another explains, and rank them all."""
    joined: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        key = (finding.code, str(finding.subject))
        other = joined.get(key)
        joined[key] = finding if other is None else _join(other, finding)
    weakest_first = sorted(joined.values(), key=lambda f: f.confidence_frac)
    best = {f.code: f for f in weakest_first}
    marked = [_explained(finding, best) for finding in joined.values()]
    return sorted(marked, key=_rank)


def _join(first: Finding, second: Finding) -> Finding:
    surer, other = (first, second) if first.confidence_frac >= second.confidence_frac else (second, first)
    both = {(e.file, e.line): e for e in (*surer.evidence, *other.evidence)}
    return replace(surer, evidence=tuple(both.values())[:8])


def _explained(finding: Finding, best: dict[str, Finding]) -> Finding:
    """A cause explains only what it is at least nearly as sure as."""
    for code, cause in best.items():
        nearly = cause.confidence_frac >= finding.confidence_frac - 0.25 or finding.severity is Severity.INFO
        slowed = finding.code == "PERF_BELOW_EXPECTED" and code.startswith(_SLOWS)
        if (slowed or finding.code in EXPLAINS.get(code, ())) and nearly:
            return replace(finding, follows_from=code)
    return finding


def _rank(finding: Finding) -> tuple[bool, bool, int, int, int, float, str]:
    sure = finding.confidence_frac
    bucket = 0 if sure >= 0.75 else 1 if sure >= 0.5 else 2
    return (
        finding.follows_from is not None,
        finding.severity is Severity.INFO,
        bucket,
        _tier(finding.code),
        finding.severity.rank,
        -sure,
        finding.code + str(finding.subject),
    )
