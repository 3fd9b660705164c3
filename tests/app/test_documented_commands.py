"""What README and docs show can be typed: commands and options exist, and the first five minutes run."""

from __future__ import annotations

import re
import shlex
import unicodedata
from pathlib import Path

import click
import pytest

from assay.app.cli import cli
from commands import assay

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands_of(page: Path) -> list[tuple[str, str]]:
    """Commands in the blocks and in the sentences of a page, each with its comment."""
    text = page.read_text(encoding="utf-8")
    shown = [line for block in FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    shown += [" ".join(quoted.split()) for quoted in re.findall(r"`(assay [^`]+)`", FENCE.sub("", text))]
    found = []
    for line in shown:
        command, _, comment = line.partition(" #")
        if command.startswith("assay "):
            found.append((re.split(r"[|;>&]", command)[0].strip(), comment.strip()))
    return found


def leaf(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name, and what is left of them."""
    command, context = cli, click.Context(cli, info_name="assay")
    while isinstance(command, click.Group) and words:
        below = command.get_command(context, words[0])
        if below is None and command.name == "predict":
            below = command.get_command(context, "step")  # the usual one, where none is named
            words = ["step", *words]
        assert below is not None, words
        command, words = below, words[1:]
    return command, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_that_is_shown_exists(page):
    for shown, _ in commands_of(page):
        command, words = leaf(shlex.split(shown)[1:])
        known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        named = {
            re.sub(r"[\]=].*", "", word.lstrip("[")) for word in words if word.lstrip("[").startswith("--")
        }
        assert named <= {*known, "--help"}, shown


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


def test_the_first_five_minutes_run_as_they_stand(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shown = commands_of(ROOT / "docs" / "five-minutes.md")
    lasting = re.compile(r"…|FILE|assay qualify|watch --(job|node)")
    tried = [(words, why) for words, why in shown if not lasting.search(words)]
    assert len(tried) > 12
    for words, comment in tried:
        ended = assay(*shlex.split(words)[1:], cwd=tmp_path)
        expected = re.search(r"ends with (\d)", comment)
        assert ended.code == int(expected[1] if expected else 0), (words, ended.out, ended.err)
        if "--rules" not in words:
            assert [line for line in ended.out.splitlines() if columns(line) > 80] == [], words
