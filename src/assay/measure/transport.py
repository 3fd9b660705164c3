"""What carried a benchmark's messages: the library as loaded and logged, and the bytes that devices counted.

A rate says nothing of a fabric unless its bytes crossed that fabric. Each rank therefore writes down, for
each benchmark that sends, what it asked for and what can be known of how that went; the first rank of a node
adds the bytes of the node's devices. Judging holds the one against the other.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.domain.attestation import Counted
from assay.measure.context import Context
from assay.measure.gpu_sampler import device_of
from assay.measure.nccl_environment import LOG_FILE, nccl_log
from assay.probe.files import Roots
from assay.probe.nvml import Device, Nvml, NvmlError
from assay.probe.traffic import active_ports, senders, sent_between

#: Where the host's /sys is mounted, for containers whose own hides the counters of RDMA ports.
HOST_SYS = "ASSAY_SYS"
_NVLINK_SOURCE = "NVML field 138"
_LIBRARIES = {
    "library": r"lib(?:nccl|rccl)\.so[^ /]*|libtorch_cpu\.so",
    "plugin_library": r"lib(?:nccl|rccl)-net[^ /]*\.so[^ /]*",
}
#: What the log may tell -> what to say where it does not.
_BY_LOG = {
    "version": "the log does not tell the version",
    "network": "the log names no network",
    "plugin": "the log names no plugin for the network",
    "channels": "the log shows no channel",
    "memory": "the log shows no channel over a network",
}
#: Fact of the log -> key, and the part of the line that is its value.
_FACTS = {
    "nccl.version": ("version", "version"),
    "rccl.version": ("version", "version"),
    "nccl.network": ("network", "network"),
    "nccl.plugin": ("plugin", "name"),
}

Told = dict[str, str | None]


class Witness:
    """Counters of one task, from its start to its end."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._speaks = context.hosts.index(context.host) == context.rank
        self._roots = _roots()
        self._senders = senders(self._roots) if self._speaks else ()
        self._nvlink = nvlink_sent(context) if context.on_gpu else None

    def record(self) -> None:
        """Append the attestation of this rank, where it has asked for anything."""
        context = self._context
        if not context.calls:
            return
        told, log = told_of(context.backend, os.environ)
        counted = sent_between(self._senders, senders(self._roots)) if self._speaks else ()
        if self._nvlink is not None:
            counted = (*counted, over_nvlink(context.subject, self._nvlink, nvlink_sent(context)))
        context.attest(
            told=told,
            calls=[
                {"op": op, "bytes": size, "ranks": ranks, "nodes": nodes, "here": here, "count": count}
                for (op, size, ranks, nodes, here), count in context.calls.items()
            ],
            counted=[_plain(one) for one in counted],
            rails=log.rails,
        )


def proof_needed(context: Context) -> str:
    """`rdma` where messages leave this node by a library that uses RDMA if there is any; else `none`."""
    leaves = context.backend in ("nccl", "rccl") and len(set(context.hosts)) > 1
    return "rdma" if leaves and active_ports(_roots()) else "none"


def _roots() -> Roots:
    return dataclasses.replace(Roots.under("/"), sys=Path(os.environ.get(HOST_SYS) or "/sys"))


def _plain(one: Counted) -> dict[str, Any]:
    optional = {"reason": one.reason, "source": one.source}
    always = {"over": one.over, "device": one.device, "bytes": one.bytes}
    return always | {name: text for name, text in optional.items() if text}


def nvlink_sent(context: Context) -> tuple[str, int] | str:
    """The way and the bytes that this rank's GPU has sent over NVLink so far; or why that is not known."""
    try:
        with Nvml() as nvml:
            return sent_by(device_of(nvml, context))
    except NvmlError as error:
        return error.what


def sent_by(device: Device) -> tuple[str, int] | str:
    """The same of one device."""
    if not any(device.nvlinks()):
        return "the card has no NVLink that is up"
    try:
        way = "nvlink" if device.nvlinks_lead_to_switches() else "nvlink_pair"
    except NvmlError:  # a driver that does not tell: nothing may be expected of these links
        way = "nvlink_pair"
    return way, device.nvlink_sent_bytes()


