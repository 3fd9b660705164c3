"""Words for people, apart from logic: one text per code and language, through gettext.

The sources are `locale/<lang>/LC_MESSAGES/<domain>.po`, where msgid is the code. To add a text, write it
into every `.po`, then run `python -m assay.catalog.messages`, which compiles the `.mo` files beside
them (needs Babel; reading them needs only the standard library).

A text has named placeholders, printed by `assay.units.show`:

- `{step_s}`, `{message_bytes}`, `{noise_frac}`, …: in the unit that the end of the name gives;
- `{value}`, `{low}`, `{high}`, `{bound}`, `{upper}`: in the message's `unit`, a fraction where it has none;
- `{interval}`, `{more}`: the phrases for `low`, `high` and `restarts`, and for `more_restarts`; nothing
  where the message does not have them;
- `{restarts:restart|restarts}`: a count with its noun, "1 restart", "3 restarts";
- `{quantity}`: the short name of the quantity with that id; `{op}`, `{origin}`, `{better}`: their words;
- anything else as it is. A value that the message does not have stays visible as its placeholder.
"""

from __future__ import annotations

import gettext
import itertools
import re
import string
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from assay.catalog.quantities import quantities
from assay.domain.message import Message, MessageValue
from assay.errors import unknown_name
from assay.units import show, unit_of_name

LANGUAGES = ("en", "zh")
#: A text is looked up in these catalogues in turn; each code stands in one of them.
DOMAINS = ("assay", "doctor", "predict", "plan", "watch")

#: Names whose unit is the message's own.
_IN_UNIT = ("value", "low", "high", "bound", "upper")
#: Names whose value is a word with a text of its own, as `origin.claimed`.
_CODED = ("better", "op", "origin")


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingText:
    """What a finding is called, why it matters, and what to do, most useful first."""

    title: str
    why: str
    fixes: tuple[str, ...]


class Texts:
    """The texts of one language; raises `UnknownNameError` for a language that there is not."""

    def __init__(self, lang: str) -> None:
        if lang not in LANGUAGES:
            raise unknown_name("language", lang, LANGUAGES)
        self.lang = lang
        self._translations = _translations(lang)

    def has(self, code: str) -> bool:
        """Whether there is a text for `code`."""
        return self._translations.gettext(code) != code

    def label(self, code: str) -> str:
        """The text of a code without placeholders; the code itself where there is none."""
        return self._translations.gettext(code)

    def say(self, message: Message) -> str:
        """The sentence for a message, with its values filled in and printed in their units."""
        return self._fill(self.label(message.code), dict(message.values))

    def word(self, word: str) -> str:
        """How a word of an id is written for people: `bf16` as BF16, `all_reduce` as all-reduce."""
        return self.label(f"word.{word}") if self.has(f"word.{word}") else word

    def quantity(self, quantity_id: str) -> str:
        """The short name of a quantity, its placeholders filled in from the id."""
        for pattern, form in _quantity_forms():
            match = form.fullmatch(quantity_id)
            if match and self.has(f"quantity.{pattern}"):
                words = {name: self.word(word) for name, word in match.groupdict().items()}
                return self._fill(self.label(f"quantity.{pattern}"), words)
        return quantity_id

    def finding(self, code: str) -> FindingText:
        """Title, why and fixes of a finding code; the bare code where there is no text for it."""
        if not self.has(f"finding.{code}.title"):
            return FindingText(title=code, why="", fixes=())
        return FindingText(
            title=self.label(f"finding.{code}.title"),
            why=self.label(f"finding.{code}.why"),
            fixes=tuple(self.label(f"finding.{code}.fix").splitlines()),
        )

    def _fill(self, text: str, values: Mapping[str, MessageValue]) -> str:
        known = {name: self._in_words(name, value) for name, value in values.items()}
        filled = {"interval": "", "more": ""} | known
        low, high = values.get("low"), values.get("high")
        if low is not None and high is not None and low != high:
            phrase = "phrase.interval_restarts" if values.get("restarts") else "phrase.interval"
            filled["interval"] = _FORMATTER.vformat(self.label(phrase), (), known)
        if values.get("more_restarts"):
            filled["more"] = _FORMATTER.vformat(self.label("phrase.more_restarts"), (), known)
        return _FORMATTER.vformat(text, (), filled)

    def _in_words(self, name: str, value: MessageValue) -> MessageValue:
        """The text of a value that is itself an id or a code; any other value unchanged."""
        if not isinstance(value, str):
            return value
        if name == "quantity":
            return self.quantity(value)
        code = f"{name}.{value}"
        return self.label(code) if name in _CODED and self.has(code) else value


