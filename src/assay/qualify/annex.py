"""The acceptance annex: what both sides sign before anything is measured, as terms and as a document.

The digest names the terms, not the words: both languages of one annex have the same. The terms stand in the
document as data, so that a program can check a run against what was signed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from assay.catalog.messages import Texts
from assay.catalog.quantities import quantity
from assay.codec.claims import Claims, dump_claims, load_claims
from assay.codec.plain import read_object, require_known, text_at, whole_at
from assay.codec.profile import dump_profile, load_profile
from assay.domain.criterion import Criterion, Op, Over, Profile
from assay.domain.message import Message, MessageValue
from assay.domain.reading import Origin, Reading
from assay.domain.subject import CLUSTER
from assay.errors import InputError
from assay.units import show

SCHEMA_VERSION = 1
_KEYS = ("schema_version", "profile", "claims", "workload", "restarts", "retest_days", "remedy_days")
_EMBEDDED = re.compile(r"<!-- assay-annex ([0-9a-f]{64}) (\{.*\}) -->")
#: What is asked of siblings is not what a promise is about.
_ABOUT_SIBLINGS = (Op.UNIFORM, Op.SPREAD_AT_MOST)
#: Where people write by hand.
BLANK = "_" * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What is agreed: criteria, promises, the workload they serve, and how doubt and failure are handled.

    `restarts` is how many process restarts every varying quantity rests on. A retest may be asked for
    within `retest_days`; what failed is put right within `remedy_days`.
    """

    profile: Profile
    claims: Claims
    workload: str = ""
    restarts: int = 5
    retest_days: int = 5
    remedy_days: int = 10

    def __post_init__(self) -> None:
        for name in ("restarts", "retest_days", "remedy_days"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)} must be 1 or more")

    @property
    def as_json(self) -> str:
        """The terms on one line, keys sorted: what is hashed, and what stands in the document."""
        data = {
            "schema_version": SCHEMA_VERSION,
            "profile": dump_profile(self.profile),
            "claims": dump_claims(self.claims),
            "workload": self.workload,
            "restarts": self.restarts,
            "retest_days": self.retest_days,
            "remedy_days": self.remedy_days,
        }
        text = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return text.replace("<", "\\u003c").replace(">", "\\u003e")

    @property
    def digest(self) -> str:
        """SHA-256 of the terms."""
        return hashlib.sha256(self.as_json.encode()).hexdigest()

    def restarts_of(self, criterion: Criterion) -> int:
        """One look settles a count, an identity or a version; all else rests on restarts."""
        return 1 if quantity(criterion.quantity).exact else self.restarts


