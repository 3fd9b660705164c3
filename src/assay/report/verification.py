"""What `assay verify` found, for people and for programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from assay.catalog.messages import Texts
from assay.codec.answer import headed
from assay.domain.message import Message
from assay.qualify.verify import ClauseCheck, Followed, Verification
from assay.report.answer_page import Page, Section
from assay.report.plain import wrapped

_SHOWN = 8


def answer(v: Verification, *, assay_version: str) -> dict[str, object]:
    """The JSON object of `assay verify`; keys are only ever added."""
    return headed("verify", assay_version=assay_version) | {
        "verdict": v.verdict.value,
        "run": v.run,
        "run_hash": v.run_hash,
        "sealed": v.sealed,
        "whole": v.sealed and v.fault is None,
        "fault": v.fault,
        "hosts": list(v.hosts),
        "identities": [
            {"subject": str(i.subject), "key": i.key, "value": i.value, "reason": i.reason}
            for i in v.identities
        ],
        "recorded_annex": v.recorded_annex,
        "annex": None
        if v.annex is None
        else {
            "digest": v.annex.digest,
            "profile": v.annex.profile,
            "verdict": v.annex.verdict.value,
            "is_another": v.annex.is_another,
            "changed_lines": list(v.annex.changed),
            "clauses": [_clause(c) for c in v.annex.clauses],
        },
    }


def _clause(c: ClauseCheck) -> dict[str, object]:
    return {
        "id": c.criterion.id,
        "quantity": c.criterion.quantity,
        "recipe": c.criterion.recipe.as_dict(),
        "required": c.criterion.required,
        "followed": c.followed.value,
        "restarts": c.restarts,
        "restarts_asked": c.asked,
        "difference": c.difference,
    }


def plain_text(v: Verification, texts: Texts) -> str:
    """The answer first, then what it rests on."""
    lines = [texts.label(f"verify.verdict.{v.verdict.value}"), *_whole(v, texts), *_identities(v, texts)]
    lines += [*_recorded(v, texts), *_clauses(v, texts)]
    return "".join(f"{wrapped(line, hang=4)}\n" for line in lines)


def page(v: Verification, texts: Texts) -> Page:
    """The same as a page of sections."""
    sections = [
        Section(title=texts.label("verify.page.identities"), lines=tuple(_identities(v, texts))),
        Section(title=texts.label("verify.page.annex"), lines=(*_recorded(v, texts), *_clauses(v, texts))),
    ]
    return Page(
        kind="verify.page",
        title=texts.label(f"verify.verdict.{v.verdict.value}"),
        lead=tuple(_whole(v, texts)),
        sections=tuple(section for section in sections if section.lines),
    )


def _whole(v: Verification, texts: Texts) -> Iterator[str]:
    yield texts.say(
        Message.of("verify.run", run=v.run, hosts=", ".join(v.hosts[:_SHOWN]), count=len(v.hosts))
    )
    if v.fault is not None:
        yield texts.say(Message.of("verify.fault", text=v.fault))
    elif v.sealed:
        yield texts.say(Message.of("verify.whole", text=v.run_hash))
    else:
        yield texts.label("verify.unsealed")


def _recorded(v: Verification, texts: Texts) -> Iterator[str]:
    if v.recorded_annex is not None:
        yield texts.say(Message.of("verify.recorded", text=v.recorded_annex))


def _clauses(v: Verification, texts: Texts) -> Iterator[str]:
    if v.annex is None:
        return
    yield texts.say(Message.of("verify.annex", text=v.annex.digest, profile=v.annex.profile))
    if v.annex.is_another:
        yield "  " + texts.label("verify.another_annex")
    for line in v.annex.changed[:_SHOWN]:
        yield "  " + texts.say(Message.of("verify.line_changed", text=line[:60]))
    for c in v.annex.clauses:
        code = f"verify.clause.{c.followed.value}"
        said = Message.of(code, restarts=c.restarts, asked=c.asked, difference=c.difference)
        optional = (
            "" if c.criterion.required or c.followed is Followed.YES else texts.label("verify.optional")
        )
        yield f"  {c.criterion.id}: {texts.say(said)}{optional}"


def _identities(v: Verification, texts: Texts) -> Iterator[str]:
    by_key: dict[str, list[str]] = defaultdict(list)
    unread: dict[str, int] = defaultdict(int)
    for identity in v.identities:
        if identity.value is None:
            unread[identity.key] += 1
        else:
            by_key[identity.key].append(f"{identity.subject} {identity.value}")
    if not by_key:
        yield texts.label("verify.no_identity")
    for key, values in by_key.items():
        yield texts.say(Message.of("verify.identities", key=key, count=len(values), missing=unread[key]))
        yield from (f"  {value}" for value in values[:_SHOWN])
        if len(values) > _SHOWN:
            yield f"  … +{len(values) - _SHOWN}"
