"""The built-in rules, one module per family; importing this registers them."""

from assay.doctor.rules import (
    application,
    bandwidth,
    configuration,
    gpu,
    infiniband,
    live,
    network,
    nvlink,
    pcie,
    ras,
    sentences,
    software,
    traces,
)

__all__ = [
    "application",
    "bandwidth",
    "configuration",
    "gpu",
    "infiniband",
    "live",
    "network",
    "nvlink",
    "pcie",
    "ras",
    "sentences",
    "software",
    "traces",
]
