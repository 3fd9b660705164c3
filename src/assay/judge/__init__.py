"""Criteria against readings: verdicts, the lint of profiles, and the naming of odd nodes and links."""

from assay.judge.families import Family, Measured, gather
from assay.judge.verdicts import judge

__all__ = ["Family", "Measured", "gather", "judge"]