def placeholders(text: str) -> frozenset[str]:
    """Names of the placeholders in a text."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(text) if name)


class _UnitFormatter(string.Formatter):
    """`str.format` with units for numbers; what is not given stays visible."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        if field_name not in kwargs:
            return f"{{{field_name}}}", field_name
        value = kwargs[field_name]
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            return value, field_name
        return _Number(value, _unit_of(field_name, kwargs)), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, _Number):
            return value.printed(format_spec)
        return str(value)


@dataclass(frozen=True, slots=True)
class _Number:
    value: float | None
    unit: str | None

    def printed(self, nouns: str) -> str:
        """In its unit; with `nouns` ("restart|restarts") followed by the one that fits the count."""
        if self.value is None:
            text = "–"
        elif self.unit is not None:
            text = show(self.value, self.unit)
        else:
            text = f"{self.value:,}" if isinstance(self.value, int) else show(self.value, "count")
        if not nouns:
            return text
        one, _, many = nouns.partition("|")
        return f"{text} {one if self.value == 1 else many}"


_FORMATTER = _UnitFormatter()


def _unit_of(name: str, values: Mapping[str, Any]) -> str | None:
    if name in _IN_UNIT:
        return str(values.get("unit") or "1")
    return unit_of_name(name)


@cache
def _translations(lang: str) -> gettext.GNUTranslations:
    texts = [_compiled(lang, domain) for domain in DOMAINS]
    for earlier, later in itertools.pairwise(texts):
        earlier.add_fallback(later)
    return texts[0]


def _compiled(lang: str, domain: str) -> gettext.GNUTranslations:
    source = resources.files("assay.catalog") / "locale" / lang / "LC_MESSAGES" / f"{domain}.mo"
    with source.open("rb") as file:
        return gettext.GNUTranslations(file)


@cache
def _quantity_forms() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Each quantity id of the catalogue with the form that its ids have; ids without placeholders first."""
    ids = sorted((known.id for known in quantities()), key=lambda quantity_id: "<" in quantity_id)
    return tuple((quantity_id, re.compile(_form(quantity_id))) for quantity_id in ids)


def _form(quantity_id: str) -> str:
    parts = re.split(r"<(\w+)>", quantity_id)
    return "".join(rf"(?P<{p}>[^.]+)" if i % 2 else re.escape(p) for i, p in enumerate(parts))


def compile_all(root: Path | None = None) -> list[Path]:
    """Compile every `.po` under `root` (the shipped ones) into the `.mo` beside it. Needs Babel."""
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    written = []
    for source in sorted((root or Path(__file__).parent / "locale").glob("*/LC_MESSAGES/*.po")):
        with source.open("rb") as file:
            catalogue = read_po(file, abort_invalid=True)
        # Without dates, the same texts give the same bytes.
        catalogue.creation_date = catalogue.revision_date = datetime.fromtimestamp(0, UTC)
        with source.with_suffix(".mo").open("wb") as file:
            write_mo(file, catalogue)
        written.append(source.with_suffix(".mo"))
    return written


if __name__ == "__main__":
    for path in compile_all():
        sys.stdout.write(f"{path}\n")
