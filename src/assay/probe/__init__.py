"""Reads the state of one machine: read-only, within two seconds, with the standard library alone.

Every value is a `Fact`, present or missing with the reason. This room runs inside any training container
(Python 3.10 or later), so it imports nothing but `assay.domain`, `assay.errors` and `assay.units`.
"""

from assay.probe.cpu import steal_facts, steal_frac
from assay.probe.fact import Fact, facts_to_json
from assay.probe.files import Roots, Text, read
from assay.probe.gpu import GpuSample, sample
from assay.probe.inventory import inventory
from assay.probe.nvml import Device, Nvml, NvmlError

__all__ = [
    "Device",
    "Fact",
    "GpuSample",
    "Nvml",
    "NvmlError",
    "Roots",
    "Text",
    "facts_to_json",
    "inventory",
    "read",
    "sample",
    "steal_facts",
    "steal_frac",
]
