"""Every rebuilt case leads to its cause, also when it comes from another cluster under other names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from case_files import Case, cases, diagnosed, disguised

from assay.doctor.diagnose import Diagnosis, Outcome
from assay.domain.finding import Severity

Texts = Callable[[Case], list[tuple[str, str]]]
READINGS = pytest.mark.parametrize("texts", [Case.texts, disguised], ids=["as-is", "disguised"])


def by_id(*expects: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases(*expects), ids=lambda case: case.id)


def open_codes(diagnosis: Diagnosis) -> list[str]:
    return [f.code for f in diagnosis.findings if f.severity is not Severity.INFO]


@READINGS
@by_id("root")
def test_a_proven_cause_comes_first(case: Case, texts: Texts) -> None:
    diagnosis = diagnosed(texts(case))
    assert diagnosis.first is not None
    assert diagnosis.first.code in case.codes
    assert diagnosis.verdict is Outcome.FAULT


@READINGS
@by_id("root-likely")
def test_a_likely_cause_comes_first_and_is_not_called_certain(case: Case, texts: Texts) -> None:
    diagnosis = diagnosed(texts(case))
    assert diagnosis.first is not None
    assert diagnosis.first.code in case.codes
    assert diagnosis.first.confidence_frac < 0.8


@READINGS
@by_id("symptom+shortlist")
def test_a_symptom_gives_a_shortlist_and_no_verdict(case: Case, texts: Texts) -> None:
    diagnosis = diagnosed(texts(case))
    assert case.codes & set(open_codes(diagnosis)[:3])
    assert diagnosis.verdict is Outcome.UNDECIDED


@READINGS
@by_id("no-fault", "info", "healthy")
def test_what_is_no_fault_alarms_nobody(case: Case, texts: Texts) -> None:
    diagnosis = diagnosed(texts(case))
    assert open_codes(diagnosis) == []
    assert diagnosis.verdict is Outcome.NONE


PREFIXES = {
    "srun": lambda line: f"3: {line}",
    "mpirun": lambda line: f"[1,3]<stdout>:{line}",
    "kubectl": lambda line: f"2026-01-12T10:00:00.123Z {line}",
    "torchrun": lambda line: f"[default3]:{line}",
    "pdsh": lambda line: f"n7: {line}",
    "colour": lambda line: f"\x1b[32m{line.rstrip()}\x1b[0m\n",
    "windows": lambda line: f"{line.rstrip()}\r\n",
    "quoted": lambda line: f"> {line}",
    "indented": lambda line: f"    {line}",
}


@pytest.mark.parametrize("form", PREFIXES.values(), ids=PREFIXES.keys())
def test_what_stands_before_every_line_changes_nothing(form: Callable[[str], str]) -> None:
    for case in cases("root", "root-likely", "healthy"):
        if any(file.endswith((".json", ".xml")) for file in case.files):
            continue
        texts = [(name, "".join(map(form, text.splitlines(keepends=True)))) for name, text in case.texts()]
        first = next(iter(open_codes(diagnosed(texts))), None)
        assert first in case.codes, case.id


@by_id()
def test_evidence_is_a_line_that_exists(case: Case) -> None:
    texts = dict(case.texts())
    diagnosis = diagnosed(list(texts.items()))
    for finding in diagnosis.findings:
        assert finding.evidence
        for proof in finding.evidence:
            assert proof.line is not None
            assert 1 <= proof.line <= len(texts[proof.file].splitlines())


@by_id()
def test_the_order_of_the_files_does_not_matter(case: Case) -> None:
    texts = case.texts()
    there, back = diagnosed(texts), diagnosed(texts[::-1])
    assert [f.code for f in there.findings] == [f.code for f in back.findings]


@by_id("healthy")
def test_a_healthy_file_beside_a_faulty_one_hides_nothing(case: Case) -> None:
    xid = "[ 9.1] NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=python3, GPU has fallen off the bus.\n"
    diagnosis = diagnosed([*case.texts(), ("kernel.txt", xid)])
    assert diagnosis.first is not None
    assert diagnosis.first.code == "GPU_XID_79"


@by_id("root", "root-likely")
def test_healthy_files_of_other_nodes_do_not_hide_the_cause(case: Case) -> None:
    if case.id == "net-09-firewall-own-address":
        return  # its host has the name of a healthy one and another address, which is a cause of its own
    healthy = [(f"other/{name}", text) for one in cases("healthy") for name, text in one.texts()]
    first = diagnosed([*case.texts(), *healthy]).first
    assert first is not None
    assert first.code in case.codes
