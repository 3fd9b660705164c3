"""Any file that people give to the doctor: each line is offered to all readers, and counted if none takes it.

A pasted file may hold several formats one after the other, with the commands that made them. Text is read
as a stream; JSON, XML and pickles are read whole.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice

from assay.errors import InputError
from assay.formats import (
    bandwidth_text,
    clock_text,
    dcgm,
    fio,
    flight_recorder,
    kernel_log,
    kineto,
    nccl_log,
    nccl_ras,
    nccl_topo,
    node_text,
    nvidia_smi,
    torch_text,
    training_log,
    xml_tree,
)
from assay.formats.blocks import Blocks
from assay.formats.prefix import common_prefix
from assay.formats.sentences import LONGEST, Said, Vocabulary

#: A document that has to be read whole may not be larger.
LARGEST_DOCUMENT_BYTES = 2 * 2**30
#: A line without its end that is as long as this is a piece of a longer one.
PIECE = 2**20
_XML = re.compile(r"<(?:\?xml|!DOCTYPE|!--|system|graphs|nvidia_smi_log)\b|<!--")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_KERNEL_LINE = re.compile(kernel_log.LINE)
_HOST = re.compile(r"^[A-Z][a-z]{2} [ \d]\d [\d:]{8} (?P<host>[A-Za-z][\w.-]*) (?:kernel|systemd|\w+)\S*: ")
_RANK = re.compile(r"\[rank ?(?P<rank>\d{1,7})\]|\[[Rr]ank (?P<rank2>\d{1,7})\]|Rank (?P<rank3>\d{1,7})\]")
_STAMP = re.compile(
    r"^\[?(?P<time>\d{4}-\d\d-\d\d[ T][\d:.,]+|\s*\d+\.\d{6}|[A-Z][a-z]{2} [ \d]\d [\d:]{8}"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]+ \d{4})"
)
_WORDS = Vocabulary(
    chain(
        nccl_log.SENTENCES,
        torch_text.SENTENCES,
        kernel_log.SENTENCES,
        node_text.SENTENCES,
        clock_text.SENTENCES,
    )
)
_BARE_ANSWERS = {
    "ulimit -l": "limit.memlock",
    "ulimit -n": "limit.nofile",
    "sys/kernel/numa_balancing": "cfg.numa_balancing",
}
#: First part of a fact's name -> the kind of text that it is counted for.
_KIND_OF = {
    "nccl": "nccl log",
    "rccl": "nccl log",
    "ib": "nccl log",
    "net": "nccl log",
    "ofi": "nccl log",
    "sharp": "nccl log",
    "ucx": "nccl log",
    "torch": "torch log",
    "gloo": "torch log",
    "c10d": "torch log",
    "cuda": "torch log",
    "elastic": "torch log",
    "fr": "torch log",
    "ckpt": "torch log",
    "train": "torch log",
    "job": "torch log",
    "gpu": "kernel log",
    "amd": "kernel log",
    "iommu": "kernel log",
    "pcie": "kernel log",
    "nic": "kernel log",
    "kernel": "kernel log",
    "clock": "clock",
}
_BLANK_OR_RULE = re.compile(r"^[\s\-=+|*#~_.]*$")


@dataclass(slots=True, kw_only=True)
class Command:
    """A command line that stands in the file, and how many lines of answer follow it."""

    file: str
    line: int
    text: str
    answer: list[str] = field(default_factory=list)
    answered: int = 0


@dataclass(slots=True, kw_only=True)
class Reading:
    """What was done with one file: kinds with the lines of each, and the lines that no reader took.

    `calls` counts the lines of NCCL's log that are one collective each; counted among `kinds` at the end.
    """

    file: str
    lines: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    unread: int = 0
    first_unread: int | None = None
    calls: int = 0
    problem: str | None = None

    def took(self, kind: str) -> None:
        """Count one line for a kind."""
        self.kinds[kind] = self.kinds.get(kind, 0) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A file that was read already."""

    reading: Reading
    records: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FioFile:
    """One report of fio, with the file that it stands in."""

    file: str
    report: fio.FioReport


