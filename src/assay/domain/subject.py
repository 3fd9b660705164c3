"""What a value is about: a rank, a node, a GPU, a port, a pair of ends, a directed link, the cluster."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from assay.errors import InputError

KINDS = ("rank", "node", "gpu", "port", "pair", "link", "group", "cluster")
_FORM = re.compile(r"(?P<kind>[a-z]+)(?::(?P<name>.+))?")
_NUMBERS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Subject:
    """One subject; written `rank:2`, `gpu:node07/2`, `pair:h1|h3` (sorted), `link:h2>h3`, `cluster`.

    A pair has no direction and its ends are kept in order; a link has one, and `*` as its far end
    means "to every other".
    """

    kind: str
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"unknown kind of subject {self.kind!r}", fix=f"one of {', '.join(KINDS)}")
        if (self.kind == "cluster") == bool(self.name):
            raise InputError(
                f"a subject of kind {self.kind!r} {'takes no' if self.name else 'needs a'} name",
                fix="write 'cluster' alone, or for example 'rank:2'",
            )
        if self.kind == "pair":
            ends = self.name.split("|")
            if len(ends) != 2 or not all(ends):
                raise InputError(f"pair {self.name!r} does not name two ends", fix="write 'pair:a|b'")
            object.__setattr__(self, "name", "|".join(sorted(ends, key=natural_key)))
        if self.kind == "link" and len([e for e in self.name.split(">") if e]) != 2:
            raise InputError(f"link {self.name!r} does not name two ends", fix="write 'link:from>to'")

    @classmethod
    def parse(cls, text: str) -> Subject:
        """Read the written form; raises `InputError` when it is none."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise InputError(f"cannot read {text!r} as a subject", fix="for example 'rank:2' or 'cluster'")
        return cls(match["kind"], match["name"] or "")

    @property
    def ends(self) -> tuple[str, ...]:
        """The names at both ends of a pair or link; the single name otherwise."""
        if self.kind == "pair":
            return tuple(self.name.split("|"))
        if self.kind == "link":
            return tuple(self.name.split(">"))
        return (self.name,) if self.name else ()

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}" if self.name else self.kind

    def __lt__(self, other: Subject) -> bool:
        return (self.kind, natural_key(self.name)) < (other.kind, natural_key(other.name))


CLUSTER = Subject("cluster")


def leaf_group(leaf: str) -> Subject:
    """The nodes below one leaf switch, by its name: `leaf3` → `group:leaf3`, `s07` → `group:leaf-s07`."""
    name = re.sub(r"[\s:]+", "-", leaf)
    return Subject("group", name if "leaf" in name.lower() or name.startswith("block") else f"leaf-{name}")


@functools.lru_cache(maxsize=2**16)
def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which rank 10 follows rank 9, not rank 1."""
    parts = _NUMBERS.split(text)
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts if p)
