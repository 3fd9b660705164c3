"""The run folder: made once, appended to, opened whole or with its cut-off lines counted, then sealed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.codec.lines import SCHEMA_VERSION, Header, LineDecoder, LineRecord
from assay.codec.plain import number_at, read_object, require_known, text_at, texts_at, whole_at
from assay.domain.attestation import Attestation
from assay.domain.event import Event
from assay.domain.fact import Fact
from assay.domain.reading import Reading, SampleRef
from assay.errors import InputError, RunError

MANIFEST = "run.json"
HASHES = "hashes.json"
_RANK_FILE = re.compile(r"rank-(\d+)\.jsonl")
_SEALED = (MANIFEST, "*.jsonl", "samples/*.f64", "torn/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What was asked of a run: `run.json`. `created_s` is seconds since the epoch; `ranks` the world size.

    `soak_s` is how long a soak was to take, `annex` the digest of the annex that the run was made under.
    """

    run: str
    created_s: float
    assay_version: str
    command: tuple[str, ...]
    suite: str
    ranks: int
    hosts: tuple[str, ...]
    restarts: int
    seed: int
    backend: str
    only: tuple[str, ...] | None = None
    soak_s: float | None = None
    annex: str | None = None

    def __post_init__(self) -> None:
        if not self.run:
            raise InputError("a run needs an id")
        if self.ranks < 1 or self.restarts < 1:
            raise InputError(
                f"run {self.run}: {self.ranks} ranks and {self.restarts} restarts, but each must be 1 or more"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as read: its records in file order, and the places (file:line) of lines that were cut off.

    `others` are the folders of further machines that were read with the one at `path`.
    """

    manifest: Manifest
    path: Path
    readings: tuple[Reading, ...]
    facts: tuple[Fact, ...]
    events: tuple[Event, ...]
    attestations: tuple[Attestation, ...] = ()
    torn: tuple[str, ...] = ()
    others: tuple[Path, ...] = ()


_KEYS = ("schema_version", *(field.name for field in fields(Manifest)))
#: Came later: a run without them was not asked for any.
_OPTIONAL = ("soak_s", "annex")


def line_file(rank: int | None) -> str:
    """Name of the file that a rank appends to; that of the agent for None."""
    return "agent.jsonl" if rank is None else f"rank-{rank:04d}.jsonl"


def sample_file(rank: int) -> str:
    """Name of a rank's file of raw samples, as readings refer to it."""
    return f"samples/rank-{rank:04d}.f64"


def create_run(path: str | os.PathLike[str], manifest: Manifest) -> Path:
    """Make a run folder with its `run.json`; a folder that holds anything is refused and left alone."""
    folder = Path(path)
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise _taken(folder)
        (folder / "samples").mkdir(parents=True, exist_ok=True)
        # "x" lets only one of two starts at the same moment have the folder.
        with open(folder / MANIFEST, "x", encoding="utf-8") as file:
            file.write(json.dumps(plain_manifest(manifest), indent=1, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise _taken(folder) from None
    except OSError as fault:
        raise RunError(
            f"cannot make {folder}: {fault.strerror}", fix="give another folder with --out"
        ) from None
    return folder


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """The `run.json` of a run folder."""
    file = Path(path) / MANIFEST
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(
            f"{path} is not a run folder: it has no {MANIFEST}",
            fix="give the folder that assay qualify or assay measure wrote",
        ) from None
    except (OSError, UnicodeDecodeError) as fault:
        raise RunError(f"cannot read {file}: {fault}", where=str(file)) from None
    try:
        return manifest_of(read_object(text))
    except InputError as fault:
        raise RunError(
            fault.what, where=f"{file}:1", fix=fault.fix or "restore the file, or measure again"
        ) from None


def open_run(path: str | os.PathLike[str], *, partial: bool = False) -> Run:
    """Read a run. A cut-off last line is an error, or with `partial` is left out and told in `torn`.

    A bad line anywhere else is always an error, as is a file of another run or of a rank that this run
    does not have.
    """
    return open_runs([path], partial=partial)


def open_runs(paths: Sequence[str | os.PathLike[str]], *, partial: bool = False) -> Run:
    """Read one run from the folders of several machines; the run's `path` is the first of them.

    A machine's file may also be there as a copy that its lead kept; the longer of the two is read. Folders
    of different runs are refused, and so are two machines' own files of one rank.
    """
    folders = [Path(path) for path in paths]
    manifest = _one_manifest(folders)
    readings: list[Reading] = []
    facts: list[Fact] = []
    events: list[Event] = []
    attestations: list[Attestation] = []
    torn: list[str] = []
    decoder = LineDecoder()
    for file in _merged_files(folders, manifest):
        for record in _records(file, decoder, torn):
            match record:
                case Reading():
                    readings.append(record)
                case Fact():
                    facts.append(record)
                case Event():
                    events.append(record)
                case Attestation():
                    attestations.append(record)
                case Header():
                    _require_own(record, file, manifest)
    if torn and not partial:
        more = f", as was that of {len(torn) - 1} more files" if len(torn) > 1 else ""
        raise RunError(
            f"the last line was cut off{more}",
            where=torn[0],
            fix=f"finish the run with: assay qualify --resume {folders[0]}\n"
            f"       or judge what is there with: assay judge {' '.join(map(str, folders))} --partial",
        )
    _require_ranks_once(events)
    return Run(
        manifest=manifest,
        path=folders[0],
        others=tuple(folders[1:]),
        readings=tuple(readings),
        facts=tuple(facts),
        events=tuple(events),
        attestations=tuple(attestations),
        torn=tuple(torn),
    )


def _one_manifest(folders: Sequence[Path]) -> Manifest:
    """The manifest that all folders share."""
    seen: dict[Path, Path] = {}
    manifests = [read_manifest(folder) for folder in folders]
    for folder, manifest in zip(folders, manifests, strict=True):
        if manifest.run != manifests[0].run:
            raise RunError(
                f"{folders[0]} holds run {manifests[0].run}, but {folder} holds run {manifest.run}",
                fix="give the folders of one run, or judge each by itself",
            )
        if before := seen.get(folder.resolve()):
            raise RunError(f"{folder} is given twice, first as {before}", fix="give each folder once")
        seen[folder.resolve()] = folder
    return manifests[0]


def _merged_files(folders: Sequence[Path], manifest: Manifest) -> list[Path]:
    """Every agent's file, and of each rank's file the longest copy."""
    agents: list[Path] = []
    ranked: dict[str, Path] = {}
    for folder in folders:
        for file in _line_files(folder, manifest):
            other = ranked.get(file.name)
            if file.name == line_file(None):
                agents.append(file)
            elif other is None:
                ranked[file.name] = file
            else:
                ranked[file.name] = _longer(other, file)
    return [*agents, *(ranked[name] for name in sorted(ranked))]


def _longer(one: Path, other: Path) -> Path:
    """The longer of two copies of one file; `RunError` where neither continues the other."""
    shorter, longer = sorted((one, other), key=lambda file: file.stat().st_size)
    with open(shorter, "rb") as short, open(longer, "rb") as long:
        while chunk := short.read(1 << 20):
            if long.read(len(chunk)) != chunk:
                raise RunError(
                    f"{one} and {other} tell different things of one rank",
                    fix="give each machine's folder once, as it was written",
                )
    return longer


def _require_ranks_once(events: Iterable[Event]) -> None:
    """Each rank's agent wrote on one disk: a second folder of its own is a copy."""
    joined: dict[str, str] = {}
    for event in events:
        if event.kind != "agent_joined":
            continue
        folder, rank = str(Path(event.source).parent), event.subject.name
        if joined.setdefault(rank, folder) != folder:
            raise RunError(
                f"{joined[rank]} and {folder} are both of the machine of rank {rank} ({event.text})",
                fix="give each machine's folder once",
            )


def samples(run: Run, ref: SampleRef) -> NDArray[np.float64]:
    """The raw samples behind a reading, in `ref.unit`; shape (count,)."""
    places = [folder / ref.file for folder in (run.path, *run.others)]
    file = max(places, key=lambda place: place.stat().st_size if place.exists() else -1)
    if ".." in Path(ref.file).parts or Path(ref.file).is_absolute():
        raise RunError(f"samples in {ref.file!r} lie outside the run folder", where=str(run.path))
    try:
        values = np.fromfile(file, dtype="<f8", count=ref.count, offset=ref.offset * 8)
    except OSError as fault:
        raise RunError(f"cannot read samples: {fault.strerror}", where=str(file)) from None
    if len(values) != ref.count:
        raise RunError(
            f"{ref.count} samples from {ref.offset} are asked for, but {len(values)} are there",
            where=str(file),
            fix="copy the whole run folder again, or judge without its samples",
        )
    return values.astype(np.float64, copy=False)


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


def _taken(folder: Path) -> RunError:
    if (folder / MANIFEST).exists():
        return RunError(
            f"{folder} holds another run",
            fix=f"go on with it: assay qualify --resume {folder}\n       or give another folder with --out",
        )
    return RunError(f"{folder} is not empty and not a run", fix="give another folder with --out")


def plain_manifest(manifest: Manifest) -> dict[str, object]:
    """A manifest as it is written."""
    data = {key: getattr(manifest, key) for key in _KEYS if key != "schema_version"}
    return {"schema_version": SCHEMA_VERSION} | {
        key: list(value) if isinstance(value, tuple) else value for key, value in data.items()
    }


def manifest_of(data: dict[str, object]) -> Manifest:
    """A manifest as it was written; raises `InputError` when it is none."""
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"schema_version is {version!r}, but this version of assay reads {SCHEMA_VERSION}",
            fix="use the version of assay that made the run",
        )
    require_known(data, _KEYS, of=MANIFEST)
    missing = [key for key in _KEYS if key not in data and key not in _OPTIONAL]
    if missing:
        raise InputError(f"{', '.join(map(repr, missing))} missing in {MANIFEST}")
    return Manifest(
        run=text_at(data, "run"),
        created_s=number_at(data, "created_s") or 0.0,
        assay_version=text_at(data, "assay_version"),
        command=texts_at(data, "command") or (),
        suite=text_at(data, "suite"),
        only=texts_at(data, "only"),
        ranks=whole_at(data, "ranks") or 0,
        hosts=texts_at(data, "hosts") or (),
        restarts=whole_at(data, "restarts") or 0,
        seed=whole_at(data, "seed") or 0,
        backend=text_at(data, "backend"),
        soak_s=number_at(data, "soak_s"),
        annex=text_at(data, "annex") if data.get("annex") else None,
    )


def _line_files(folder: Path, manifest: Manifest) -> list[Path]:
    """The agent's file and those of the ranks, in order."""
    ranked: list[tuple[int, Path]] = []
    for file in folder.glob("*.jsonl"):
        match = _RANK_FILE.fullmatch(file.name)
        if file.name == "agent.jsonl":
            ranked.append((-1, file))
        elif match and int(match[1]) < manifest.ranks:
            ranked.append((int(match[1]), file))
        else:
            raise RunError(
                f"{file.name} is not a file of run {manifest.run}, which has ranks 0 … {manifest.ranks - 1}",
                where=str(file),
                fix="move it out of the folder",
            )
    return [file for _, file in sorted(ranked)]


def _records(file: Path, decoder: LineDecoder, torn: list[str]) -> Iterator[LineRecord]:
    """Records of one file; a last line without a newline goes to `torn` instead."""
    name = str(file)
    try:
        with open(file, "rb") as lines:
            for number, raw in enumerate(lines, start=1):
                if not raw.endswith(b"\n"):
                    torn.append(f"{name}:{number}")
                    return
                yield decoder.decode(raw.decode(), file=name, number=number)
    except UnicodeDecodeError:
        raise RunError("not UTF-8 text", where=f"{name}:{number}", fix=_BAD_LINE) from None
    except InputError as fault:
        raise RunError(fault.what, where=fault.where, fix=fault.fix or _BAD_LINE) from None
    except OSError as fault:
        raise RunError(f"cannot read: {fault.strerror}", where=name) from None


_BAD_LINE = "the file was changed after it was written: copy the run again, or measure again"


def _require_own(header: Header, file: Path, manifest: Manifest) -> None:
    if header.run != manifest.run:
        raise RunError(
            f"{file.name} belongs to run {header.run}, but this is run {manifest.run}",
            where=f"{file}:1",
            fix="put back the file of this run",
        )
    if line_file(header.rank) != file.name:
        raise RunError(
            f"{file.name} was written as {line_file(header.rank)}",
            where=f"{file}:1",
            fix="put each file back under its own name",
        )


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
