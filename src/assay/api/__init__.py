"""One function per command: where the rooms are joined, and where files and processes meet."""

from assay.api.attending import attend
from assay.api.gathering import this_job
from assay.api.judging import Judged, judge
from assay.api.measuring import MeasureOptions, Watcher, measure
from assay.api.qualifying import qualify

__all__ = ["Judged", "MeasureOptions", "Watcher", "attend", "judge", "measure", "qualify", "this_job"]
