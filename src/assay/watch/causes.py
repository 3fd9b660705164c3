"""Which finding explains which, where several come together: hardware first, the job's symptoms last."""

from __future__ import annotations

from assay.domain.finding import Finding

#: Codes in groups, causes before what follows from them. A code that is not named is a cause in hardware.
_ORDER = (
    ("NODE_DOWN", "GPU_XID_79", "GPU_LOST"),
    (),
    ("IB_PORT_DOWN", "STORAGE_STALL", "NVLINK_DOWN", "IB_LINK_FLAP"),
    ("IB_LINK_RATE_LOW", "IB_LINK_ERRORS", "GPU_THROTTLED_THERMAL", "GPU_THROTTLED_POWER"),
    ("RANK_STOPPED", "RANK_STARVED"),
    ("LINK_LOSS", "LINK_SLOW", "ROCE_LOSSY", "IB_CONGESTION", "CLOCK_OFFSET"),
    ("RANK_LOST",),
    ("APP_STRAGGLER", "FAIL_SLOW", "APP_CHECKPOINT_STALL"),
    ("JOB_HUNG", "JOB_SLOW", "STEP_SPIKES", "CHECKPOINT_OVERDUE"),
    ("IB_COUNTER_SATURATED", "TIME_NOT_SYNCED", "SOURCE_SILENT"),
)
_PLACE = {code: place for place, codes in enumerate(_ORDER) for code in codes}
_HARDWARE, _LAST_CAUSE = 1, _PLACE["RANK_LOST"]
_SYMPTOMS = range(_PLACE["APP_STRAGGLER"], _PLACE["JOB_HUNG"] + 1)
#: The loss may jump for many reasons: what happens beside it is told as coincidence, never as its cause.
APART = frozenset({"LOSS_SPIKE", "LOSS_DIVERGED"})


def place(code: str) -> int:
    """How near to the root a code stands; 0 is nearest."""
    return _PLACE.get(code, _HARDWARE)


def explains(code: str) -> bool:
    """Whether a job's symptoms may follow from it."""
    return code not in APART and place(code) <= _LAST_CAUSE


def is_symptom(finding: Finding) -> bool:
    """Whether it is about a job or the cluster as a whole, so that its cause may be anywhere in it."""
    if finding.subject.kind not in ("cluster", "group") or finding.code in APART:
        return False
    return place(finding.code) in _SYMPTOMS or finding.code == "LINK_LOSS"
