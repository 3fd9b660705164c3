"""What the tests of this room ask of facts."""

from __future__ import annotations

from collections.abc import Iterable

from assay.probe import Fact

NODE = "node:h"


def find(facts: Iterable[Fact], key: str, subject: str = NODE) -> Fact:
    """The one fact of `subject` with `key`; fails where there are none or two."""
    [fact] = [fact for fact in facts if fact.key == key and str(fact.subject) == subject]
    return fact
