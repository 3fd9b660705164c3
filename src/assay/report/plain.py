"""Plain lines for a terminal: 80 columns, broken between words, wide letters counted as two columns."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

WIDTH = 80

_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60"
#: Marks that stay with what they follow: a line does not begin with them.
_CLOSING = "\u3001\u3002\u300b\u300d\uff01\uff09\uff0c\uff1a\uff1b\uff1f”’"
#: A word with the space before it. A Chinese sentence may be broken after each character.
_WORD = re.compile(rf"\s*(?:[{_WIDE}]|[^\s{_WIDE}]+)[{_CLOSING}]*")


def columns(text: str) -> int:
    """How many columns of a terminal a line takes."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def wrapped(text: str, *, hang: int = 2, width: int = WIDTH) -> str:
    """The text with each of its lines at most `width` columns wide; what is broken goes on `hang` columns in.

    A word that is longer, such as a path, stays whole, so that it can be copied.
    """
    return "\n".join(broken for line in text.split("\n") for broken in _broken(line, hang, width))


def _broken(text: str, hang: int, width: int) -> Iterator[str]:
    begin = len(text) - len(text.lstrip(" "))
    line = text[:begin]
    for word in _WORD.findall(text[begin:].rstrip()):
        if columns(line + word) > width and line.strip():
            yield line.rstrip()
            line = " " * hang
        line += word if line.strip() else word.lstrip()
    yield line.rstrip()
