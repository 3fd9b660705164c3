"""`assay doctor`: the action and its target first, exit codes, JSON, the words for every code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from case_files import DATA
from click.testing import CliRunner

from assay.app.doctor import doctor
from assay.catalog.findings import findings
from assay.catalog.messages import LANGUAGES, Texts
from assay.doctor.registry import rules
from assay.doctor.unexplained import UNEXPLAINED
from assay.report.diagnosis import explained

INPUTS = DATA / "inputs"


def run(*args: str | Path, stdin: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(doctor, [str(a) for a in args], input=stdin, standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, result.output


def test_the_first_two_lines_are_the_action_and_its_target() -> None:
    code, output = run(INPUTS / "gpu-04-xid45-caused-by.txt")
    first, second = output.splitlines()[:2]
    assert code == 1
    assert first == "Drain the node and reset its GPUs"
    assert second.startswith("→ gpu:0000:dc:00: ")
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("healthy/h13-dmesg-clean-boot.txt", 0),
        ("inputs/net-05-veth-picked.txt", 1),
        ("inputs/roce-05-three-node-collapse.txt", 3),
    ],
)
def test_exit_codes_tell_nothing_wrong_cause_and_undecided(file: str, code: int) -> None:
    assert run(DATA / file)[0] == code


@pytest.mark.parametrize("lang", LANGUAGES)
def test_json_has_the_agreed_keys(lang: str) -> None:
    code, output = run("--json", "--lang", lang, INPUTS / "ib-12-flush-follows-first-error.txt")
    answer = json.loads(output)
    assert code == 3
    assert answer["verdict"] == "undecided"
    assert {"schema_version", "command", "assay_version", "findings", "looked_for", "unread"} <= set(answer)
    first, second = answer["findings"][:2]
    assert {
        "code",
        "title",
        "severity",
        "confidence",
        "subject",
        "because",
        "evidence",
        "fix",
        "follows_from",
    } <= set(first)
    assert first["how_sure"] == "possible"
    assert (second["code"], second["follows_from"]) == ("IB_FLUSH_FOLLOWON", "IB_RETRY_EXCEEDED")


def test_a_folder_and_standard_input_are_read(tmp_path: Path) -> None:
    text = (INPUTS / "gpu-03-xid119-gsp.txt").read_text()
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "dmesg").write_text(text)
    assert "GPU_GSP_TIMEOUT" in run(tmp_path)[1]
    assert "GPU_GSP_TIMEOUT" in run(stdin=text)[1]


def test_the_timeline_is_in_order_of_time() -> None:
    _, output = run("--timeline", INPUTS / "gpu-05-one-device-many-xids.txt")
    story = [line for line in output.splitlines() if line.startswith("Mon Jan 1")]
    assert len(story) == 6


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_code_is_explained(lang: str) -> None:
    texts = Texts(lang)
    codes = {code for one in rules() for code in one.codes}
    for code in codes:
        text = explained(code, texts)
        assert texts.finding(code).title in text
        assert "read in: measurements" not in text


def test_every_code_of_the_doctor_has_a_rule() -> None:
    from assay.catalog.tables import shipped_text

    listed = {
        line[1:-1] for line in shipped_text("findings_doctor.toml").splitlines() if line.startswith("[")
    }
    ruled = {code for one in rules() for code in one.codes}
    assert listed - ruled == set(UNEXPLAINED)
    assert ruled <= set(findings())


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_reason_has_its_words(lang: str) -> None:
    import re

    source = "".join(
        p.read_text() for p in (Path(__file__).parents[2] / "src" / "assay" / "doctor").rglob("*.py")
    )
    codes = set(re.findall(r'"(doctor\.[a-z_]+)"', source))
    assert codes
    assert [code for code in codes if not Texts(lang).has(code)] == []


def test_the_page_lists_every_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    codes = [*UNEXPLAINED, *(code for one in rules() for code in one.codes)]
    assert [code for code in codes if f"`{code}`" not in page] == []


def test_the_page_lists_every_kind_of_file_with_an_example() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ") and line.endswith("` |")]
    listed = {kind.strip() for row in rows for kind in row[0].removeprefix("|").split(",")}
    assert {kind for one in rules() for kind in one.reads} - listed == set()
