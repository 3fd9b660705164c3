"""What the kernel log says: Xids by policy, GPUs off the bus, links that went down, memory that ran out."""

from __future__ import annotations

from collections.abc import Iterator

from assay.catalog.xids import Action, xid
from assay.domain.event import Event
from assay.domain.finding import Severity
from assay.domain.samples import Samples
from assay.domain.subject import Subject
from assay.watch.registry import detector
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal, raised, seen

#: How long a word of the kernel counts: a card that needs a reset or more stays named for a day.
_MOMENT_S, _STANDING_S = 600.0, 86400.0
#: An Xid that only follows another is no finding within this time.
_FOLLOWS_S = 60.0
_FOLLOW_ON = (43, 45)
_SEVERITY = {
    Action.ISOLATE: Severity.CRITICAL,
    Action.REBOOT: Severity.CRITICAL,
    Action.RESET: Severity.HIGH,
    Action.RESTART: Severity.MEDIUM,
    Action.CONTACT: Severity.MEDIUM,
    Action.MONITOR: Severity.LOW,
    Action.IGNORE: Severity.INFO,
}
_CODES = {
    "gpu_off_bus": "GPU_XID_79",
    "link_down": "IB_LINK_FLAP",
    "nvswitch_error": "NVLINK_FABRIC_ERROR",
    "clock_stepped_back": "CLOCK_OFFSET",
}


@detector(
    "kernel",
    reads=("xid", "gpu_last_xid", *_CODES),
    codes=(
        "GPU_XID_79",
        "GPU_GSP_TIMEOUT",
        "GPU_ECC_UNCORRECTABLE",
        "GPU_ROW_REMAP_PENDING",
        "GPU_ROW_REMAP_FAILURE",
        "GPU_XID_94_CONTAINED",
        "GPU_XID_APP_FAULT",
        "GPU_FAULTY_DEVICE",
        "NVLINK_FABRIC_ERROR",
        "IB_LINK_FLAP",
        "CLOCK_OFFSET",
    ),
    false_alarms_per_subject_day=0,
)
class Kernel:
    """Each line is a report of hardware or driver, not a statistic: there is no chance in it.

    An Xid 43 or 45 within a minute of another Xid of the same GPU follows from that and is left out;
    what the policy says to ignore is left out too.
    """

    def __init__(self, settings: Settings) -> None:
        self._last: dict[Subject, float] = {}
        self._told: dict[Subject, float] = {}

    def feed(self, item: Item) -> Iterator[Signal]:
        """One line of the kernel log, or the last Xids that exporters tell, of which a change is news."""
        if isinstance(item, Samples):
            for subject, value in zip(item.subjects, item.values.tolist(), strict=True):
                before, self._told[subject] = self._told.get(subject, 0.0), value
                if value == value and value not in (0.0, before):
                    details: dict[str, str | int | float | None] = {"xid": int(value)}
                    yield from self.feed(
                        Event(kind="xid", time_s=item.time_s, subject=subject, details=details)
                    )
        elif item.kind != "xid":
            yield raised(
                _CODES[item.kind], item.subject, item.time_s, item.kind, proof=seen(item), lasts_s=_MOMENT_S
            )
        elif isinstance(item.details.get("xid"), int):
            yield from self._xid(item, int(item.details["xid"] or 0))

    def _xid(self, item: Event, number: int) -> Iterator[Signal]:
        follows = item.time_s - self._last.get(item.subject, -1e9) < _FOLLOWS_S
        if number in _FOLLOW_ON and follows:
            return
        self._last[item.subject] = item.time_s
        known = xid(number)
        if known.action is Action.IGNORE:
            return
        lasting = known.action in (Action.ISOLATE, Action.REBOOT, Action.RESET)
        yield raised(
            known.code, item.subject, item.time_s, f"xid_{known.action.value}",
            severity=_SEVERITY[known.action], proof=seen(item), xid=number, meaning=known.meaning,
            lasts_s=_STANDING_S if lasting else _MOMENT_S,
        )  # fmt: skip
