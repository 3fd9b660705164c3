"""Lines of logs whose meaning is known: one name for a fact, however the versions of a program word it.

A vocabulary is a table of sentences. A line is held only against the sentences whose trigger word it
contains, so that a log of millions of lines is read at the speed of finding its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: Words that may trigger a sentence: two letters or more, also inside paths and identifiers.
_WORDS = re.compile(r"[A-Za-z][A-Za-z_0-9]+").findall
#: A longer line is cut: nobody reads more as evidence, and a pattern must not run over megabytes.
LONGEST = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One line whose meaning is known.

    `fact` names what it says, `fields` its named parts as printed. `host`, `rank` and `pid` are who
    said it where the line tells; `time` is its time stamp as printed.
    """

    fact: str
    file: str
    line: int
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)
    host: str | None = None
    rank: int | None = None
    pid: str | None = None
    device: str | None = None
    time: str | None = None

    def __getitem__(self, name: str) -> str:
        """A named part of the line; empty where the line does not have it."""
        return self.fields.get(name, "")

    def number(self, name: str) -> int | None:
        """A named part as a whole number, or None."""
        text = self.fields.get(name, "")
        return int(text) if text.isascii() and text.lstrip("-").isdigit() and len(text) < 19 else None


@dataclass(frozen=True, slots=True)
class Sentence:
    """A fact, the word that every wording of it contains (case kept), and the pattern to search for."""

    fact: str
    word: str
    pattern: str


class Vocabulary:
    """Sentences by their trigger word; `find` returns the facts of a line.

    A pattern is compiled when its word is first met: most files say only a few of the sentences.
    """

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        by_word: dict[str, list[Sentence]] = {}
        for sentence in sentences:
            by_word.setdefault(sentence.word, []).append(sentence)
        self._by_word = by_word
        self._words = frozenset(by_word)
        self._compiled: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {}

    def find(self, text: str) -> list[tuple[str, Mapping[str, str]]]:
        """Every fact that the text states, with the named parts of the match."""
        words = _WORDS(text)
        if self._words.isdisjoint(words):
            return []
        found: dict[str, Mapping[str, str]] = {}
        for word in dict.fromkeys(words):
            if word in self._words:
                for fact, pattern in self._compiled.get(word) or self._compile(word):
                    if fact not in found and (match := pattern.search(text)):
                        found[fact] = {k: v for k, v in match.groupdict().items() if v is not None}
        return list(found.items())

    def _compile(self, word: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
        patterns = tuple((s.fact, re.compile(s.pattern)) for s in self._by_word[word])
        self._compiled[word] = patterns
        return patterns
