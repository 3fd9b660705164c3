"""GPUs by the PCI device id that a topology file names them with.

Source: the PCI ID Repository (pci-ids.ucw.cz), vendor 10de, read in November 2026.
"""

from __future__ import annotations

from assay.catalog.devices import gpu
from assay.catalog.nodes import compute_capability
from assay.domain.device import Gpu

_BY_DEVICE = {
    0x1DB1: "v100-sxm2-16gb",
    0x1DB5: "v100-sxm2-32gb",
    0x1DB4: "v100-pcie-16gb",
    0x1DB6: "v100-pcie-32gb",
    0x20B0: "a100-sxm-40gb",
    0x20B2: "a100-sxm-80gb",
    0x20F1: "a100-pcie-40gb",
    0x20B5: "a100-pcie-80gb",
    0x2330: "h100-sxm",
    0x2331: "h100-pcie",
    0x2321: "h100-nvl",
    0x2329: "h20",
    0x2335: "h200-sxm",
    0x233B: "h200-nvl",
    0x2901: "b200",
    0x2941: "gb200",
    0x26B9: "l40s",
    0x2684: "rtx-4090",
    0x2B85: "rtx-5090",
}


def gpu_by_pci(device: int | None, capability: int) -> Gpu | None:
    """The GPU of a PCI device id; None where the id is not known or contradicts the compute capability.

    Topologies that were written by hand often have one id everywhere.
    """
    if device not in _BY_DEVICE:
        return None
    named = gpu(_BY_DEVICE[device])
    return named if compute_capability(named) == capability else None
