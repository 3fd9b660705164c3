"""Plain lines for a terminal: 80 columns, broken between words, wide letters counted as two columns."""

from __future__ import annotations

import re
import unicodedata

WIDTH = 80

_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60"
#: Marks that stay with what they follow: a line does not begin with them.
_CLOSING = "\u3001\u3002\u300b\u300d\uff01\uff09\uff0c\uff1a\uff1b\uff1f”’"
#: A word with the space before it. A Chinese sentence may be broken after each character.
_WORD = re.compile(rf"\s*(?:[{_WIDE}]|[^\s{_WIDE}]+)[{_CLOSING}]*")


def columns(text: str) -> int:
    """How many columns of a terminal a line takes."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def wrapped(text: str, *, indent: str = "", hang: str = "  ", width: int = WIDTH) -> str:
    """The text in lines of at most `width` columns: the first after `indent`, the others after `hang`.

    A word that is longer, such as a path, stays whole, so that it can be copied.
    """
    lines, line = [], indent
    for word in _WORD.findall(text.strip()):
        if columns(line + word.rstrip()) > width and line.strip():
            lines.append(line.rstrip())
            line = hang
        line += word if line.strip() else word.lstrip()
    return "\n".join([*lines, line.rstrip()])
