"""The rebuilt inputs, as they are and rewritten: other file names, hosts, addresses and bus ids."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from assay.doctor.diagnose import Diagnosis, diagnose

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    files: tuple[str, ...]
    expect: str
    code: str | None
    also: tuple[str, ...]

    @property
    def codes(self) -> set[str | None]:
        return {self.code, *self.also}

    def texts(self) -> list[tuple[str, str]]:
        return [(Path(f).name, (DATA / f).read_text(encoding="utf-8")) for f in self.files]


def cases(*expects: str) -> list[Case]:
    rows = json.loads((DATA / "cases.json").read_text(encoding="utf-8"))
    every = [Case(r["id"], tuple(r["files"]), r["expect"], r["code"], tuple(r["also"])) for r in rows]
    return [case for case in every if not expects or case.expect in expects]


def diagnosed(texts: list[tuple[str, str]]) -> Diagnosis:
    return diagnose((name, text.splitlines(keepends=True)) for name, text in texts)


def disguised(case: Case) -> list[tuple[str, str]]:
    """The same artefacts from another cluster: a rule may follow only from what they mean."""
    return [(f"f{i}.dat", _other_cluster(text)) for i, (_, text) in enumerate(case.texts())]


def _other_cluster(text: str) -> str:
    names = {"node-": "gx19n", "worker-": "pod7w", "supl-": "blade", "vm-": "guest"}
    for old, new in names.items():
        text = re.sub(rf"\b{old}(?=[a-z0-9]\b)", new, text)
    text = re.sub(
        r"\b10\.(\d+)\.(\d+)\.(\d+)\b", lambda m: f"10.{int(m[1]) + 64}.{m[2]}.{int(m[3]) + 3}", text
    )
    text = re.sub(r"\bgithub\b", "gitlab", text)
    pids = re.compile(r"(?<=:)2(1\d\d\d)(?=:|:\d)")
    return pids.sub(lambda m: f"9{m[1]}", text)
