"""JSON that other programs print, often between lines of plain text: found, decoded, and read by type."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass

from assay.errors import InputError
from assay.formats.lines import whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """One JSON object with its path, read key by key; a wrong type is an `InputError` with the path."""

    items: dict[str, object]
    path: str
    where: str

    def _wrong(self, key: str, wanted: str) -> InputError:
        value = json.dumps(self.items.get(key), default=str)
        shown = value if len(value) <= 60 else value[:57] + "…"
        return InputError(f"{self.path}{key} is {shown}, but {wanted} is wanted", where=self.where)

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.items.get(key) is not None

    def need(self, *keys: str) -> None:
        """Refuse the object when one of the keys is missing."""
        missing = [key for key in keys if key not in self.items]
        if missing:
            raise InputError(
                f"{self.path or 'the object '}lacks {', '.join(missing)}",
                where=self.where,
                fix="export the result again with the tool itself; a trimmed file cannot be judged",
            )

    def text(self, key: str) -> str | None:
        """A string, or None when absent or null."""
        value = self.items.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(key, "text")

    def real(self, key: str) -> float | None:
        """A number; None when absent, null, or the text "nan"."""
        value = self.items.get(key)
        if value is None or (
            isinstance(value, str) and value.strip().lower() in ("nan", "-nan", "inf", "-inf")
        ):
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
            raise self._wrong(key, "a number")
        return float(value) if math.isfinite(value) else None

    def whole(self, key: str) -> int | None:
        """A whole number, also when it is printed as text (`"    -1"`); None when absent or null."""
        value = self.items.get(key)
        if value is None:
            return None
        if isinstance(value, str) and (spelled := whole(value.strip())) is not None:
            return spelled
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(key, "a whole number")
        return value

    def flag(self, key: str) -> bool | None:
        """A boolean, also as the text "true" or "false"; None when absent or null."""
        value = self.items.get(key)
        if value is None or isinstance(value, bool):
            return value
        if value in ("true", "false"):
            return value == "true"
        raise self._wrong(key, "true or false")

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of strings; empty when absent or null."""
        value = self.items.get(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise self._wrong(key, "a list of text")

    def reals(self, key: str) -> tuple[float, ...]:
        """A list of finite numbers; empty when absent or null."""
        value = self.items.get(key)
        if value is None:
            return ()
        if isinstance(value, list):
            numbers = [
                x for x in value if isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < 1e300
            ]
            if len(numbers) == len(value):
                return tuple(float(x) for x in numbers)
        raise self._wrong(key, "a list of numbers")

    def child(self, key: str) -> Fields | None:
        """The object under the key, or None when absent or null."""
        value = self.items.get(key)
        if value is None:
            return None
        if isinstance(value, dict):
            return Fields(items=value, path=f"{self.path}{key}.", where=self.where)
        raise self._wrong(key, "an object")

    def children(self, key: str) -> tuple[Fields, ...]:
        """The list of objects under the key; empty when absent or null."""
        value = self.items.get(key)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return tuple(
                Fields(items=item, path=f"{self.path}{key}[{i}].", where=self.where)
                for i, item in enumerate(value)
            )
        raise self._wrong(key, "a list of objects")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonText:
    """The JSON object of a file: its fields, the 1-based lines that it covers, and the other lines."""

    root: Fields
    first_line: int
    last_line: int
    unread: tuple[int, ...]
    lines: tuple[str, ...]

    def lines_of(self, key: str, count: int) -> tuple[int, ...]:
        """The lines on which `"key"` stands; the first line for all when there are not `count` of them."""
        found = [
            number
            for number in range(self.first_line, self.last_line + 1)
            if self.lines[number - 1].lstrip(" \t{[,").startswith(f'"{key}"')
        ]
        return tuple(found) if len(found) == count else (self.first_line,) * count


def read_object(lines: Iterable[str], name: str, *, title: str) -> JsonText:
    """Find and decode the one JSON object of a file; text before and after it is counted as unread.

    A line of text may itself hold braces, so an object is tried wherever a line starts with "{".
    Raises `InputError` at the line where the text stops being JSON.
    """
    kept = tuple(line.rstrip("\r\n").removeprefix("\ufeff") for line in lines)
    depths = {
        i: len(line) - len(line.lstrip()) for i, line in enumerate(kept) if line.lstrip().startswith("{")
    }
    if not depths:
        raise InputError(
            f"no JSON object is in this file of {len(kept)} lines, but {title} is one",
            where=f"{name}:1",
            fix="give the file that the tool wrote, whole",
        )
    worst = (0, "")
    for index in (i for i, depth in depths.items() if depth == min(depths.values())):  # outermost ones only
        text = "\n".join(kept[index:])
        try:
            value, end = json.JSONDecoder().raw_decode(text, depths[index])
        except json.JSONDecodeError as error:
            worst = max(worst, (index + text.count("\n", 0, error.pos) + 1, error.msg))
            continue
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or absurd nesting
            worst = max(worst, (index + 1, str(error)))
            continue
        last = index + text.count("\n", 0, end) + 1
        return JsonText(
            root=Fields(items=value, path="", where=f"{name}:{index + 1}"),
            first_line=index + 1,
            last_line=last,
            unread=tuple(n for n, line in enumerate(kept, 1) if line.strip() and not index < n <= last),
            lines=kept,
        )
    end_of_file = worst[0] >= len(kept)
    raise InputError(
        f"the JSON {'stops' if end_of_file else 'breaks'} here ({worst[1]}), so it is no {title}",
        where=f"{name}:{worst[0]}",
        fix="the file was cut off: copy it again, or let the tool run to its end"
        if end_of_file
        else "give the file as the tool wrote it",
    )
