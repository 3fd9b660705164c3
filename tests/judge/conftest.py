from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "testbed"))

from probe_fixtures import nvml_library, probe, top

__all__ = ["nvml_library", "probe", "top"]
