"""A predicted step as the JSON that other programs may rely on."""

from __future__ import annotations

from assay.predict.prediction import Prediction


def prediction_object(p: Prediction) -> dict[str, object]:
    """The keys that every answer with a prediction shares; a missing value is null."""
    t = p.step_time_s
    return {
        "step_time_s": {"value": t.value, "low": t.low, "high": t.high},
        "tokens_per_s_per_gpu": p.tokens_per_s_per_gpu,
        "model_flop_per_s": p.model_flop_per_s,
        "mfu_frac": p.mfu_frac,
        "mfu_formula": p.mfu_formula,
        "breakdown": p.breakdown_s,
        "memory_bytes": p.memory_bytes,
        "capacity_bytes": p.capacity_bytes,
        "fits": p.fits,
        "assumptions": list(p.assumptions),
        "extrapolated": list(p.extrapolated),
    }
