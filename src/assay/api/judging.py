"""`assay judge`: readings of a run, or of other tools' results, held against a profile and claims."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay import __version__
from assay.api.importing import read_results
from assay.api.measuring import missing_ranks
from assay.catalog.devices import gpu, gpu_by_nvml_name
from assay.catalog.messages import Texts
from assay.catalog.profiles import find_profile, profile_for
from assay.catalog.quantities import quantity
from assay.codec.answer import answer, event_object, fact_object, listed_reading
from assay.codec.attestation import attested_object
from assay.codec.claims import Claims, load_claims
from assay.domain.criterion import Profile
from assay.domain.fact import Fact
from assay.domain.finding import Finding
from assay.domain.message import Message
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.domain.verdict import Assessment, Judgement
from assay.errors import InputError
from assay.judge.claims import claim_findings, shortfalls
from assay.judge.consistency import find_inconsistent
from assay.judge.corruption import find_corruption
from assay.judge.environment import environment_findings
from assay.judge.families import Measured, gather
from assay.judge.fleet import find_fleet
from assay.judge.groups import find_slow_groups
from assay.judge.lint import lint_profile, require_sound
from assay.judge.odd import find_odd
from assay.judge.retested import without_retests
from assay.judge.soak import find_soaked
from assay.judge.transport import attest
from assay.judge.verdicts import judge as judge_readings
from assay.predict.local import predict_training
from assay.qualify.identity import datasheet_readings, readings_from_facts
from assay.qualify.utilisation import mfu_readings
from assay.report.data import ReportData, RunInfo, Series
from assay.store.run import HASHES, Run, check_seal, open_runs, samples

_RANK_FILE = re.compile(r"rank-(\d+)\.jsonl")
#: Events that every run has, task by task; the answer leaves them to the run folder.
_ROUTINE = ("task_started", "task_done", "worker_started", "worker_done")
#: The suite whose runs are judged by the profile of that name unless another is given.
SOAK = "soak"
#: Raw samples shown as a distribution; more series than this would fill the page.
_SERIES_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict with everything that a report shows."""

    data: ReportData
    claims: Claims | None = None

    @property
    def assessment(self) -> Assessment:
        """The judgements and findings."""
        return self.data.assessment

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 3 undecided or not measured."""
        return self.assessment.verdict.exit_code

    def answer(self, command: str) -> dict[str, object]:
        """The JSON answer of a command."""
        data, texts = self.data, self.data.texts
        return answer(
            self.assessment,
            command=command,
            assay_version=__version__,
            run=data.info.run or None,
            text=texts.say,
            finding_text=lambda code: (texts.finding(code).title, texts.finding(code).fixes),
            attestation_of=lambda j: (
                one.id if (one := data.attestation_of(j.criterion.quantity, j.recipe)) else None
            ),
        ) | {
            "run_hash": data.run_hash or None,
            "repeat_command": data.repeat_command or None,
            "readings": [self._listed(reading) for reading in data.readings],
            "attestations": [attested_object(one) for one in data.attested.values()],
            "environment": [fact_object(fact) for fact in data.facts],
            "events": [event_object(event) for event in data.events if event.kind not in _ROUTINE],
        }

    def _attestation(self, judgement: Judgement) -> str | None:
        carried = self.data.attestation_of(judgement.criterion.quantity, judgement.recipe)
        return carried.id if carried else None

    def _listed(self, reading: Reading) -> dict[str, object]:
        """A reading, and by its id the transport that a result was carried by."""
        carried = self.data.attestation_of(reading.quantity, reading.recipe)
        measured = reading.origin is Origin.MEASURED
        return listed_reading(reading) | ({"attestation": carried.id} if carried and measured else {})


def judge(
    paths: Sequence[Path],
    *,
    profile: str | Profile | None = None,
    claims: Path | Claims | None = None,
    partial: bool = False,
    collective: str | None = None,
    lang: str = "en",
    sequential: bool = False,
) -> Judged:
    """Judge a run by its folder or its machines' folders, or result files that other tools made.

    `profile` is a name, a file or a record, or None for that of the GPUs found; `partial` accepts a run
    whose last line was cut off. `collective` names what an nccl-tests file does not say itself. Raises
    `InputError` or `RunError` with file and line.
    """
    texts = Texts(lang)
    promised = load_claims(claims, quantity_of=quantity) if isinstance(claims, Path) else claims
    named = find_profile(profile) if isinstance(profile, str) else profile
    if named:
        _require_possible(named, texts)
    run = _gathered(paths, partial=partial, collective=collective)
    usual = SOAK if run.info.suite == SOAK else profile_for(_devices(run.facts))
    chosen = named or find_profile(usual)
    return Judged(data=_assess(run, chosen, promised, texts, sequential=sequential), claims=promised)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gathered:
    """What is judged: readings with the environment and events around them, wherever they come from."""

    info: RunInfo
    readings: tuple[Reading, ...]
    run: Run | None = None
    run_hash: str = ""
    expected: tuple[Subject, ...] = ()
    missing: tuple[int, ...] = ()
    notes: tuple[Message, ...] = ()

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What is known of the machines."""
        return self.run.facts if self.run else ()


