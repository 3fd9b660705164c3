"""Reading small kernel files: every read ends in a text or in the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assay.probe.fact import Fact, Value, known, missing

# Kernel files are small; a larger file is not what its name says, and is not worth the time.
_MOST_BYTES = 4 << 20
_PIECE_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """Where the trees of the machine are mounted; `under("/host")` reads a host from inside a container."""

    top: Path
    sys: Path
    proc: Path
    etc: Path
    dev: Path
    home: Path

    @classmethod
    def under(cls, top: Path | str, *, home: Path | str | None = None) -> Roots:
        """The usual places below `top`; `home` is the user's directory (default: `top`/root)."""
        top = Path(top)
        return cls(
            top=top,
            sys=top / "sys",
            proc=top / "proc",
            etc=top / "etc",
            dev=top / "dev",
            home=Path(home) if home is not None else top / "root",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """What `path` holds, without white space at its ends, or the `reason` why it could not be read."""

    path: Path
    text: str | None
    reason: str | None


def read(path: Path) -> Text:
    """Read `path` as UTF-8; bytes that are no UTF-8 are replaced."""
    try:
        content = _content(path)
    except OSError as error:
        return Text(path=path, text=None, reason=_why(path, error))
    text = content.decode("utf-8", "replace").replace("\0", " ").strip()
    return Text(path=path, text=text, reason=None)


def entries(directory: Path) -> list[Path]:
    """The entries of `directory` in natural order (mlx5_2 before mlx5_10); none where it cannot be read."""
    try:
        return sorted(directory.iterdir(), key=lambda path: _natural(path.name))
    except OSError:
        return []


def link_name(path: Path) -> str | None:
    """The last part of the target of the symbolic link `path`: the driver or device behind it."""
    try:
        return path.readlink().name
    except OSError:
        return None


def absence(path: Path) -> str:
    """The reason to give where `path` is not there: names the topmost part that is missing."""
    for ancestor in reversed(path.parents):
        if not _exists(ancestor):
            return f"no {ancestor} on this host"
    return f"no {path} on this host"


def file_fact(
    subject: str, key: str, path: Path, *, unit: str = "text", parse: Callable[[str], Value] = str
) -> Fact:
    """The fact that `path` holds; `parse` raises ValueError for a text that it does not know."""
    return text_fact(subject, key, read(path), unit=unit, parse=parse)


def text_fact(
    subject: str, key: str, source: Text, *, unit: str = "text", parse: Callable[[str], Value] = str
) -> Fact:
    """As `file_fact`, for a file that has been read already and holds several facts."""
    if source.text is None:
        return missing(subject, key, unit, source.reason or "not read", str(source.path))
    if not source.text:
        return missing(subject, key, unit, f"{source.path} is empty", str(source.path))
    try:
        value = parse(source.text)
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{source.path} gives {value}")
        return known(subject, key, value, unit, str(source.path))
    except ValueError as error:
        return missing(subject, key, unit, str(error) or f"{source.path} is not understood", str(source.path))


def whole(text: str) -> int:
    """A whole number in decimal digits or 0x hexadecimal, as wide as the kernel's widest (64 bits)."""
    try:
        number = int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        raise ValueError(f"holds {short(text)!r}, not a whole number") from None
    if abs(number) >= 2**64:
        raise ValueError(f"holds {short(text)!r}, more than 64 bits")
    return number


def whole_or_none(text: str) -> int | None:
    """As `whole`, for a place where something else than a number may rightly stand ("max", "unlimited")."""
    try:
        return whole(text)
    except ValueError:
        return None


def number(text: str) -> float:
    """A finite decimal number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"holds {short(text)!r}, not a number")
    return value


def scaled(factor: float) -> Callable[[str], float]:
    """A parser for a whole number that the kernel prints in units of `factor` base units."""
    return lambda text: whole(text) * factor


def _content(path: Path) -> bytes:
    """At most `_MOST_BYTES`, in pieces: /proc/sys refuses a read that needs a large buffer."""
    content = b""
    with path.open("rb", buffering=0) as file:
        while len(content) < _MOST_BYTES and (piece := file.read(_PIECE_BYTES)):
            content += piece
    return content


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return True


def _why(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return absence(path)
    if isinstance(error, PermissionError):
        return f"no permission to read {path}"
    return f"cannot read {path}: {error.strerror or error}"


def _natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    parts: list[str] = []
    for character in name:
        if parts and parts[-1][-1].isdecimal() == character.isdecimal():
            parts[-1] += character
        else:
            parts.append(character)
    return tuple((p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in parts)


def short(text: str) -> str:
    """`text` cut for a message."""
    return text if len(text) <= 40 else text[:40] + "…"
