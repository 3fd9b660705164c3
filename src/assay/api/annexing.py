"""`assay annex` and `assay verify`: what both sides sign, and whether a run followed it."""

from __future__ import annotations

from pathlib import Path

from assay.catalog.devices import gpu
from assay.catalog.messages import LANGUAGES, Texts
from assay.catalog.profiles import find_profile
from assay.catalog.quantities import quantity
from assay.codec.claims import load_claims
from assay.codec.text_file import read_text
from assay.errors import InputError, RunError
from assay.judge.lint import lint_profile, require_sound
from assay.qualify.annex import Terms, changed_lines, document, read_terms, to_markdown
from assay.qualify.identity import readings_from_facts
from assay.qualify.verify import Verification, check_annex, identities
from assay.report.annex_page import annex_html
from assay.store.run import HASHES, check_seal, open_run


def annex(
    profile: str,
    claims: Path,
    *,
    workload: str = "",
    restarts: int = 5,
    retest_days: int = 5,
    remedy_days: int = 10,
    lang: str = "en",
    html: bool = False,
) -> tuple[Terms, str]:
    """The terms, and the annex as Markdown or HTML. A profile that physics forbids cannot be signed."""
    texts = Texts(lang)
    chosen = find_profile(profile)
    complaints = lint_profile(chosen, quantity, [gpu(device) for device in chosen.applies_to])
    require_sound(chosen, complaints, texts.say)
    terms = Terms(
        profile=chosen,
        claims=load_claims(claims, quantity_of=quantity),
        workload=workload,
        restarts=restarts,
        retest_days=retest_days,
        remedy_days=remedy_days,
    )
    doc = document(terms, texts)
    return terms, annex_html(doc) if html else to_markdown(doc)


def save(path: Path, text: str) -> None:
    """Write the annex; an annex that is there may be signed, so it is never replaced."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{path} is there already", fix="give another --out, or remove it") from None
    except OSError as fault:
        raise InputError(f"cannot write {path}: {fault.strerror}", fix="give another --out") from None


def verify(run: Path, *, annex_file: Path | None = None, partial: bool = False) -> Verification:
    """Check a run folder, and that it follows an annex; a folder that is no run is an error."""
    fault, run_hash, sealed = None, None, (run / HASHES).exists()
    read = open_run(run, partial=partial or not sealed)
    if sealed:
        try:
            run_hash = check_seal(run)
        except RunError as error:
            fault = error.what
    checked = None
    if annex_file is not None:
        terms, changed = signed(annex_file)
        made = (*read.readings, *readings_from_facts(read.facts))
        checked = check_annex(terms, made, changed, recorded=read.manifest.annex)
    return Verification(
        run=read.manifest.run,
        run_hash=run_hash,
        sealed=sealed,
        fault=fault,
        hosts=read.manifest.hosts,
        identities=identities(read.facts),
        annex=checked,
        recorded_annex=read.manifest.annex,
    )


def signed(file: Path) -> tuple[Terms, tuple[str, ...]]:
    """The terms of an annex file, and lines that differ from what those terms say in words."""
    text = read_text(file)
    terms = read_terms(text, where=str(file))
    render = annex_html if text.lstrip().startswith("<!doctype") else to_markdown
    written = [render(document(terms, Texts(lang))) for lang in LANGUAGES]
    return terms, min((changed_lines(page, text) for page in written), key=len)
