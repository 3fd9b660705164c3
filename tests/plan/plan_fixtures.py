"""Small jobs, clusters and offers that the tests of plans share."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from assay.catalog.clusters import cluster
from assay.catalog.faults import failure_rate
from assay.catalog.models import model
from assay.catalog.offers import Rates
from assay.domain.cluster import Cluster
from assay.domain.offer import Fees, Offer
from assay.domain.workload import Transformer, Workload
from assay.plan.compare import Terms
from assay.plan.job import Job, job
from assay.plan.storage import CLASSES
from assay.predict.stack import Stack, stack

RATES = Rates(
    per_usd={"USD": Decimal(1), "CNY": Decimal("7.10")}, date="2026-11-01", source="test", where="rates"
)


def small_model(*, moe: bool = False, layers: int = 4) -> Transformer:
    """A transformer that fits a few cards, dense or with experts."""
    dense = Transformer(
        id="small",
        name="small",
        layers=layers,
        hidden=2048,
        heads=8,
        kv_heads=4,
        head_dim=256,
        ffn=8192,
        vocab=32000,
        source="test",
        seq_len=2048,
    )
    return replace(dense, experts=4, topk=2, expert_ffn=4096, moe_layers=layers) if moe else dense


def small_job(
    *, moe: bool = False, layers: int = 4, batch: int | None = 16, named: str | Stack = "megatron"
) -> Job:
    """A job of the small model."""
    shape = small_model(moe=moe, layers=layers)
    chosen = stack(named) if isinstance(named, str) else named
    return job(Workload(model=shape, seq_len=2048), chosen, tokens=1e9, global_batch=batch)


def named_job(name: str, *, tokens: float = 1e12, batch: int | None = None) -> Job:
    """A job of a shipped model under Megatron."""
    shape = model(name)
    return job(
        Workload(model=shape, seq_len=shape.seq_len), stack("megatron"), tokens=tokens, global_batch=batch
    )


def h100(nodes: int) -> Cluster:
    """DGX H100 with so many nodes."""
    return cluster("dgx-h100").of(nodes)


def offer(name: str = "a", price: str | None = "2.50", fees: Fees | None = None, **more: object) -> Offer:
    """An offer of H100 nodes."""
    values: dict[str, object] = {
        "id": name,
        "provider": name,
        "gpu": "h100-sxm",
        "gpus_per_node": 8,
        "term": "on-demand",
        "currency": "USD",
        "price": None if price is None else Decimal(price),
        "cluster": "dgx-h100",
        "fees": fees or Fees(),
    }
    return Offer(**(values | more))  # type: ignore[arg-type]


def terms(plan: Job, gpus: int = 32, currency: str = "USD") -> Terms:
    """What the platforms of a test comparison share."""
    return Terms(
        job=plan,
        gpus=gpus,
        storage=CLASSES["better"],
        rates=RATES,
        currency=currency,
        rate_of=failure_rate,
        fixed={"precision": "bf16"},
    )
