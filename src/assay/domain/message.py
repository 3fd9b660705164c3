"""A sentence for people, kept as a code and its values; the words live in the message catalogues."""

from __future__ import annotations

from dataclasses import dataclass

MessageValue = str | int | float | None


@dataclass(frozen=True, slots=True)
class Message:
    """A message code, and the values that its text shows, by name.

    A value whose name ends in a unit of the naming rule (`_s`, `_frac`, …) is printed in it;
    a value named `value` or `bound` is printed in the unit given as `unit`.
    """

    code: str
    values: tuple[tuple[str, MessageValue], ...] = ()

    @classmethod
    def of(cls, code: str, /, **values: MessageValue) -> Message:
        """A message from keywords."""
        return cls(code, tuple(values.items()))