def _gathered(paths: Sequence[Path], *, partial: bool, collective: str | None) -> _Gathered:
    folders = [path for path in paths if path.is_dir()]
    if not paths or 0 < len(folders) < len(paths):
        raise InputError(
            "give the folders of one run, or any number of result files, but not both"
            if paths
            else "nothing to judge: no run folder and no file is given",
            fix="assay judge RUN, or assay judge all_reduce.txt fio.json",
        )
    if folders:
        return _of_run(open_runs(folders, partial=partial))
    results = [read_results(path, collective=collective, restart=i) for i, path in enumerate(paths)]
    return _Gathered(
        info=RunInfo(
            run="",
            created_s=max(path.stat().st_mtime for path in paths),
            command="",
            suite="",
            ranks=max((r.ranks for r in results), default=1),
            hosts=(),
            backend="imported",
            restarts=len(paths),
            assay_version=__version__,
            folder=", ".join(map(str, paths)),
        ),
        readings=tuple(reading for result in results for reading in result.readings),
        notes=tuple(note for result in results for note in result.notes),
    )


def _of_run(run: Run) -> _Gathered:
    manifest, missing = run.manifest, missing_ranks(run)
    gone = Reading(
        quantity="run.ranks_missing",
        subject=CLUSTER,
        origin=Origin.MEASURED,
        value=float(len(missing)),
        unit="count",
        n=1,
        replicate=0,
        source=f"{run.path}/agent.jsonl",
    )
    return _Gathered(
        info=RunInfo(
            run=manifest.run,
            created_s=manifest.created_s,
            command=shlex.join(manifest.command),
            suite=manifest.suite,
            ranks=manifest.ranks,
            hosts=manifest.hosts,
            backend=manifest.backend,
            restarts=manifest.restarts,
            assay_version=manifest.assay_version,
            folder=", ".join(map(str, (run.path, *run.others))),
            versions=_versions(run.facts),
        ),
        readings=(*run.readings, *readings_from_facts(run.facts), gone),
        run=run,
        run_hash=_hash(run),
        expected=_expected(run),
        missing=missing,
        notes=tuple(Message.of("note.line_torn", where=where) for where in run.torn),
    )


def _hash(run: Run) -> str:
    """The hash of each folder that is sealed, checked; none where the run has not ended."""
    folders = (run.path, *run.others)
    return " ".join(check_seal(folder) for folder in folders if (folder / HASHES).exists())


def _assess(
    gathered: _Gathered, profile: Profile, claims: Claims | None, texts: Texts, *, sequential: bool
) -> ReportData:
    datasheet = datasheet_readings(gathered.facts)
    promised = claims.readings if claims else ()
    others = (*promised, *datasheet, *predict_training(gathered.readings))
    events = gathered.run.events if gathered.run else ()
    carried = attest(gathered.readings, gathered.run.attestations if gathered.run else (), events)
    readings = (*carried.readings, *mfu_readings(carried.readings, datasheet))
    soaked = find_soaked(readings, events)
    readings = (*readings, *soaked.readings)
    everything = gather(readings, quantity)
    measured, retests = without_retests(everything)
    assessment = judge_readings(
        profile,
        measured,
        quantity,
        others=others,
        expected=gathered.expected,
        missing_ranks=gathered.missing,
        sequential=sequential,
    )
    aggregated = everything.aggregated()
    short = shortfalls(promised, aggregated, datasheet, quantity)
    fleet = find_fleet(measured, gathered.facts)
    named = {(finding.code, finding.subject) for finding in fleet.findings}
    findings: tuple[Finding, ...] = (
        *(f for f in find_slow_groups(measured) if (f.code, f.subject) not in named),
        *retests.settle((*fleet.findings, *find_odd(measured, events, told=fleet.families)), measured),
        *soaked.findings,
        *carried.findings,
        *environment_findings(gathered.facts, ranks=gathered.info.ranks, readings=readings),
        *find_corruption(readings),
        *find_inconsistent(readings, quantity),
        *claim_findings(short),
    )
    assessment = dataclasses.replace(
        assessment,
        findings=tuple(sorted(findings, key=lambda f: (f.severity.rank, f.code, f.subject))),
        notes=(*gathered.notes, *fleet.notes, *soaked.notes, *_notes(profile, assessment, measured)),
    )
    return ReportData(
        assessment=assessment,
        readings=(*aggregated, *others),
        replicates=tuple(r for r in readings if "<" not in r.quantity),
        info=gathered.info,
        texts=texts,
        facts=gathered.facts,
        attested={one.id: one for one in carried.attested},
        events=events,
        series=_series(gathered.run) if gathered.run else (),
        shortfalls=short,
        run_hash=gathered.run_hash,
        repeat_command=gathered.info.command,
    )


