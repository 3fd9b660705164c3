"""The registry of detectors. A detector is fed with events and samples in order of time, and gives signals.

    @detector("straggler", reads=("step",), codes=("APP_STRAGGLER",), false_alarms_per_subject_day=1e-6)
    class Straggler:
        def __init__(self, settings: Settings) -> None: ...
        def feed(self, item: Item) -> Iterator[Signal]: ...

It keeps state of its own, and reads no clock and no file: the same items give the same signals. Another
package adds detectors in a module that it names in the entry-point group `assay.detectors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol, TypeVar

from assay.catalog.findings import finding as kind_of
from assay.domain.event import Event
from assay.errors import InputError
from assay.watch.settings import Settings
from assay.watch.signal import Item, Signal

#: Once a second of watched time, so that detectors notice what does not happen.
TICK = "tick"


class Detector(Protocol):
    """What the machine feeds."""

    def feed(self, item: Item) -> Iterable[Signal]:
        """Signals that follow from one more event or batch of samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A detector's name, the event kinds and metrics that it reads, and the codes that it may give.

    `false_alarms_per_subject_day` is an upper bound under the assumption that its docstring states.
    """

    name: str
    reads: tuple[str, ...]
    codes: tuple[str, ...]
    false_alarms_per_subject_day: float
    make: Callable[[Settings], Detector]


_KINDS: dict[str, Kind] = {}
Made = TypeVar("Made", bound=Callable[[Settings], Detector])


def detector(
    name: str, *, reads: Iterable[str], codes: Iterable[str], false_alarms_per_subject_day: float
) -> Callable[[Made], Made]:
    """Register the decorated class."""

    def register(make: Made) -> Made:
        if name in _KINDS:
            raise InputError(f"the detector {name!r} is registered twice")
        for code in codes:
            kind_of(code)  # an unknown code is an error when the detector is loaded, not when it fires
        _KINDS[name] = Kind(
            name=name,
            reads=tuple(reads),
            codes=tuple(codes),
            false_alarms_per_subject_day=false_alarms_per_subject_day,
            make=make,
        )
        return make

    return register


def kinds() -> tuple[Kind, ...]:
    """Every detector: the built-in ones, and those of other packages that were loaded."""
    from assay.watch import detectors as built_in  # noqa: F401  (importing registers them)

    return tuple(_KINDS.values())


def load_plugins() -> None:
    """Import the modules that other packages name in the entry-point group `assay.detectors`."""
    for point in entry_points(group="assay.detectors"):
        point.load()


class Bench:
    """All detectors, each fed only with what it reads."""

    def __init__(self, settings: Settings) -> None:
        self._by_name: dict[str, list[Detector]] = {}
        for kind in kinds():
            made = kind.make(settings)
            for name in kind.reads:
                self._by_name.setdefault(name, []).append(made)

    def feed(self, item: Item) -> Iterator[Signal]:
        """The signals of all detectors that read this item."""
        name = item.kind if isinstance(item, Event) else item.metric
        for one in self._by_name.get(name, ()):
            yield from one.feed(item)
