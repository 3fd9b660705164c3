"""What is gathered from nodes: bounded, read-only, and masked where asked."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from assay.api.collecting import gathered, hosts_of, hosts_of_job, masked, script, write_bundle
from assay.api.doctoring import doctor
from assay.errors import InputError


def test_the_script_is_valid_shell_and_writes_nothing() -> None:
    text = script(ranks=True)
    subprocess.run(["sh", "-n"], input=text.encode(), check=True)
    for word in (" rm ", " mv ", " kill ", "modprobe ", "setpci ", "> /", "tee "):
        assert word not in text


def test_this_host_answers_with_a_transcript_that_the_doctor_reads(tmp_path: Path) -> None:
    ((host, lines),) = gathered(["localhost"], ranks=False)
    assert host == "localhost/live"
    assert "$ uname -r\n" in lines
    target = tmp_path / "bundle.tar.gz"
    commands = write_bundle(target, mask=True)
    assert "cat /proc/meminfo" in commands
    with tarfile.open(target) as archive:
        assert archive.getnames() == ["bundle/node.txt", "bundle/what-was-run.sh"]
    assert doctor([str(target)]).readings[0].lines > 10
    with pytest.raises(InputError, match="there already"):
        write_bundle(target, mask=False)


def test_masking_keeps_what_the_doctor_needs() -> None:
    text = "a 10.1.2.3 b 10.1.2.4 c 10.9.9.3 lo 127.0.0.1 mac 0a:1b:2c:3d:4e:5f HF_TOKEN=abc\n"
    hidden = masked(text)
    first, second, third = (hidden.split()[i] for i in (1, 3, 5))
    assert "10.1.2" not in hidden
    assert first.rsplit(".", 1)[0] == second.rsplit(".", 1)[0] != third.rsplit(".", 1)[0]
    assert "127.0.0.1" in hidden
    assert "abc" not in hidden
    assert "0a:1b" not in hidden


def test_hostfiles_are_read_and_refused(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# nodes\nnode-1 slots=8\nnode-2:8\n\n")
    assert hosts_of(file) == ("node-1", "node-2")
    file.write_text("-oProxyCommand=evil\n")
    with pytest.raises(InputError, match="no host name"):
        hosts_of(file)
    file.write_text("\n")
    with pytest.raises(InputError, match="names no host"):
        hosts_of(file)
    with pytest.raises(InputError, match="no Slurm job id"):
        hosts_of_job("1; rm")
