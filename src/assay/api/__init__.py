"""One function per command: where the rooms are joined, and where files and processes meet.

Names are imported on first use, so that `assay predict` does not load what measuring needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.api.attending import attend
    from assay.api.gathering import this_job
    from assay.api.judging import Judged, judge
    from assay.api.measuring import MeasureOptions, Watcher, measure
    from assay.api.qualifying import qualify

_MODULE = {
    "attend": "attending",
    "this_job": "gathering",
    "Judged": "judging",
    "judge": "judging",
    "MeasureOptions": "measuring",
    "Watcher": "measuring",
    "measure": "measuring",
    "qualify": "qualifying",
}

__all__ = ["Judged", "MeasureOptions", "Watcher", "attend", "judge", "measure", "qualify", "this_job"]


def __getattr__(name: str) -> Any:
    if name in _MODULE:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
    raise AttributeError(f"module 'assay.api' has no attribute {name!r}")
