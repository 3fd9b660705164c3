"""The seal of a run: SHA-256 of each of its files, and of them all, written when the run ends."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from assay.codec.lines import SCHEMA_VERSION
from assay.codec.plain import read_object, text_at
from assay.errors import InputError, RunError
from assay.store.run import MANIFEST

HASHES = "hashes.json"
_SEALED = (MANIFEST, "*.jsonl", "samples/*.f64", "torn/*")


def seal(path: str | os.PathLike[str]) -> str:
    """Write `hashes.json`, and return the run's hash: SHA-256 over the lines 'hash  name' of its files."""
    folder = Path(path)
    files = _hashes(folder)
    whole = _whole(files)
    content = {"schema_version": SCHEMA_VERSION, "files": files, "run": whole}
    beside = folder / f"{HASHES}.new"
    try:
        beside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, folder / HASHES)
    except OSError as fault:
        raise RunError(f"cannot write {folder / HASHES}: {fault.strerror}") from None
    return whole


def check_seal(path: str | os.PathLike[str]) -> str:
    """The run's hash, if every file still is as it was sealed; `RunError` that names what is not."""
    folder = Path(path)
    file = folder / HASHES
    try:
        data = read_object(file.read_text(encoding="utf-8"))
        stated = data.get("files")
        whole = text_at(data, "run")
    except FileNotFoundError:
        raise RunError(
            f"{folder} is not sealed: it has no {HASHES}, so the run did not end",
            fix=f"finish it with: assay qualify --resume {folder}",
        ) from None
    except (OSError, UnicodeDecodeError, InputError) as fault:
        raise RunError(f"cannot read the hashes: {fault}", where=str(file)) from None
    if not isinstance(stated, dict):
        raise RunError("'files' is missing", where=str(file))
    found = _hashes(folder)
    unlike = [name for name in sorted(stated.keys() | found.keys()) if stated.get(name) != found.get(name)]
    if unlike:
        told = ", ".join(f"{name} {_change(name in stated, name in found)}" for name in unlike)
        raise RunError(f"the run is not as it was sealed: {told}", where=str(file))
    if _whole(found) != whole:
        raise RunError("the hash of the run does not follow from those of its files", where=str(file))
    return whole


def _hashes(folder: Path) -> dict[str, str]:
    """SHA-256 of each file that a seal covers, by name, sorted."""
    names = sorted({f.relative_to(folder).as_posix() for form in _SEALED for f in folder.glob(form)})
    hashes: dict[str, str] = {}
    for name in names:
        try:
            with open(folder / name, "rb") as file:
                hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as fault:
            raise RunError(f"cannot read: {fault.strerror}", where=str(folder / name)) from None
    return hashes


def _whole(files: dict[str, str]) -> str:
    return hashlib.sha256(
        "".join(f"{digest}  {name}\n" for name, digest in files.items()).encode()
    ).hexdigest()


def _change(was: bool, is_there: bool) -> str:
    if was and is_there:
        return "was changed"
    return "is gone" if was else "was added"
