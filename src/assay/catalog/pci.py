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

#: The most usual GPU of a compute capability, for a topology that does not say which one it is.
_USUAL = {70: "v100-sxm2-32gb", 80: "a100-sxm-80gb", 89: "l40s", 90: "h100-sxm", 100: "b200"}


def gpu_by_pci(device: int | None, capability: int) -> tuple[Gpu | None, str | None]:
    """The GPU, and what had to be taken for granted; no GPU where neither id nor capability is known.

    An id that contradicts the compute capability (a topology written by hand) does not count.
    """
    if device in _BY_DEVICE and compute_capability(named := gpu(_BY_DEVICE[device])) == capability:
        return named, None
    if capability not in _USUAL:
        return None, None
    usual = gpu(_USUAL[capability])
    return usual, f"the topology names no GPU of compute capability {capability / 10:.1f}: {usual.name} taken"
