"""Why a layout stands where it stands: one line for people, as a code with numbers."""

from __future__ import annotations

from collections.abc import Callable

from assay.domain.cluster import Cluster
from assay.domain.layout import Layout
from assay.domain.message import Message
from assay.predict.prediction import Prediction

#: A layout with less of its memory free than this may fail on a longer sequence or a fragmented heap.
TIGHT_FRAC = 0.05

#: A term that takes less of the step than this is not worth a word.
_WORTH_FRAC = 0.04

#: Terms that a layout decides, and can be blamed for.
_BLAMED = ("tp", "cp", "ep", "pp", "bubble", "imbalance", "recompute", "dp_gradients", "dp_weights", "host")


def why(prediction: Prediction, cluster: Cluster, *, best_s: float | None = None) -> tuple[Message, ...]:
    """What the layout does well or badly, most telling first; `best_s` is the fastest layout's step.

    Never empty: at least the largest cost that the layout itself causes is named.
    """
    layout, step_s = prediction.situation.layout, prediction.step_time_s.value
    found: list[Message] = []
    if best_s is not None and step_s > best_s * 1.0001:
        found.append(Message.of("plan.why.slower", slower_frac=step_s / best_s - 1))
    free_frac = 1 - prediction.total_bytes / prediction.capacity_bytes
    if free_frac < TIGHT_FRAC:
        found.append(Message.of("plan.why.tight", free_frac=free_frac))
    found += [message for rule in _RULES if (message := rule(layout, cluster))]
    terms = {name: prediction.breakdown_s.get(name, 0.0) / step_s for name in _BLAMED}
    worst = max(terms, key=lambda name: terms[name])
    if terms[worst] >= _WORTH_FRAC or not found:
        found.append(Message.of(f"plan.why.term.{worst}", part_frac=terms[worst]))
    return tuple(found)


def _tensor(layout: Layout, cluster: Cluster) -> Message | None:
    domain = len(cluster.node.gpus) * cluster.domain_nodes
    if layout.tp > domain:
        return Message.of("plan.why.tp_leaves_domain", tp=layout.tp, domain=domain)
    if layout.tp > 1:
        return Message.of("plan.why.tp_inside", tp=layout.tp, domain=domain)
    return None


def _experts(layout: Layout, cluster: Cluster) -> Message | None:
    domain = len(cluster.node.gpus) * cluster.domain_nodes
    if layout.ep > 1 and layout.ep * layout.etp > domain:
        return Message.of("plan.why.ep_leaves_domain", ep=layout.ep * layout.etp, domain=domain)
    return None


def _stages(layout: Layout, cluster: Cluster) -> Message | None:
    if layout.pp == 1:
        return None
    code = "plan.why.interleaved" if layout.vpp > 1 else "plan.why.stages"
    return Message.of(code, pp=layout.pp, vpp=layout.vpp)


def _recompute(layout: Layout, cluster: Cluster) -> Message | None:
    return Message.of("plan.why.full_recompute") if layout.recompute == "full" else None


def _sharding(layout: Layout, cluster: Cluster) -> Message | None:
    return Message.of("plan.why.zero3") if layout.sharding == "zero3" else None


def _precision(layout: Layout, cluster: Cluster) -> Message | None:
    if layout.precision in ("bf16", "fp16"):
        return None
    return Message.of("plan.why.precision", text=layout.precision)


_RULES: tuple[Callable[[Layout, Cluster], Message | None], ...] = (
    _tensor,
    _experts,
    _stages,
    _recompute,
    _sharding,
    _precision,
)
