from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fake_sysfs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.codec.lines import LineDecoder
from assay.probe import Fact, Roots, facts_to_json, inventory
from assay.units import BASE_UNITS

SOURCE = Path(__file__).resolve().parents[2] / "src"
# pyenv's shim of that name is there even where the version is not.
PYTHON_3_10 = next(
    map(str, (Path.home() / ".pyenv/versions").glob("3.10.*/bin/python3.10")), shutil.which("python3.10")
)

NO_LIBRARY = "libnvidia-ml-of-nobody.so"


def distinct(facts: tuple[Fact, ...]) -> bool:
    names = [(fact.subject, fact.key) for fact in facts]
    return len(names) == len(set(names))


def test_this_machine_is_read() -> None:
    facts = inventory()
    present = {fact.key for fact in facts if fact.value is not None}
    assert {
        "host.name",
        "host.kernel",
        "cpu.threads",
        "memory.total",
        "limit.nofile",
        "software.python.version",
    } <= present
    assert distinct(facts)


def test_each_subject_has_each_key_once(top: Path, nvml_library: str, gpus_say: Callable[..., None]) -> None:
    gpus_say("-1 count 4", "1 gone 1", "2 lost 1")
    fake_sysfs.amd_card(top, 1, "0000:2a:00.0")
    facts = inventory(host="h", roots=Roots.under(top), environ={}, packages=[], nvml_library=nvml_library)
    assert distinct(facts)
    assert {str(fact.subject) for fact in facts} == {
        "node:h",
        *(f"gpu:h/{i}" for i in range(5)),
        *(f"port:h/mlx5_{i}[1]" for i in range(2)),
        "port:h/eth0",
    }


def test_an_empty_machine_gives_a_reason_for_everything(empty: Roots) -> None:
    facts = inventory(host="h", roots=empty, environ={}, packages=[], nvml_library=NO_LIBRARY)
    assert {fact.key for fact in facts if fact.value is not None} == {
        "host.name",
        "software.python.version",
        "cpu.affinity",
        "cpu.effective_cores",
        "iommu.groups",
        "iommu.kernel_args",
        "clock.kernel_synchronized",
        "clock.kernel_max_error",
    }
    assert all(fact.reason for fact in facts if fact.value is None)


def test_an_inventory_survives_lines_of_json(roots: Roots) -> None:
    facts = inventory(host="h", roots=roots, environ={}, packages=[], nvml_library=NO_LIBRARY)
    lines = [json.dumps(record, allow_nan=False) for record in facts_to_json(facts)]
    decoder = LineDecoder()
    assert tuple(decoder.decode(line, file="rank-0000.jsonl", number=1) for line in lines) == facts
    assert {fact.unit for fact in facts} <= set(BASE_UNITS)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_content_of_any_file_raises(top: Path, data: st.DataObject) -> None:
    files = sorted(path for path in top.rglob("*") if path.is_file() and not path.is_symlink())
    path = data.draw(st.sampled_from(files))
    numbers = st.sampled_from(
        ["-1", "0", "nan", "inf", "1e308", "9" * 30, "0x", "٣", "max", ":", "a:b:c", "cpu " + "9 " * 9]
    )
    content = data.draw(
        st.binary(max_size=200) | numbers.map(str.encode) | st.text(max_size=200).map(str.encode)
    )
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        facts = inventory(host="h", roots=Roots.under(top), environ={}, packages=[], nvml_library=NO_LIBRARY)
    finally:
        path.write_bytes(before)
    json.dumps(facts_to_json(facts), allow_nan=False)


def run_alone(python: Path | str, script: str) -> str:
    """The output of `script` in a Python that sees the standard library and our source, nothing else."""
    lines = f"import sys\nsys.path.insert(0, {str(SOURCE)!r})\n{script}"
    command = [str(python), "-I", "-S", "-W", "error", "-c", lines]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_the_probe_imports_nothing_but_the_standard_library() -> None:
    script = "import assay.probe\nassay.probe.inventory()\nprint(*sys.modules)"
    loaded = run_alone(sys.executable, script).split()
    tops = {name.partition(".")[0] for name in loaded}
    assert tops - set(sys.stdlib_module_names) <= {"assay", "__main__"}
    rooms = {name for name in loaded if name.startswith("assay.") and not name.startswith("assay.probe")}
    assert rooms == {
        "assay.domain",
        "assay.domain.fact",
        "assay.domain.subject",
        "assay.errors",
        "assay.units",
    }


def test_importing_the_probe_leaves_the_heavy_part_of_the_library_alone() -> None:
    loaded = run_alone(sys.executable, "import assay.probe\nprint(*sys.modules)").split()
    assert not {"importlib.metadata", "asyncio", "email", "http", "sqlite3", "logging"} & set(loaded)


@pytest.mark.skipif(PYTHON_3_10 is None, reason="optional: needs a Python 3.10 beside this one")
def test_the_probe_runs_in_python_3_10() -> None:
    assert run_alone(PYTHON_3_10, "import assay.probe\nprint(len(assay.probe.inventory()) > 50)") == "True\n"
