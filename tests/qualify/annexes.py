"""Terms for the tests of the annex, small enough to read."""

from __future__ import annotations

from assay.catalog.quantities import quantity
from assay.codec.claims import load_claims
from assay.codec.profile import load_profile
from assay.qualify.annex import Terms

PROFILE = """\
schema: 1
name: small
title: Small
criteria:
  - {id: model, quantity: gpu.name, op: uniform, clause: one model}
  - {id: gemm, quantity: gemm.bf16.rate, op: at_least, bound: 600 TFLOP/s, rule: guarded_buyer,
     recipe: {shape: 8192x8192x8192, load: all, statistic: median}, clause: 3.1 compute, source: mail}
  - {id: promised, quantity: gemm.bf16.rate, op: at_least, bound: 95 %, of: claimed, over: median,
     recipe: {shape: 8192x8192x8192, load: all, statistic: median}, required: false}
  - {id: spread, quantity: gemm.bf16.rate, op: spread_at_most, bound: 7 %,
     recipe: {shape: 8192x8192x8192, load: all, statistic: median}}
"""
CLAIMS = """\
schema: 1
provider: Example | Cloud
promises:
  - {quantity: gemm.bf16.rate, value: 700 TFLOP/s}
  - {quantity: service.availability, value: 99.5 %}
"""


def terms(profile: str = PROFILE, claims: str = CLAIMS, **more: object) -> Terms:
    return Terms(
        profile=load_profile(profile, "p.yaml", quantity_of=quantity),
        claims=load_claims(claims, "c.yaml", quantity_of=quantity),
        **more,  # type: ignore[arg-type]
    )
