"""`dcgmi diag --json`, versions 3 and 4: each test's result per GPU with its warnings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagResult:
    """One test on one entity (`gpu 3`, `cpu 0`, or `all`)."""

    file: str
    line: int
    test: str
    entity: str
    status: str
    warning: str


def is_diag(document: object) -> bool:
    """Whether decoded JSON is the answer of `dcgmi diag`."""
    return isinstance(document, dict) and any(
        key in document for key in ("DCGM GPU Diagnostic", "DCGM Diagnostic")
    )


def read(document: dict[str, object], file: str) -> Iterator[DiagResult]:
    """Every result, in order."""
    root = document.get("DCGM GPU Diagnostic") or document.get("DCGM Diagnostic")
    categories = root.get("test_categories") if isinstance(root, dict) else None
    for category in categories if isinstance(categories, list) else []:
        tests = category.get("tests") if isinstance(category, dict) else None
        for test in tests if isinstance(tests, list) else []:
            if isinstance(test, dict):
                yield from _test(test, file)


def _test(test: dict[str, object], file: str) -> Iterator[DiagResult]:
    results = test.get("results")
    for result in results if isinstance(results, list) else []:
        if not isinstance(result, dict):
            continue
        number = result.get("gpu_id", result.get("gpu_ids", result.get("entity_id", "all")))
        group = str(result.get("entity_group", "gpu")).lower()
        yield DiagResult(
            file=file,
            line=1,
            test=str(test.get("name", "")),
            entity=f"{group} {number}",
            status=str(result.get("status", "")),
            warning=_warnings(result),
        )


def _warnings(result: dict[str, object]) -> str:
    raw = result.get("warnings", result.get("warning", ""))
    if isinstance(raw, list):
        return "; ".join(str(w.get("warning", w)) if isinstance(w, dict) else str(w) for w in raw)[:500]
    return str(raw or "")[:500]
