"""assay-watch.yaml and contract files → records; unknown keys and units are errors with file and line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from assay.codec.document import Document, read_document
from assay.codec.schema import FileModel, placed, read_as
from assay.domain.contract import Terms, Tier
from assay.units import parse, unit_of_name


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job to follow: its logs as glob patterns, and a regular expression of its own where it needs one."""

    name: str
    logs: tuple[str, ...]
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPlan:
    """What to do on an incident of at least `severity`: a webhook, Alertmanager, a command, drain, cordon.

    `most_frac` of the nodes at most are taken out of use, and `calls` messages sent, within `per_s`. Without
    `live` all is a dry run.
    """

    kind: str
    target: str = ""
    severity: str = "high"
    codes: tuple[str, ...] = ()
    live: bool = False
    most_frac: float = 0.02
    calls: int = 1000
    per_s: float = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPlan:
    """What one watcher watches, and by which bounds. `addresses` gives the rank behind an address."""

    prometheus: str
    every_s: float = 15.0
    timeout_s: float = 10.0
    ledger: str = "assay-ledger.jsonl"
    token_file: str | None = None
    jobs: tuple[JobPlan, ...] = ()
    nodes: tuple[str, ...] = ()
    host_label: str = "instance"
    ranks: Mapping[str, str] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    cables: tuple[tuple[str, str], ...] = ()
    bounds: Mapping[str, float] = field(default_factory=dict)
    bounds_where: str | None = None
    actions: tuple[ActionPlan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan:
    """A job that the watch starts, and starts again without a node that failed.

    `command` is run per node, with {node}, {index}, {nnodes}, {head} and {port} filled in; `ask` makes the
    job save a checkpoint. Below `least_nodes`, or after `most_restarts`, it gives up.
    """

    name: str
    nodes: tuple[str, ...]
    command: tuple[str, ...]
    logs: tuple[str, ...]
    pattern: str | None = None
    prometheus: str | None = None
    every_s: float = 5.0
    ask: tuple[str, ...] = ()
    ask_s: float = 60.0
    grace_s: float = 10.0
    port: int = 29500
    least_nodes: int = 1
    most_restarts: int = 10
    codes: tuple[str, ...] = ()
    ledger: str = "assay-ledger.jsonl"
    addresses: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    bounds_where: str | None = None


class _JobText(FileModel):
    name: str = ""
    logs: list[str] = Field(min_length=1)
    pattern: str | None = None


class _ActionText(FileModel):
    kind: str
    target: str = ""
    severity: str = "high"
    codes: list[str] = Field(default_factory=list)
    live: bool = False
    most: str = "2 %"
    calls: int = Field(default=1000, ge=1)
    per: str = "1 d"


class _WatchText(FileModel):
    schema_: int = Field(alias="schema")
    prometheus: str = Field(min_length=1)
    every: str = "15 s"
    timeout: str = "10 s"
    ledger: str = "assay-ledger.jsonl"
    token_file: str | None = None
    host_label: str = "instance"
    jobs: list[_JobText] = Field(default_factory=list)
    nodes: list[str] = Field(default_factory=list)
    ranks: dict[str, str] = Field(default_factory=dict)
    addresses: dict[str, str] = Field(default_factory=dict)
    cables: list[list[str]] = Field(default_factory=list)
    bounds: dict[str, str | int | float] = Field(default_factory=dict)
    actions: list[_ActionText] = Field(default_factory=list)


class _RecoveryText(FileModel):
    schema_: int = Field(alias="schema")
    name: str = "job"
    nodes: list[str] = Field(min_length=1)
    command: list[str] = Field(min_length=1)
    logs: list[str] = Field(min_length=1)
    pattern: str | None = None
    prometheus: str | None = None
    every: str = "5 s"
    ask: list[str] = Field(default_factory=list)
    ask_wait: str = "60 s"
    grace: str = "10 s"
    port: int = 29500
    least_nodes: int = 1
    most_restarts: int = 10
    codes: list[str] = Field(default_factory=list)
    ledger: str = "assay-ledger.jsonl"
    addresses: dict[str, str] = Field(default_factory=dict)
    bounds: dict[str, str | int | float] = Field(default_factory=dict)


class _TierText(FileModel):
    below: str
    credit: str


class _ContractText(FileModel):
    schema_: int = Field(alias="schema")
    available: str
    basis: str = "node"
    tiers: list[_TierText] = Field(default_factory=list)
    fee: float | None = None
    currency: str = ""
    respond: str | None = None


def load_watch(source: Path | str, name: str | None = None) -> WatchPlan:
    """Read assay-watch.yaml. Raises `InputError` with file:line."""
    document = read_document(source, name)
    text = read_as(document, _WatchText, kind="watch")
    return WatchPlan(
        prometheus=text.prometheus.rstrip("/"),
        every_s=_amount(document, "every", text.every, "s"),
        timeout_s=_amount(document, "timeout", text.timeout, "s"),
        ledger=text.ledger,
        token_file=text.token_file,
        host_label=text.host_label,
        jobs=tuple(JobPlan(name=j.name, logs=tuple(j.logs), pattern=j.pattern) for j in text.jobs),
        nodes=tuple(text.nodes),
        ranks=text.ranks,
        addresses=text.addresses,
        cables=tuple((c[0], c[-1]) for c in text.cables),
        bounds=read_bounds(document, text.bounds),
        bounds_where=document.where("bounds"),
        actions=tuple(_action(document, at, a) for at, a in enumerate(text.actions)),
    )


def load_recovery(source: Path | str, name: str | None = None) -> RecoveryPlan:
    """Read the file of a supervised job. Raises `InputError` with file:line."""
    document = read_document(source, name)
    text = read_as(document, _RecoveryText, kind="recovery")
    return RecoveryPlan(
        name=text.name,
        nodes=tuple(text.nodes),
        command=tuple(text.command),
        logs=tuple(text.logs),
        pattern=text.pattern,
        prometheus=text.prometheus,
        every_s=_amount(document, "every", text.every, "s"),
        ask=tuple(text.ask),
        ask_s=_amount(document, "ask_wait", text.ask_wait, "s"),
        grace_s=_amount(document, "grace", text.grace, "s"),
        port=text.port,
        least_nodes=text.least_nodes,
        most_restarts=text.most_restarts,
        codes=tuple(text.codes),
        ledger=text.ledger,
        addresses=text.addresses,
        bounds=read_bounds(document, text.bounds),
        bounds_where=document.where("bounds"),
    )


def read_bounds(document: Document, given: Mapping[str, str | int | float]) -> dict[str, float]:
    """Bounds by name, in the base unit that the ending of the name tells; a plain number elsewhere."""
    return {
        name: parse(value, unit=unit_of_name(name) or "count", where=document.where("bounds", name)).value
        for name, value in given.items()
    }


def load_terms(source: Path | str, name: str | None = None) -> Terms:
    """Read a contract: `available`, `basis`, `tiers` of `below` and `credit`, `fee`. Raises `InputError`."""
    document = read_document(source, name)
    text = read_as(document, _ContractText, kind="contract")
    with placed(document.where("basis")):
        return Terms(
            available_frac=_amount(document, "available", text.available, "1"),
            basis=text.basis,
            tiers=tuple(
                Tier(
                    below_frac=parse(t.below, unit="1", where=document.where("tiers", at)).value,
                    credit_frac=parse(t.credit, unit="1", where=document.where("tiers", at)).value,
                )
                for at, t in enumerate(text.tiers)
            ),
            fee=text.fee,
            currency=text.currency,
            respond_s=None if text.respond is None else _amount(document, "respond", text.respond, "s"),
        )


def _action(document: Document, at: int, text: _ActionText) -> ActionPlan:
    where = document.where("actions", at)
    return ActionPlan(
        kind=text.kind,
        target=text.target,
        severity=text.severity,
        codes=tuple(text.codes),
        live=text.live,
        most_frac=parse(text.most, unit="1", where=where).value,
        calls=text.calls,
        per_s=parse(text.per, unit="s", where=where).value,
    )


def _amount(document: Document, key: str, text: str, unit: str) -> float:
    return parse(text, unit=unit, where=document.where(key)).value
