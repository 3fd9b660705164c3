"""Rules whose proof is one sentence of a log: whoever says it has the fault, whatever else is going on."""

from __future__ import annotations

from collections.abc import Iterator

from assay.doctor.facts import Facts, Job
from assay.doctor.registry import LIKELY, PROVEN, found, host_of, node, rule
from assay.domain.finding import Finding

#: Code → facts that prove it, the kind of text they stand in, and how sure they make it.
TABLE: tuple[tuple[str, tuple[str, ...], str, float], ...] = (
    ("NET_ADDR_NOT_LOCAL", ("net.no_subnet", "net.bind_failed"), "nccl log", PROVEN),
    ("NET_GLOO_LOOPBACK", ("gloo.connect_loopback", "gloo.loopback"), "torch log", PROVEN),
    ("NET_NO_INTERFACE", ("net.no_interface",), "nccl log", PROVEN),
    ("NET_RDMA_DEVICES_MISSING", ("k8s.no_rdma",), "shell", PROVEN),
    ("SYS_NOFILE_LIMIT", ("os.nofile",), "nccl log", PROVEN),
    ("IB_HCA_UNUSABLE", ("ib.no_device",), "nccl log", PROVEN),
    ("SHARP_PORT_USED_BY_SM", ("sharp.port_used_by_sm",), "nccl log", PROVEN),
    ("SHARP_AM_NOT_ON_SM", ("sharp.not_on_sm",), "nccl log", PROVEN),
    ("SHARP_UNAVAILABLE", ("sharp.no_job",), "nccl log", PROVEN),
    ("NVLINK_P2P_DISABLED", ("nccl.p2p_disabled",), "nccl log", PROVEN),
    ("SW_NCCL_ARCH_MISSING", ("nccl.symbol_missing", "cuda.symbol_missing"), "nccl log", PROVEN),
    ("SW_DRIVER_TOO_OLD", ("cuda.driver_too_old",), "torch log", PROVEN),
    ("SW_DRIVER_LIB_MISMATCH", ("sw.lib_mismatch",), "shell", PROVEN),
    ("CFG_RCCL_KERNEL_PARAMS", ("rccl.kernel_params",), "nccl log", PROVEN),
    ("NET_PORT_IN_USE", ("net.port_taken",), "torch log", PROVEN),
    ("GPU_ECC_UNCORRECTABLE", ("cuda.ecc",), "torch log", PROVEN),
    ("APP_SHAPE_MISMATCH", ("torch.fingerprint", "torch.shapes"), "torch log", PROVEN),
)


def _of(code: str, facts_named: tuple[str, ...], kind: str, sure: float) -> None:
    @rule(code, reads=(kind,))
    def said(facts: Facts, job: Job) -> Iterator[Finding]:
        lines = facts.all(*facts_named)
        if lines:
            hosts = {host for line in lines if (host := host_of(line))}
            yield found(code, lines, sure=sure, subject=node(hosts.pop() if len(hosts) == 1 else None))


for _row in TABLE:
    _of(*_row)


@rule("NET_HOSTNAME_RESOLUTION", reads=("torch log",))
def name_not_resolved(facts: Facts, job: Job) -> Iterator[Finding]:
    """A name that does not resolve; where Gloo falls back to loopback, that is its own finding."""
    lines = [s for s in facts.all("name.unresolved") if "loopback" not in s.text]
    if lines:
        yield found("NET_HOSTNAME_RESOLUTION", lines, sure=LIKELY if job.completed else PROVEN)
