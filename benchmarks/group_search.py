"""How many group tests find the bad ones, beside all pairs, and how much cluster time that is."""

from __future__ import annotations

import math
import random
import statistics

from assay.judge.group_search import GroupSearch, simulate
from benchmarks.figure import Figure

#: One test starts a job and runs one collective of some gigabytes a few times.
TEST_S = 30.0
DRAWS = 200
#: How often an outcome is the opposite of the truth, in the last row.
WRONG_FRAC = 0.01


def run() -> list[Figure]:
    """One bad node of 1,024, one bad pair of 1,024, and 232 nodes as a public suite searches them."""
    figures = []
    for what, nodes, bad, pairs in (
        ("one bad node of 1,024", 1024, 1, 0),
        ("one bad pair among 1,024", 1024, 0, 1),
        ("nothing bad among 1,024", 1024, 0, 0),
        ("one bad node of 232", 232, 1, 0),
        ("five bad nodes of 232", 232, 5, 0),
    ):
        made = [search(nodes, bad, pairs, seed) for seed in range(DRAWS)]
        tests = statistics.mean(one.tests_run for one in made)
        rounds = statistics.mean(one.rounds for one in made)
        every = nodes * (nodes - 1) // 2
        bits = math.log2(math.comb(every if pairs else nodes, bad + pairs))
        reach = "55 (CRE, 5 bad)" if nodes == 232 else ""
        figures += [
            Figure(
                what=f"{what}: tests (pairs {every:,}, bits {bits:.1f})",
                value=f"{tests:.1f}",
                reach=reach,
            ),
            Figure(
                what=f"{what}: {rounds:.1f} rounds of {TEST_S:.0f} s",
                value=f"{rounds * TEST_S / 60:.1f} min",
                reach="10 min" if "node of 1,024" in what else "",
            ),
        ]
    return [*figures, with_wrong_outcomes()]


def search(nodes: int, bad: int, pairs: int, seed: int) -> GroupSearch:
    """A finished search whose answer is checked against what was planted."""
    draw, names = random.Random(seed), [f"n{at:04d}" for at in range(nodes)]
    hidden = draw.sample(names, bad + 2 * pairs)
    ends = sorted(hidden[bad:])
    couples = list(zip(ends[::2], ends[1::2], strict=True))
    made = simulate(names, hidden[:bad], couples)
    if made.faults.nodes != tuple(sorted(hidden[:bad])) or made.faults.pairs != tuple(sorted(couples)):
        raise ValueError(f"seed {seed}: planted {hidden[:bad]} and {couples}, found {made.faults}")
    return made


def with_wrong_outcomes() -> Figure:
    """Five bad of 232 where some outcomes are wrong: in how many searches exactly those five are named."""
    right, tests, names = 0, [], [f"n{at:04d}" for at in range(232)]
    for seed in range(DRAWS):
        draw = random.Random(seed)
        bad = set(draw.sample(names, 5))
        made = simulate(names, bad, is_wrong=lambda draw=draw: draw.random() < WRONG_FRAC)
        right += set(made.faults.nodes) == bad and not made.faults.pairs
        tests.append(made.tests_run)
    return Figure(
        what=f"five of 232, {WRONG_FRAC:.0%} of outcomes wrong: {statistics.mean(tests):.1f} tests; right",
        value=f"{right / DRAWS:.0%}",
    )
