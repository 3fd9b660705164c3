"""Figures of invented devices. None describes a product: they are round numbers of a plausible size."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: Device → figure → value in its base unit; `@where` tells a figure inside a node from one between nodes.
DEVICES: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "h100-sxm-like": MappingProxyType(
            {
                "gemm.bf16.rate": 700e12,
                "memory.copy.bandwidth": 2.8e12,
                "host_device.bandwidth": 55e9,
                "peer.bandwidth@node": 370e9,
                "peer.bandwidth@network": 48e9,
                "peer.latency@node": 2e-6,
                "peer.latency@network": 4e-6,
                "collective.all_reduce.busbw@node": 440e9,
                "collective.all_reduce.busbw@network": 340e9,
                "collective.all_reduce.latency@node": 20e-6,
                "collective.all_reduce.latency@network": 45e-6,
                "storage.random_read_4k.iops": 1.2e6,
                "storage.random_read_4k.latency": 210e-6,
                "storage.sequential_read.bandwidth": 12e9,
                "storage.sequential_write.bandwidth": 6e9,
                "clock.offset": 40e-6,
                "training.step_time": 0.8,
                "training.scaling_loss_per_doubling": 0.012,
            }
        ),
        "a100-sxm-like": MappingProxyType(
            {
                "gemm.bf16.rate": 260e12,
                "memory.copy.bandwidth": 1.7e12,
                "host_device.bandwidth": 26e9,
                "peer.bandwidth@node": 240e9,
                "peer.bandwidth@network": 24e9,
                "peer.latency@node": 2.5e-6,
                "peer.latency@network": 5e-6,
                "collective.all_reduce.busbw@node": 230e9,
                "collective.all_reduce.busbw@network": 180e9,
                "collective.all_reduce.latency@node": 25e-6,
                "collective.all_reduce.latency@network": 60e-6,
                "storage.random_read_4k.iops": 0.9e6,
                "storage.random_read_4k.latency": 260e-6,
                "storage.sequential_read.bandwidth": 7e9,
                "storage.sequential_write.bandwidth": 3e9,
                "clock.offset": 60e-6,
                "training.step_time": 2.1,
                "training.scaling_loss_per_doubling": 0.015,
            }
        ),
    }
)