def read_terms(text: str, *, where: str) -> Terms:
    """The terms in an annex document; `InputError` where there are none or they do not have their digest."""
    found = _EMBEDDED.search(text)
    if found is None:
        raise InputError(
            "no terms in this file",
            where=where,
            fix="give the Markdown or HTML that 'assay annex' wrote, with its last comment",
        )
    digest, stated = found.groups()
    if hashlib.sha256(stated.encode()).hexdigest() != digest:
        raise InputError(
            f"the terms were changed: they do not have the digest {digest[:12]}",
            where=where,
            fix="use the annex as it was signed",
        )
    data = read_object(stated)
    require_known(data, _KEYS, of="an annex")
    if data.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"schema_version of the annex is {data.get('schema_version')!r}, not {SCHEMA_VERSION}",
            where=where,
            fix="use the version of assay that wrote it",
        )
    return Terms(
        profile=load_profile(text_at(data, "profile"), f"{where} (profile)", quantity_of=quantity),
        claims=load_claims(text_at(data, "claims"), f"{where} (claims)", quantity_of=quantity),
        workload=text_at(data, "workload"),
        restarts=whole_at(data, "restarts") or 0,
        retest_days=whole_at(data, "retest_days") or 0,
        remedy_days=whole_at(data, "remedy_days") or 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, paragraphs, and rows of a table: (label, text). `level` 1 is a part, 2 a clause of it."""

    title: str
    level: int = 1
    paragraphs: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The annex in words, and the comment that holds its terms."""

    lang: str
    title: str
    digest: str
    sections: tuple[Section, ...]
    embedded: str


def document(terms: Terms, texts: Texts) -> Document:
    """The annex in the language of the texts."""
    say = _Sayer(texts)
    sections = (
        _parties(terms, say),
        _definitions(say),
        _procedure(terms, say),
        Section(title=say("clauses"), paragraphs=(say("clauses_lead", profile=terms.profile.title),)),
        *(_clause(at, c, terms, say) for at, c in enumerate(terms.profile.criteria, start=1)),
        *_untested(terms, say),
        *_workload(terms, say),
        Section(
            title=say("signatures"),
            paragraphs=(say("signatures_lead", digest=terms.digest),),
            rows=tuple((say(side), f"{BLANK}  {say('date')} {BLANK}") for side in ("buyer", "vendor")),
        ),
    )
    numbered = tuple(_number(sections))
    return Document(
        lang=texts.lang,
        title=say("title"),
        digest=terms.digest,
        sections=numbered,
        embedded=f"<!-- assay-annex {terms.digest} {terms.as_json} -->",
    )


class _Sayer:
    """Texts of the annex by the last part of their code."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts

    def __call__(self, code: str, /, **values: MessageValue) -> str:
        return self.texts.say(Message.of(f"annex.{code}", **values))


def _number(sections: Sequence[Section]) -> Iterator[Section]:
    """1, 2, 3, and 3.1, 3.2 for the clauses of part 3."""
    part = clause = 0
    for section in sections:
        part, clause = (part + 1, 0) if section.level == 1 else (part, clause + 1)
        number = f"{part}." if section.level == 1 else f"{part}.{clause}"
        yield Section(
            title=f"{number} {section.title}",
            level=section.level,
            paragraphs=section.paragraphs,
            rows=section.rows,
        )


def _parties(terms: Terms, say: _Sayer) -> Section:
    stated = (("offer", terms.claims.offer), ("offer_date", terms.claims.date))
    blanks = ("buyer", "contract", "system", "place", "signed_on", "tested_on", "tested_by")
    return Section(
        title=say("parties"),
        rows=(
            (say("vendor"), terms.claims.provider),
            *((say(name), text) for name, text in stated if text),
            *((say(name), BLANK) for name in blanks),
            (say("digest"), f"`{terms.digest}`"),
        ),
    )


_DEFINED = ("quantity", "subject", "recipe", "restart", "statistic", "interval", "verdicts", "missing")


def _definitions(say: _Sayer) -> Section:
    rows = tuple((say(f"term.{name}"), say(f"term.{name}.is")) for name in _DEFINED)
    return Section(title=say("definitions"), rows=rows)


def _procedure(terms: Terms, say: _Sayer) -> Section:
    steps = ("measure", "seal", "judge", "retest", "remedy", "either")
    days: dict[str, MessageValue] = {"retest_days": terms.retest_days, "remedy_days": terms.remedy_days}
    values = days | {"restarts": terms.restarts, "digest": terms.digest[:12]}
    return Section(title=say("procedure"), paragraphs=tuple(say(f"step.{s}", **values) for s in steps))


def _clause(at: int, c: Criterion, terms: Terms, say: _Sayer) -> Section:
    texts, known, restarts = say.texts, quantity(c.quantity), terms.restarts_of(c)
    promise = None if c.op in _ABOUT_SIBLINGS else claimed_for(c, terms.claims)
    rows = [
        (say("row.quantity"), say("named", name=texts.quantity(c.quantity), id=c.quantity)),
        (say("row.recipe"), _recipe(c, say)),
        (say("row.statistic"), _statistic(c, say)),
        (say("row.restarts"), say("exact") if known.exact else say("restarts", restarts=restarts)),
        (say("row.bound"), _bound(c, promise, say)),
        (say("row.claimed"), show(promise.value, promise.unit) if promise else say("nothing_claimed")),
        (say("row.rule"), say("rule.exact" if known.exact else f"rule.{c.rule.value}")),
        (say("row.retest"), _retest(terms, None if known.exact else 2 * restarts, say)),
        (
            say("row.remedy"),
            say("remedy", remedy_days=terms.remedy_days) if c.required else say("shown_only"),
        ),
    ]
    if c.source:
        rows.append((say("row.source"), c.source))
    if c.note:
        rows.append((say("row.note"), c.note))
    return Section(title=f"{c.clause or texts.quantity(c.quantity)} [{c.id}]", level=2, rows=tuple(rows))


def _recipe(c: Criterion, say: _Sayer) -> str:
    return (
        say("recipe", recipe=str(c.recipe), digest=c.recipe.digest) if c.recipe.items else say("any_recipe")
    )


def _retest(terms: Terms, restarts: int | None, say: _Sayer) -> str:
    if restarts is None:
        return say("retest_exact", retest_days=terms.retest_days)
    return say("retest", retest_days=terms.retest_days, restarts=restarts)


def _statistic(c: Criterion, say: _Sayer) -> str:
    if c.op is Op.UNIFORM and c.bound is None:
        return say("statistic.alike")
    if c.op in (Op.UNIFORM, Op.SPREAD_AT_MOST, Op.PRESENT):
        return say(f"statistic.{c.op.value}")
    if c.over is Over.EACH:
        return say("statistic.each")
    return say("statistic.over", statistic=say.texts.label(f"over.{c.over.value}"))


def _bound(c: Criterion, promise: Reading | None, say: _Sayer) -> str:
    """`at least 715 TFLOP/s`, and what a share of a promise comes to."""
    op = say.texts.label(f"op.{c.op.value}")
    if c.bound is None:
        return op
    limits = [c.bound] if c.high is None else [c.bound, c.high]
    stated = " – ".join(show(value, c.unit) for value in limits)
    if c.of is None:
        return f"{op} {stated}"
    relative = say("relative", bound_text=stated, origin=c.of.value)
    if c.of is Origin.CLAIMED and promise is not None and promise.number is not None:
        worked = " – ".join(show(value * promise.number, promise.unit) for value in limits)
        relative += f" = {worked}"
    return f"{op} {relative}"


def claimed_for(criterion: Criterion, claims: Claims) -> Reading | None:
    """The promise that is about the same thing: for every subject, no parameter of its recipe unlike."""
    fitting = [
        r
        for r in claims.readings
        if quantity(criterion.quantity).describes(r.quantity)
        and r.subject == CLUSTER
        and not criterion.recipe.conflicts(r.recipe)
    ]
    return max(fitting, key=lambda r: len(r.recipe.items), default=None)


def _untested(terms: Terms, say: _Sayer) -> Iterator[Section]:
    """Promises that no clause tests: signing them means taking them on trust."""
    criteria = [c for c in terms.profile.criteria if c.op not in _ABOUT_SIBLINGS]
    tested = [claimed_for(c, terms.claims) for c in criteria]
    rows = [
        (
            say("named", name=say.texts.quantity(r.quantity), id=r.quantity),
            show(r.value, r.unit) + (f" ({r.recipe})" if r.recipe.items else ""),
        )
        for r in terms.claims.readings
        if r not in tested
    ]
    if rows:
        yield Section(title=say("untested"), paragraphs=(say("untested_lead"),), rows=tuple(rows))


def _workload(terms: Terms, say: _Sayer) -> Iterator[Section]:
    if terms.workload:
        yield Section(title=say("workload"), paragraphs=(say("workload_lead"), terms.workload))


def to_markdown(doc: Document) -> str:
    """The document as Markdown that also reads well as plain text."""
    lines = [f"# {doc.title}", ""]
    for section in doc.sections:
        lines += [f"{'#' * (section.level + 1)} {section.title}", ""]
        for paragraph in section.paragraphs:
            lines += [paragraph, ""]
        if section.rows:
            lines += ["| | |", "|---|---|"]
            lines += [f"| {_cell(label)} | {_cell(text)} |" for label, text in section.rows]
            lines.append("")
    return "\n".join([*lines, doc.embedded, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def changed_lines(written: str, signed: str) -> tuple[str, ...]:
    """Lines of the document as written that a signed copy no longer has; blanks may have been filled in."""
    have = {line.strip() for line in signed.splitlines()}
    return tuple(line for line in written.splitlines() if BLANK not in line and line.strip() not in have)
