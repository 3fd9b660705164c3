"""`assay qualify`: measure, judge, and go on measuring while that can still decide."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from assay.api.judging import Judged, judge
from assay.api.measuring import MeasureOptions, Session, Watcher, benchmark_of
from assay.api.reporting import write_report
from assay.catalog.messages import Texts
from assay.catalog.profiles import find_profile
from assay.catalog.quantities import quantity
from assay.codec.claims import Claims, load_claims
from assay.domain.criterion import Profile
from assay.domain.verdict import Judgement, Verdict
from assay.judge.retested import suspects
from assay.store.run import seal

#: `--until-decided` stops here, however near the bound the truth lies.
MOST_RESTARTS = 60


def qualify(
    options: MeasureOptions,
    *,
    profile: str | Profile | None = None,
    claims: Path | Claims | None = None,
    lang: str = "en",
    until_decided: bool = False,
    watcher: Watcher | None = None,
) -> Judged:
    """Measure, judge, and write `verdict.json` and `report.html` into the run folder.

    A run stopped by Ctrl-C is judged by what it has. With `until_decided`, benchmarks behind undecided
    criteria are restarted, and judged by confidence sequences, until none is undecided, the budget is spent,
    or `MOST_RESTARTS` are made. Profile, claims and language are read before anything is measured.
    """
    Texts(lang)
    chosen = find_profile(profile) if isinstance(profile, str) else profile
    promised = load_claims(claims, quantity_of=quantity) if isinstance(claims, Path) else claims
    session = Session(options, watcher)

    def verdict(*, sequential: bool) -> Judged:
        session.judging()
        return judge(
            [session.folder], profile=chosen, claims=promised, partial=True, lang=lang, sequential=sequential
        )

    try:
        session.run()
        if session.can_retest:
            findings = verdict(sequential=False).assessment.findings
            session.retest(suspects(findings, session.world.hosts))
        if until_decided:
            for _ in range(MOST_RESTARTS - session.suite.restarts):
                names = _undecided_benchmarks(verdict(sequential=True).assessment.judgements)
                if not names or not session.add_restart(names):
                    break
    except KeyboardInterrupt:
        pass  # recorded by the agent; what was measured is judged
    finally:
        seal(session.folder)
    judged = write_report(verdict(sequential=until_decided), session.folder, command="qualify")
    session.close()
    return judged


def _undecided_benchmarks(judgements: Iterable[Judgement]) -> set[str]:
    undecided = {(j.criterion.quantity, j.recipe) for j in judgements if j.verdict is Verdict.UNDECIDED}
    return {name for asked in undecided if (name := benchmark_of(*asked))}