def read(name: str, lines: Iterable[str] | bytes, reading: Reading) -> Iterator[object]:
    """Yield records, and fill in `reading`; raises `InputError` only for what cannot be read at all."""
    if isinstance(lines, bytes):
        yield from _pickle(name, lines, reading)
        return
    stream = iter(lines)
    head = list(islice(stream, 50))
    first = next((line.lstrip("\ufeff \t") for line in head if line.strip()), "")
    whole = chain(head, stream)
    if first.startswith(("{", "[{", "[\n", "[\r")) or first.strip() == "[":
        yield from _json(name, whole, reading)
    elif _XML.match(first):
        yield from _xml(name, whole, reading)
    else:
        yield from _text(name, whole, reading, common_prefix(head))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Decoding makes millions of objects without a cycle: searching them for cycles costs half the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _pickle(name: str, data: bytes, reading: Reading) -> Iterator[object]:
    with _without_collector():
        yield from _dumps(name, data, reading)


def _dumps(name: str, data: bytes, reading: Reading) -> list[object]:
    document = flight_recorder.load_pickle(data, name)
    reading.lines = 1
    if not flight_recorder.is_dump(document):
        raise InputError(
            "is a pickle, but no flight-recorder dump",
            where=name,
            fix="give the file that PyTorch wrote to TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        )
    reading.took("flight recorder")
    return list(flight_recorder.read(document, name))


def _joined(name: str, lines: Iterable[str], reading: Reading) -> str:
    parts, size = [], 0
    for line in lines:
        reading.lines += 1
        size += len(line)
        if size > LARGEST_DOCUMENT_BYTES:
            raise InputError(
                f"is larger than {LARGEST_DOCUMENT_BYTES} bytes", where=name, fix="give a shorter trace"
            )
        parts.append(line if line.endswith("\n") or len(line) >= PIECE else line + "\n")
    return "".join(parts)


def _json(name: str, lines: Iterable[str], reading: Reading) -> Iterator[object]:
    text = _joined(name, lines, reading).lstrip("\ufeff")
    with _without_collector():
        if '"traceEvents"' in text and (trace := kineto.read_text(text, name)) is not None:
            reading.kinds["torch profiler"] = reading.lines
            yield trace
            return
        try:
            document = json.loads(nccl_ras.mended(text) if '"missing_ranks"' in text else text)
        except (ValueError, RecursionError) as failure:
            error = failure
        else:
            yield from list(_document(document, text, name, reading))
            return
    yield from _json_lines(name, text, reading, error)


def _json_lines(name: str, text: str, reading: Reading, error: Exception) -> Iterator[object]:
    """A file that is no one JSON document: read its lines as text, which also covers JSON log lines."""
    reading.lines = 0
    if text.count("\n") < 2:
        reading.problem = f"the JSON breaks off ({str(error)[:80]})"
    yield from _text(name, text.splitlines(), reading)


def _document(document: object, text: str, name: str, reading: Reading) -> Iterator[object]:
    records: Iterator[object]
    if flight_recorder.is_dump(document):
        kind, records = "flight recorder", flight_recorder.read(document, name)
    elif kineto.is_trace(document) and isinstance(document, dict):
        kind, records = "torch profiler", iter([kineto.read(document, name)])
    elif dcgm.is_diag(document) and isinstance(document, dict):
        kind, records = "dcgmi diag", dcgm.read(document, name)
    elif nccl_ras.is_ras(document) and isinstance(document, dict):
        kind, records = "nccl ras", nccl_ras.read(document, name)
    elif isinstance(document, dict) and "nccl_version" in document and "results" in document:
        kind, records = "nccl-tests", iter([bandwidth_text.read_json(document, name)])
    elif isinstance(document, dict) and "fio version" in document:
        kind, records = "fio", _fio(text, name, reading)
    else:
        reading.unread, reading.first_unread = reading.lines, 1
        return
    reading.kinds[kind] = reading.lines
    yield from records


def _fio(text: str, name: str, reading: Reading) -> Iterator[FioFile]:
    try:
        yield from (FioFile(file=name, report=report) for report in fio.parse(text.splitlines(), name))
    except InputError as error:
        reading.problem = error.what


def _xml(name: str, lines: Iterable[str], reading: Reading) -> Iterator[object]:
    text = _joined(name, lines, reading)
    try:
        tree = xml_tree.parse_xml(text, name)
    except InputError as error:
        reading.problem = error.what
        reading.unread, reading.first_unread = reading.lines, 1
        return
    root = tree.root
    if root.tag == "nvidia_smi_log":
        reading.kinds["nvidia-smi -q -x"] = reading.lines
        driver = root.findtext("driver_version")
        if driver:
            yield Said(
                fact="sw.driver",
                file=name,
                line=1,
                text=f"driver_version {driver}",
                fields={"version": driver},
            )
        yield from nvidia_smi.read_xml(root, name)
    elif root.tag in ("system", "graphs"):
        reading.kinds["nccl " + ("topology" if root.tag == "system" else "graph")] = reading.lines
        yield from nccl_topo.read_records(tree)
    else:
        reading.unread, reading.first_unread = reading.lines, 1


def _text(
    name: str, lines: Iterable[str], reading: Reading, prefix: re.Pattern[str] | None = None
) -> Iterator[object]:
    """Read lines of text; `prefix` stands before each of them and belongs to none of the tools."""
    readers, calls, command = Blocks(name), nccl_log.LastCalls(name), None
    for number, raw in enumerate(lines, 1):
        reading.lines = number
        line = _cleaned(raw.rstrip("\r\n"))
        if " NCCL " in line:
            if " opCount " in line and calls.see(line, number):
                reading.calls += 1
                continue
            records = nccl_log.read_line(line, number, name)
            if records is not None:
                reading.took("nccl log")
                for record in records:
                    if isinstance(record, Said) and record.fact == "nccl.env":
                        readers.tests.setting(record["name"], record["value"])
                    yield record
                continue
        whole = line
        if prefix is not None and (found := prefix.match(line)):
            line = line[found.end() :]
        if line.startswith("#") and (kind := readers.feed(line, number)):
            reading.took(kind)
            continue
        if (found := node_text.PROMPT.match(line)) and not line.startswith("#  "):
            command = Command(file=name, line=number, text=found["command"][:LONGEST])
            readers.command(command.text)
            reading.took("shell")
            yield command
            yield from _said(line, number, name)
            continue
        yield from _plain(line, whole, number, name, reading, readers, command)
    if reading.calls:
        reading.kinds["nccl log"] = reading.kinds.get("nccl log", 0) + reading.calls
    yield from calls.records()
    readers.finish()
    for reader in readers.all:
        yield from reader.records


def _plain(
    line: str,
    whole: str,
    number: int,
    name: str,
    reading: Reading,
    readers: Blocks,
    command: Command | None,
) -> Iterator[object]:
    kind = readers.feed(line, number)
    if command is not None and command.answered < 200:
        command.answered += 1
        command.answer.append(line[:200])
    said = list(_said(line, number, name, whole))
    step = training_log.read_line(line, number, name)
    if (
        command is not None
        and command.answered == 1
        and (fact := _bare(command.text))
        and re.match(r"^(\d+|unlimited)\s*$", line)
    ):
        said.append(
            Said(fact=fact, file=name, line=number, text=line.strip(), fields={"value": line.strip()})
        )
    yield from said
    if step is not None:
        yield step
    if kind:
        reading.took(kind)
    elif said or step:
        reading.took("training log" if step else _kind_of(said[0].fact))
    elif _KERNEL_LINE.match(line):
        reading.took("kernel log")
    elif command is not None:
        reading.took("shell")
    elif not _BLANK_OR_RULE.match(line):
        reading.unread += 1
        reading.first_unread = reading.first_unread or number


def _kind_of(fact: str) -> str:
    return "shell" if fact in ("net.address", "net.mtu") else _KIND_OF.get(fact.split(".")[0], "shell")


def _bare(command: str) -> str | None:
    return next((fact for start, fact in _BARE_ANSWERS.items() if start in command), None)


def _said(line: str, number: int, name: str, whole: str | None = None) -> Iterator[Said]:
    """Facts of a line without its prefix; who said it and when may stand in the `whole` line."""
    shown = (whole or line).strip()[:LONGEST]
    facts = _WORDS.find(line[:LONGEST])
    if "NCCL_" in line and (found := node_text.VARIABLE.match(line[:LONGEST])):
        facts.append(("conf.env", found.groupdict()))
    if not facts:
        return
    rank, stamp, host = _RANK.search(shown), _STAMP.match(shown), _HOST.match(line)
    number_of_rank = next((int(g) for g in rank.groups() if g), None) if rank else None
    for fact, fields in facts:
        own = fields.get("rank")
        yield Said(
            fact=fact,
            file=name,
            line=number,
            text=shown,
            fields=fields,
            rank=int(own) if own and own.isdigit() and len(own) < 9 else number_of_rank,
            host=host["host"] if host else None,
            time=stamp["time"].strip() if stamp else None,
        )


def _cleaned(line: str) -> str:
    return _ANSI.sub("", line) if "\x1b" in line else line
