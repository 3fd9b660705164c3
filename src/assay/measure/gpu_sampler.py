"""Clock, power, temperature and PCIe link of a rank's GPU while it works: what explains a rate."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable
from typing import TypeVar

from assay.measure.context import Context
from assay.probe.gpu import GpuSample, sample
from assay.probe.nvml import Device, Nvml, NvmlError

Result = TypeVar("Result")

_EVERY_S = 0.05
#: Field of a sample -> quantity and unit.
_READ = {
    "sm_clock_Hz": ("gpu.sm_clock", "Hz"),
    "power_W": ("gpu.power", "W"),
    "temperature_degC": ("gpu.temperature", "degC"),
}


class GpuSampler:
    """Samples in a thread of its own from `start` to `stop`; NVML calls take microseconds each."""

    def __init__(self, take: Callable[[], GpuSample]) -> None:
        self._take = take
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[GpuSample] = []

    def __enter__(self) -> GpuSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.is_set():
            self.samples.append(self._take())
            self._done.wait(_EVERY_S)

    def record(self, context: Context, recipe: dict[str, str | int | float]) -> None:
        """Medians as readings of this rank's GPU, and the throttle reasons that were seen as an event."""
        for field, (quantity, unit) in _READ.items():
            values = [value for s in self.samples if (value := getattr(s, field)) is not None]
            told = recipe | {"statistic": "median"}
            if values:
                context.record(quantity, statistics.median(values), unit, recipe=told, n=len(values))
            else:
                reason = next((s.reason for s in self.samples if s.reason), None)
                context.missing(quantity, unit, reason or "the driver gave no sample", recipe=told)
        seen = sorted({reason for s in self.samples for reason in s.throttle or ()})
        if seen:
            context.event("throttled", ", ".join(seen))


def device_of(nvml: Nvml, context: Context) -> Device:
    """This rank's GPU as NVML knows it: by UUID where torch tells it, else by its number."""
    import torch

    properties = torch.cuda.get_device_properties(context.device)
    uuid = getattr(properties, "uuid", None)
    if uuid is not None:
        return nvml.device_named(f"GPU-{uuid}")
    return nvml.device(torch.device(context.device).index or 0)


def link_facts(context: Context, device: Device) -> None:
    """PCIe generation and width under load: at idle a healthy link rests at a lower generation."""
    for key, function in (
        ("gpu.pcie_generation_under_load", "nvmlDeviceGetCurrPcieLinkGeneration"),
        ("gpu.pcie_width_under_load", "nvmlDeviceGetCurrPcieLinkWidth"),
    ):
        try:
            value, reason = float(device.uint(function)), None
        except NvmlError as error:
            value, reason = None, error.what
        context.fact(key, context.subject, value, "count", reason=reason, source=function)


def watched(device: Device) -> GpuSampler:
    """A sampler of one device."""
    return GpuSampler(lambda: sample(device))


def while_watched(
    context: Context, recipe: dict[str, str | int | float], work: Callable[[], Result]
) -> Result:
    """The result of a load, with clock, power and temperature during it recorded where there is a GPU."""
    if not context.on_gpu:
        return work()
    try:
        with Nvml() as nvml:
            device = device_of(nvml, context)
            with watched(device) as sampler:
                result = work()
                link_facts(context, device)
            sampler.record(context, recipe)
            return result
    except NvmlError as error:
        for quantity, unit in _READ.values():
            context.missing(quantity, unit, error.what, recipe=recipe | {"statistic": "median"})
        return work()
