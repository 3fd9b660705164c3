"""The doctor inside an incident: when a job hangs or loses a rank, its logs are diagnosed meanwhile."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from assay.api.doctoring import doctor
from assay.doctor.diagnose import CAUSE_FRAC
from assay.domain.event import Event
from assay.domain.finding import Finding
from assay.domain.incident import Change, Step
from assay.errors import InputError

#: Incidents whose cause the detectors cannot see, but logs may tell.
_ASKED = frozenset({"JOB_HUNG", "RANK_LOST", "JOB_SLOW", "RANK_STOPPED"})
#: So many of the doctor's findings are taken.
_MOST = 3


class Consultant:
    """A source: asked about a change, it gives events `diagnosed` when the doctor has read the logs."""

    def __init__(self, paths: Sequence[str], clock: Callable[[], float]) -> None:
        self._paths, self._clock = list(paths), clock
        self._events: queue.Queue[Event] = queue.Queue()
        self._thread: threading.Thread | None = None

    def ask(self, change: Change) -> None:
        """Have the logs diagnosed for an incident that was opened; one at a time."""
        busy = self._thread is not None and self._thread.is_alive()
        if change.step is Step.OPENED and change.incident.code in _ASKED and not busy:
            self._thread = threading.Thread(target=self._diagnose, args=(change.incident.id,), daemon=True)
            self._thread.start()

    def poll(self, now_s: float) -> list[Event]:
        """What the doctor has found since the last call."""
        events: list[Event] = []
        while not self._events.empty():
            events.append(self._events.get())
        return events

    def close(self) -> None:
        """The doctor is left to himself."""

    def _diagnose(self, incident: str) -> None:
        try:
            found = doctor(self._paths).findings
        except InputError:
            return  # logs that cannot be read are told by the source that follows them
        causes = [f for f in found if f.follows_from is None and f.confidence_frac >= CAUSE_FRAC]
        for finding in causes[:_MOST]:
            self._events.put(_told(finding, incident, self._clock()))


def _told(finding: Finding, incident: str, now_s: float) -> Event:
    proof = finding.evidence[0] if finding.evidence else None
    return Event(
        kind="diagnosed",
        time_s=now_s,
        subject=finding.subject,
        text=proof.text if proof else "",
        details={"incident": incident, "code": finding.code, "sure": finding.confidence_frac},
        source=f"{proof.file}:{proof.line or 0}" if proof else "doctor",
    )
