"""`dcgmi diag --json`, versions 3 and 4: each test's result per GPU with its warnings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from assay.formats.sentences import Said


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


def read(document: dict[str, object], file: str) -> Iterator[DiagResult | Said]:
    """Every result, in order, and the PCI device ids of the GPUs."""
    root = document.get("DCGM GPU Diagnostic") or document.get("DCGM Diagnostic")
    categories = root.get("test_categories") if isinstance(root, dict) else None
    for category in categories if isinstance(categories, list) else []:
        tests = category.get("tests") if isinstance(category, dict) else None
        for test in tests if isinstance(tests, list) else []:
            if isinstance(test, dict):
                yield from _test(test, file)
    ids = _device_ids(root) if isinstance(root, dict) else ()
    if ids:
        text = f"GPU device ids: {', '.join(ids)}"
        yield Said(fact="dcgm.device_ids", file=file, line=1, text=text, fields={"ids": ",".join(ids)})


def _device_ids(root: dict[str, object]) -> tuple[str, ...]:
    """Version 4 lists entities with their ids, version 3 the ids alone."""
    found: list[str] = []
    metadata = root.get("metadata")
    for part in (root, metadata if isinstance(metadata, dict) else {}):
        listed = part.get("GPU Device IDs Detected") or part.get("gpu_device_ids")
        found += [str(one) for one in listed] if isinstance(listed, list) else []
        groups = part.get("entity_groups")
        for group in groups if isinstance(groups, list) else []:
            entities = group.get("entities") if isinstance(group, dict) else None
            found += [
                str(e["device_id"])
                for e in (entities if isinstance(entities, list) else [])
                if isinstance(e, dict) and e.get("device_id")
            ]
    return tuple(dict.fromkeys(one[:8] for one in found))


def _test(test: dict[str, object], file: str) -> Iterator[DiagResult]:
    results, summary = test.get("results"), test.get("test_summary")
    told = [r.get("status") for r in results if isinstance(r, dict)] if isinstance(results, list) else []
    if isinstance(summary, dict) and summary.get("status") not in (None, *told):
        yield DiagResult(
            file=file,
            line=1,
            test=str(test.get("name", "")),
            entity="all",
            status=str(summary["status"]),
            warning=_warnings(summary),
        )
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


class DiagTextReader:
    """The table that `dcgmi diag` prints, versions 3 (`Fail - GPU: 5`) and 4 (`GPU5: Fail`)."""

    kind = "dcgmi diag"
    _row = re.compile(r"^\|\s*(?P<test>[A-Za-z][\w /-]*?)\s*\|\s*(?P<said>.*?)\s*\|\s*$")
    _more = re.compile(r"^\|\s*\|\s*(?P<said>.*?)\s*\|\s*$")
    _head = re.compile(r"^\|\s*Diagnostic\s*\|\s*Result\s*\|")
    _verdict = re.compile(r"^(?:GPU ?(?P<gpu>\d+): )?(?P<status>Pass|Fail|Skip|Warn)(?: - (?P<who>.*))?$")
    _rule = re.compile(r"^[|+][-=+ |]*[\w ]*[-=+ |]*$")

    def __init__(self, file: str) -> None:
        self.file = file
        self.records: list[object] = []
        self._inside = False
        self._test = ""

    def feed(self, line: str, number: int) -> bool:
        """Take the head, the rows, and the lines that continue one."""
        if self._head.match(line):
            self._inside = True
            return True
        if not self._inside:
            return False
        if match := self._row.match(line) or self._more.match(line):
            self._test = match.groupdict().get("test") or self._test
            self._said(match["said"], number)
            return True
        self._inside = bool(self._rule.match(line))
        return self._inside

    def _said(self, said: str, number: int) -> None:
        if match := self._verdict.match(said):
            who = match["gpu"] or ",".join(re.findall(r"\d+", match["who"] or "")) or "all"
            self.records.append(
                DiagResult(
                    file=self.file,
                    line=number,
                    test=self._test,
                    entity=f"gpu {who}",
                    status=match["status"],
                    warning="",
                )
            )
        elif self.records and isinstance(last := self.records[-1], DiagResult) and last.test == self._test:
            self.records[-1] = replace(last, warning=f"{last.warning} {said}".strip()[:500])
