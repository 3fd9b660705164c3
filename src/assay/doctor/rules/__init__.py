"""The built-in rules, one module per family; importing this registers them."""

from assay.doctor.rules import (
    application,
    bandwidth,
    configuration,
    expected,
    gpu,
    infiniband,
    live,
    network,
    nvlink,
    pcie,
    ras,
    sentences,
    software,
    storage,
    traces,
    training,
)

__all__ = [
    "application",
    "bandwidth",
    "configuration",
    "expected",
    "gpu",
    "infiniband",
    "live",
    "network",
    "nvlink",
    "pcie",
    "ras",
    "sentences",
    "software",
    "storage",
    "traces",
    "training",
]