def over_nvlink(subject: str, before: tuple[str, int] | str, after: tuple[str, int] | str) -> Counted:
    """What went over NVLink between two answers of the driver."""
    if isinstance(before, str) or isinstance(after, str):
        reason = before if isinstance(before, str) else after
        return Counted(over="nvlink", device=subject, bytes=None, reason=str(reason), source=_NVLINK_SOURCE)
    if after[1] < before[1]:
        reason = f"the counter went back from {before[1]} to {after[1]}: it wrapped, or was reset"
        return Counted(over=after[0], device=subject, bytes=None, reason=reason, source=_NVLINK_SOURCE)
    sent = float(after[1] - before[1])
    return Counted(over=after[0], device=subject, bytes=sent, source=_NVLINK_SOURCE)


def told_of(backend: str, env: Mapping[str, str]) -> tuple[dict[str, Told], Log]:
    """What is known of the transport in this process, or why it is not; and the log that tells it."""
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    loaded = {line.split(maxsplit=5)[5] for line in maps if line.count("/")}
    libraries = {key: _named(loaded, pattern) for key, pattern in _LIBRARIES.items()}
    lines = None if backend == "gloo" else nccl_log(env)
    log = Log.of(lines or ())
    told = {"library": _told(libraries["library"], "no such library is loaded", "/proc/self/maps")}
    for key, lacking in _BY_LOG.items():
        if backend == "gloo":
            told[key] = _told(_of_gloo(key), "Gloo keeps no log of its transport", "torch")
        elif lines is None:
            told[key] = _told(None, "NCCL wrote no log that this rank could read", LOG_FILE)
        else:
            told[key] = _told(log.told.get(key), lacking, LOG_FILE)
    if libraries["plugin_library"]:  # beside what it calls itself, where it lies
        name = told["plugin"].get("value")
        both = f"{name} ({libraries['plugin_library']})" if name else libraries["plugin_library"]
        told["plugin"] = _told(both, "", "/proc/self/maps")
    return told, log


def _of_gloo(key: str) -> str | None:
    """Gloo is part of torch, and knows host memory alone."""
    if key == "memory":
        return "host memory"
    if key != "version":
        return None
    import torch

    return f"Gloo of torch {torch.__version__}"


def _told(value: str | None, lacking: str, source: str) -> Told:
    return {"value": value, "source": source} | ({} if value else {"reason": lacking})


@dataclass(frozen=True)
class Log:
    """What NCCL's log at INFO tells of the set-up; `rails` are channels that send, by RDMA port."""

    told: dict[str, str] = field(default_factory=dict)
    rails: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[str]) -> Log:
        """Version, network, plugin, ways of the channels, and how the network reaches card memory."""
        # The worker starts without the formats.
        from assay.formats.nccl_log import VOCABULARY, Channel, ports, read_line

        told: dict[str, str] = {}
        channels: list[Channel] = []
        devices: tuple[str | None, ...] = ()
        for number, line in enumerate(lines, 1):
            found = read_line(line, number, LOG_FILE)
            if found is None:  # the version stands in a line without a head
                facts = VOCABULARY.find(line)
            else:
                said = list(found)
                channels += [c for c in said if isinstance(c, Channel)]
                facts = [(f.fact, f.fields) for f in said if not isinstance(f, Channel)]
            for fact, fields in facts:
                if fact in _FACTS:
                    key, part = _FACTS[fact]
                    told.setdefault(key, fields[part])
                elif fact == "nccl.ib_devices":
                    devices = devices or ports(fields["devices"])
        net = [c for c in channels if c.transport.startswith("NET/")]
        ways = {
            "channels": {c.transport for c in channels},
            "memory": {"GPUDirect RDMA" if c.gdr else "host memory" for c in net},
        }
        told |= {key: " + ".join(sorted(found)) for key, found in ways.items() if found}
        sending = Counter(
            devices[c.net_device]
            for c in net
            if c.way == "send" and c.net_device is not None and c.net_device < len(devices)
        )
        return cls(told, {port: count for port, count in sending.items() if port})


def _named(paths: Iterable[str], pattern: str) -> str | None:
    return next((path for path in sorted(paths) if re.fullmatch(pattern, Path(path).name)), None)