def _require_possible(profile: Profile, texts: Texts) -> None:
    complaints = lint_profile(profile, quantity, [gpu(device) for device in profile.applies_to])
    require_sound(profile, complaints, texts.say)


def _notes(profile: Profile, assessment: Assessment, measured: Measured) -> Iterable[Message]:
    """What the reader should know of the profile and of what chance does."""
    for complaint in lint_profile(profile, quantity, [gpu(device) for device in profile.applies_to]):
        if complaint.message.code != "lint.recipe_unstated":
            yield complaint.message
    for judgement in assessment.judgements:
        values = dict(judgement.reason.values)
        chance, cards = values.get("chance_frac"), values.get("subjects")
        if isinstance(chance, float) and isinstance(cards, int):
            yield Message.of(
                "note.spread_by_chance",
                quantity=judgement.criterion.quantity,
                chance_frac=chance,
                cards=cards,
            )
    for clocks in measured.families.get("gpu.sm_clock", ()):
        if clocks.estimates is not None and len(clocks.readings) > 1:
            mean = clocks.estimates.mean
            yield Message.of(
                "note.spread_of_clocks",
                spread_frac=float((mean.max() - mean.min()) / np.median(mean)),
                cards=len(mean),
                recipe=str(clocks.recipe),
            )
    ids = {criterion.quantity.rpartition(".")[2] for criterion in profile.criteria}
    if "fluctuation" in ids:
        yield Message.of("note.two_readings_of_fluctuation")


def _devices(facts: Iterable[Fact]) -> set[str]:
    """Catalogue ids of the GPUs; a card that the catalogue does not know has the id ""."""
    named = [str(fact.value) for fact in facts if fact.key == "gpu.name" and fact.value is not None]
    known = [gpu_by_nvml_name(name) for name in named]
    return {device.id if device else "" for device in known}


def _expected(run: Run) -> tuple[Subject, ...]:
    """One subject per rank, in order: the GPU that each rank's own file is about, else the rank."""
    gpus: dict[int, Subject] = {}
    for reading in run.readings:
        if reading.subject.kind == "gpu" and (file := _RANK_FILE.search(reading.source)):
            gpus.setdefault(int(file[1]), reading.subject)
    if gpus:
        return tuple(subject for _, subject in sorted(gpus.items()))
    return tuple(Subject("rank", str(rank)) for rank in range(run.manifest.ranks))


def _versions(facts: Iterable[Fact]) -> tuple[tuple[str, str], ...]:
    found = {
        fact.key.split(".")[1]: str(fact.value)
        for fact in facts
        if fact.key.startswith("software.") and fact.key.endswith(".version") and fact.value is not None
    }
    return tuple(sorted(found.items()))


def _series(run: Run) -> tuple[Series, ...]:
    """The raw samples of single collective calls, whose tails are worth a picture."""
    chosen: dict[tuple[str, Recipe], Series] = {}
    for reading in run.readings:
        timed = reading.quantity.startswith("collective.") and reading.quantity.endswith(".time")
        if reading.samples is None or not timed:
            continue
        recipe = reading.recipe.without(["statistic"])
        if (reading.quantity, recipe) in chosen or len(chosen) == _SERIES_SHOWN:
            continue
        chosen[reading.quantity, recipe] = Series(
            quantity=reading.quantity,
            subject=reading.subject,
            recipe=recipe,
            unit=reading.samples.unit,
            samples=samples(run, reading.samples),
        )
    return tuple(chosen.values())
