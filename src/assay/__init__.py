"""Assay: what a GPU cluster claims, what physics predicts, and what it measures, side by side.

The public API is what this module names; each name is imported on first use, so that
`assay --help` and a measuring worker load nothing that they do not need.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Criterion": "assay.domain.criterion",
    "Profile": "assay.domain.criterion",
    "Assessment": "assay.domain.verdict",
    "Judgement": "assay.domain.verdict",
    "Verdict": "assay.domain.verdict",
    "Finding": "assay.domain.finding",
    "Quantity": "assay.domain.quantity",
    "Recipe": "assay.domain.recipe",
    "Reading": "assay.domain.reading",
    "Subject": "assay.domain.subject",
    "AssayError": "assay.errors",
    "qualify": "assay.api",
    "measure": "assay.api",
    "judge": "assay.api",
}

__all__ = ["__version__"]
__all__ += list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'assay' has no attribute {name!r}")
