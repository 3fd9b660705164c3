"""XML of other programs as a tree that knows the line of every element."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass
from xml.parsers import expat

from assay.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class XmlTree:
    """A file's root element; `line` maps each element to the number of its line."""

    file: str
    root: ET.Element
    line: Mapping[ET.Element, int]
    text: str

    def where(self, element: ET.Element) -> str:
        """`file:line` of an element."""
        return f"{self.file}:{self.line[element]}"

    def shown(self, element: ET.Element) -> str:
        """The line that an element begins on, for people."""
        return self.text.splitlines()[self.line[element] - 1].strip()[:200]


def parse_xml(text: str, file: str) -> XmlTree:
    """The tree of `text`. Declared entities are refused, since they can grow without bound."""
    parser, builder = expat.ParserCreate(), ET.TreeBuilder()
    line: dict[ET.Element, int] = {}

    def opened(tag: str, items: dict[str, str]) -> None:
        line[builder.start(tag, items)] = parser.CurrentLineNumber

    def closed(tag: str) -> None:
        builder.end(tag)

    def entity(*_: object) -> None:
        raise InputError(
            "declares entities, which none of these files needs",
            where=f"{file}:{parser.CurrentLineNumber}",
            fix="remove the <!ENTITY lines",
        )

    parser.StartElementHandler = opened
    parser.EndElementHandler = closed
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(text, True)
        root = builder.close()
    except (expat.ExpatError, ValueError, RecursionError) as fault:
        raise InputError(
            f"is not whole XML: {fault}",
            where=f"{file}:{getattr(fault, 'lineno', 1)}",
            fix="copy the file again; it was probably cut off",
        ) from None
    return XmlTree(file=file, root=root, line=line, text=text)
