"""Bundles are read as streams, and archives that would do harm are refused."""

from __future__ import annotations

import gzip
import io
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from assay.errors import InputError
from assay.store import bundle
from assay.store.bundle import read_artefacts

TEXT = "node-a:1:1 [0] NCCL INFO Using network IB\nsecond line\n"


def read(*paths: str | Path, stdin: bytes = b"") -> dict[str, str | bytes]:
    found: dict[str, str | bytes] = {}
    for name, content in read_artefacts([str(p) for p in paths], io.BytesIO(stdin)):
        found[name] = content if isinstance(content, bytes) else "".join(content)
    return found


def tarred(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def test_a_folder_is_read_in_order_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "log.txt").write_text(TEXT)
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "c.txt").symlink_to("/etc/hostname")
    assert list(read(tmp_path)) == ["a.txt", "b/log.txt"]


def test_standard_input_and_single_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(TEXT)
    assert read(tmp_path / "one", "-", stdin=b"from a pipe\n") == {
        str(tmp_path / "one"): TEXT,
        "standard input": "from a pipe\n",
    }


def test_archives_and_compressed_files_give_their_members(tmp_path: Path) -> None:
    tarred(tmp_path / "x.tar.gz", (member("node-a/log"), TEXT.encode()))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("node-b/log", TEXT)
    with gzip.open(tmp_path / "trace.gz", "wt") as file:
        file.write(TEXT)
    assert read(tmp_path / "x.tar.gz") == {"node-a/log": TEXT}
    assert read(tmp_path / "x.zip") == {"node-b/log": TEXT}
    assert list(read(tmp_path / "trace.gz").values()) == [TEXT]


def test_a_pickle_comes_as_bytes(tmp_path: Path) -> None:
    data = pickle.dumps({"entries": []})
    (tmp_path / "dump").write_bytes(data)
    assert read(tmp_path / "dump") == {str(tmp_path / "dump"): data}


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../out", "..\\out", "C:\\out"])
def test_a_member_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = tarred(tmp_path / "x.tar.gz", (member(name), b"x"))
    with pytest.raises(InputError, match="leave the archive"):
        read(path)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(InputError, match="leave the archive"):
        read(tmp_path / "x.zip")


@pytest.mark.parametrize(
    ("info", "what"),
    [
        (member("a", tarfile.SYMTYPE, "/etc/passwd"), "a link"),
        (member("a", tarfile.LNKTYPE, "b"), "a link"),
        (member("a", tarfile.CHRTYPE), "a device"),
        (member("a", tarfile.FIFOTYPE), "a device"),
    ],
    ids=["symlink", "hardlink", "device", "fifo"],
)
def test_links_and_devices_are_refused(tmp_path: Path, info: tarfile.TarInfo, what: str) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(info)
    with pytest.raises(InputError, match=what):
        read(path)


def zip_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("big", bytes(3_000_000))


def tar_bomb(path: Path) -> None:
    tarred(path, (member("big"), bytes(3_000_000)))


def gzip_bomb(path: Path) -> None:
    path.write_bytes(gzip.compress(bytes(3_000_000)))


@pytest.mark.parametrize("make", [zip_bomb, tar_bomb, gzip_bomb])
def test_a_bomb_is_refused(
    tmp_path: Path, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "GROWTH_FROM_BYTES", 1_000_000)
    make(tmp_path / "bomb")
    with pytest.raises(InputError, match="unpacks"):
        read(tmp_path / "bomb")


def test_a_damaged_archive_and_a_missing_file_say_so(tmp_path: Path) -> None:
    path = tarred(tmp_path / "x.tar.gz", (member("log"), TEXT.encode() * 1000))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"damaged|cut off"):
        read(path)
    with pytest.raises(InputError, match="no file and no folder"):
        read(tmp_path / "not-there")


def test_a_line_without_an_end_comes_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(b"x" * (2 * bundle.LONGEST_LINE + 5))
    for _, lines in read_artefacts([str(tmp_path / "long")], io.BytesIO()):
        assert not isinstance(lines, bytes)
        assert [len(line) for line in lines] == [bundle.LONGEST_LINE, bundle.LONGEST_LINE, 5]
