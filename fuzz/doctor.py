"""Coverage-guided fuzzing of everything that reads what people give to the doctor, with atheris.

`make fuzz` runs it for a while. The corpus begins with the texts of the tests. Any exception but the
project's own, more than two seconds or two gigabytes for one input is a finding; atheris writes the input
to a file.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["assay.formats", "assay.doctor", "assay.store"]):
    from assay.catalog.messages import Texts
    from assay.doctor.diagnose import diagnose
    from assay.doctor.timeline import timeline
    from assay.errors import AssayError
    from assay.report.diagnosis import answer, plain_text

TEXTS = Texts("en")
TESTS = Path(__file__).parents[1] / "tests" / "doctor"


def one_input(data: bytes) -> None:
    """The first byte says how the rest is given: as lines, as bytes of a pickle, or as lines of two files."""
    if not data:
        return
    kind, rest = data[0] % 3, data[1:]
    text = rest.decode("utf-8", "replace").splitlines(keepends=True)
    half = len(text) // 2
    files: list[tuple[str, list[str] | bytes]] = [("a", text)]
    if kind == 1:
        files = [("a", b"\x80\x04" + rest)]
    elif kind == 2:
        files = [("a", text[:half]), ("b", text[half:])]
    try:
        diagnosis = diagnose(files)
    except AssayError:
        return
    answer(diagnosis, TEXTS, assay_version="0")
    plain_text(diagnosis, TEXTS)
    timeline(diagnosis.facts)


def seeds(folder: Path) -> None:
    """Every text of the tests, one file each."""
    number = 0
    for page in (TESTS / "specs").glob("*.md"):
        for block in page.read_text(encoding="utf-8").split("```text\n")[1:]:
            (folder / f"{number:05}").write_bytes(b"\x00" + block.split("```\n")[0].encode())
            number += 1
    for file in (TESTS / "data").rglob("*.*"):
        (folder / f"{number:05}").write_bytes(b"\x00" + file.read_bytes()[:20_000])
        number += 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as corpus:
        seeds(Path(corpus))
        limits = ["-timeout=2", "-rss_limit_mb=2048", "-max_len=20000"]
        atheris.Setup([sys.argv[0], *limits, *sys.argv[1:], corpus], one_input)
        atheris.Fuzz()
