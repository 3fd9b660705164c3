"""Cards that compute other bits than their siblings, or than themselves before."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from assay.domain.finding import Evidence, Finding, Severity
from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.subject import CLUSTER, Subject

_DIGEST, _UNLIKE = ".digest", ".unlike_repeats"


def find_corruption(readings: Sequence[Reading]) -> tuple[Finding, ...]:
    """One finding per card: bits unlike those of the most, or repeats unlike the first.

    Digests are compared within one quantity and recipe, which states seed, model and library. Where no
    digest is that of more than half, nobody can be told from the others, and the cluster is named.
    """
    wrong: dict[Subject, list[Reading]] = defaultdict(list)
    for reading in readings:
        if reading.origin is Origin.MEASURED and reading.quantity.endswith(_UNLIKE) and reading.number:
            wrong[reading.subject].append(reading)
    for group in _digests(readings):
        (most, count), *others = Counter(r.value for r in group).most_common()
        if others and count * 2 <= len(group):
            wrong[CLUSTER] += [r for r in group if r.subject not in wrong]
        else:
            for reading in group:
                if reading.value != most:
                    wrong[reading.subject].append(reading)
    return tuple(_finding(subject, found) for subject, found in sorted(wrong.items()) if found)


def _digests(readings: Iterable[Reading]) -> Iterable[list[Reading]]:
    groups: dict[object, list[Reading]] = defaultdict(list)
    for r in readings:
        if r.origin is Origin.MEASURED and r.quantity.endswith(_DIGEST) and r.value is not None:
            groups[r.quantity, r.recipe].append(r)
    return groups.values()


def _finding(subject: Subject, wrong: list[Reading]) -> Finding:
    alone = all(reading.quantity.endswith(_UNLIKE) for reading in wrong)
    code = "because.unlike_itself" if alone else "because.unlike_siblings"
    return Finding(
        code="SILENT_CORRUPTION",
        severity=Severity.CRITICAL,
        subject=subject,
        because=Message.of(code, quantity=wrong[0].quantity, recipe=str(wrong[0].recipe), n=len(wrong)),
        evidence=tuple(
            Evidence.at(r.source, f"{r.quantity} of {r.subject}: {r.value}, restart {(r.replicate or 0) + 1}")
            for r in wrong[:5]
        ),
    )
