"""Which inputs move a prediction: hardware, the model's numbers and neighbouring settings, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from assay.errors import InputError
from assay.predict.network import LinkNetwork, Network
from assay.predict.physics import FITTED, Physics
from assay.predict.prediction import predict
from assay.predict.situation import Situation

#: A change smaller than this part of the step counts as none.
NOTHING = 1e-6

#: What is made larger → the numbers of `Physics` behind it.
_GROUPS: dict[str, tuple[str, ...]] = {
    "time of matrix products": ("gemm_",),
    "time of attention": ("attention", "flash", "unfused"),
    "time of memory-bound kernels": ("traffic_",),
    "time of quantisation": ("cast_",),
    "host launch cost": ("host",),
    "gap between kernels": ("kernel_gap",),
    "tensor-parallel traffic": ("tp_",),
    "data-parallel traffic": ("dp",),
    "pipeline sends": ("pp",),
    "context-parallel traffic": ("cp",),
    "expert traffic": ("ep", "permute"),
    "exposed part of overlapped traffic": ("tail",),
    "optimizer": ("optimizer",),
    "jitter": ("jitter",),
    "host work a step": ("step",),
}

_BY = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How much the step grows when `input` is made `by` times as large, or set as it says."""

    input: str
    by: float
    step_frac: float

    @property
    def changes(self) -> bool:
        """Whether the answer moved."""
        return abs(self.step_frac) > NOTHING


def sensitivity(one: Situation, network: Network, *, physics: Physics = FITTED) -> tuple[Effect, ...]:
    """Effects of every input, largest first; those that changed nothing come last and say so."""
    base = predict(one, network, physics=physics).step_time_s.value
    effects = []
    for words, prefixes in _GROUPS.items():
        names = [n for n in Physics.names() if any(n.startswith(p) for p in prefixes)]
        moved = replace(physics, **{name: getattr(physics, name) * _BY for name in names})
        effects.append(_effect(words, _BY, predict(one, network, physics=moved).step_time_s.value / base - 1))
    for words, machine, wires in _hardware(one, network):
        effects.append(
            _effect(words, _BY, predict(machine, wires, physics=physics).step_time_s.value / base - 1)
        )
    for words, changed in _choices(one):
        try:
            value = predict(changed, network, physics=physics).step_time_s.value / base - 1
        except InputError:
            continue
        effects.append(_effect(words, 1.0, value))
    return tuple(sorted(effects, key=lambda effect: -abs(effect.step_frac)))


def _effect(words: str, by: float, change: float) -> Effect:
    return Effect(input=words, by=by, step_frac=change)


def _hardware(one: Situation, network: Network) -> Iterator[tuple[str, Situation, Network]]:
    """A faster part of the machine, named; wires only where they are plain links."""
    gpu = one.gpu
    peaks = {key: peak * _BY for key, peak in gpu.peak_flop_per_s.items()}
    yield "peak FLOP/s of the GPU", replace(one, gpu=replace(gpu, peak_flop_per_s=peaks)), network
    faster = replace(gpu, memory_Bps=gpu.memory_Bps * _BY)
    yield "memory bandwidth of the GPU", replace(one, gpu=faster), network
    if isinstance(network, LinkNetwork):
        yield "bandwidth inside a node", one, replace(network, link_Bps=network.link_Bps * _BY)
        yield "bandwidth between nodes", one, replace(network, nic_Bps=network.nic_Bps * _BY)
        slower = replace(network, link_s=network.link_s * _BY, nic_s=network.nic_s * _BY)
        yield "latency of a hop", one, slower


def _choices(one: Situation) -> list[tuple[str, Situation]]:
    """Neighbouring settings, named."""
    layout, found = one.layout, []
    for kind in ("none", "selective", "full"):
        if kind != layout.recompute:
            found.append((f"recompute={kind}", replace(one, layout=replace(layout, recompute=kind))))
    bigger = replace(layout, micro_batch=layout.micro_batch * 2)
    found.append((f"micro_batch={bigger.micro_batch}", replace(one, layout=bigger)))
    if layout.tp > 1:
        found.append((f"sp={not layout.sp}", replace(one, layout=replace(layout, sp=not layout.sp))))
    if layout.pp > 1 and layout.vpp > 1:
        found.append(("vpp=1", replace(one, layout=replace(layout, vpp=1, schedule="1f1b"))))
    return found
