"""The catalogue of finding codes that `qualify`, `doctor` and `watch` share."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from assay.catalog.tables import shipped_text
from assay.domain.finding import Severity
from assay.domain.quantity import Scope
from assay.errors import unknown_name

#: What measuring finds, what the doctor reads from logs, what cabling shows, and what the watch notices.
FILES = ("findings.toml", "findings_doctor.toml", "findings_fabric.toml", "findings_watch.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingKind:
    """One code: its usual severity, the kind of thing it is about, and where its evidence is read.

    Its words are texts: `Texts.finding(code)`.
    """

    code: str
    severity: Severity
    scope: Scope
    source: str


@cache
def findings() -> Mapping[str, FindingKind]:
    """Every kind of finding, by code."""
    return MappingProxyType(
        {
            code: FindingKind(
                code=code, severity=Severity(row["severity"]), scope=Scope(row["scope"]), source=row["source"]
            )
            for file in FILES
            for code, row in tomllib.loads(shipped_text(file)).items()
        }
    )


def finding(code: str) -> FindingKind:
    """The kind of finding with this code; `UnknownNameError` with a suggestion where there is none."""
    kinds = findings()
    if code not in kinds:
        raise unknown_name("finding code", code, kinds)
    return kinds[code]
