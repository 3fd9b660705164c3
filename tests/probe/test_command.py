from __future__ import annotations

from pathlib import Path

import fake_sysfs

from assay.probe.command import run


def script(path: Path, body: str) -> str:
    fake_sysfs.write(path, f"#!/bin/sh\n{body}")
    path.chmod(0o755)
    return str(path)


def test_what_a_program_prints_is_its_answer(tmp_path: Path) -> None:
    answer = run([script(tmp_path / "say", 'echo "  hello $1  "'), "you"])
    assert (answer.text, answer.reason) == ("hello you", None)


def test_a_program_that_fails_is_a_reason_with_its_words(tmp_path: Path) -> None:
    answer = run([script(tmp_path / "fail", "echo no such luck >&2; exit 3")])
    assert answer.text is None
    assert answer.reason is not None
    assert answer.reason.endswith("ended with 3: no such luck")


def test_a_program_that_never_answers_is_ended() -> None:
    answer = run(["tail", "-f", "/dev/null"])
    assert (answer.text, answer.reason) == (None, "tail gave no answer within 0.7 s")


def test_a_program_that_cannot_be_run_is_a_reason(tmp_path: Path) -> None:
    fake_sysfs.write(tmp_path / "text", "no program")
    answer = run([str(tmp_path / "text")])
    assert answer.text is None
    assert answer.reason is not None
    assert answer.reason.startswith("cannot run")
