"""The statistics against SciPy, and their laws."""

import math

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import stats


@given(t=st.floats(-50, 50), df=st.floats(0.5, 1e5))
def test_student_tail_equals_scipy(t, df):
    assert float(stats.student_t_sf(t, df)) == pytest.approx(scipy.stats.t.sf(t, df), rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("p", [0.5, 0.9, 0.975, 0.9999])
@pytest.mark.parametrize("df", [1, 2, 2.5, 4, 30, 1000, math.inf])
def test_student_quantile_equals_scipy(p, df):
    assert stats.student_t_quantile(p, df) == pytest.approx(scipy.stats.t.ppf(p, df), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("subjects", [2, 3, 8, 64])
@pytest.mark.parametrize("df", [2, 4, 8, 40, 1e6])
def test_studentized_range_equals_scipy(subjects, df):
    expected = scipy.stats.studentized_range.ppf(0.95, subjects, df)
    assert stats.studentized_range_quantile(0.95, subjects, df) == pytest.approx(expected, rel=3e-3)


def test_chance_spreads_cards_as_measured():
    """σ 0.3 % gives a range of 0.85 % on 8 cards and 1.94 % on 1,000."""
    assert 0.3 * stats.expected_range(8) == pytest.approx(0.854, abs=0.005)
    assert 0.3 * stats.expected_range(1000) == pytest.approx(1.945, abs=0.01)


@given(x=st.floats(0.05, 500))
def test_digamma_and_trigamma_equal_scipy(x):
    array = np.array([x])
    assert stats._digamma(array)[0] == pytest.approx(scipy.special.digamma(x), rel=1e-8, abs=1e-9)
    assert stats._trigamma(array)[0] == pytest.approx(scipy.special.polygamma(1, x), rel=1e-7)
    assert stats._trigamma_inverse(float(scipy.special.polygamma(1, x))) == pytest.approx(x, rel=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_lies_between_bonferroni_and_no_correction(p):
    rejected = stats.holm(p, 0.05)
    values = np.array(p)
    assert np.all(rejected[values <= 0.05 / len(p)])
    assert not np.any(rejected[values > 0.05])


def test_holm_treats_an_unknown_as_not_rejected():
    assert stats.holm([0.001, float("nan")], 0.05).tolist() == [True, False]


def test_intervals_cover_at_the_stated_rate():
    rng = np.random.default_rng(1)
    hits = total = 0
    for _ in range(300):
        sigma = 0.01 * rng.chisquare(20) / 20
        estimates = stats.estimate_family([1 + sigma * rng.standard_normal(3) for _ in range(16)])
        low, high = estimates.interval()
        hits += int(((low <= 1) & (high >= 1)).sum())
        total += 16
    assert hits / total == pytest.approx(0.95, abs=0.01)


def test_a_noisy_subject_keeps_a_wider_interval_than_its_calm_siblings():
    rng = np.random.default_rng(2)
    family = [100 + rng.standard_normal(5) for _ in range(15)] + [100 + 30 * rng.standard_normal(5)]
    error = stats.estimate_family(family).standard_error
    assert error[-1] > 5 * np.median(error[:-1])


def test_a_single_restart_has_no_interval():
    estimates = stats.estimate_family([[1.0], [2.0]])
    assert np.isnan(estimates.interval()[0]).all()
    assert np.isnan(estimates.p_below(1.5)).all()


def test_equal_values_decide_exactly():
    estimates = stats.estimate_family([[2.0, 2.0, 2.0]])
    assert estimates.p_above(1.0)[0] == 0
    assert estimates.p_below(1.0)[0] == 1
    assert estimates.p_below(2.0)[0] == 1


def test_peeking_at_a_confidence_sequence_rarely_decides_wrongly():
    """With the true mean on the bound, looking after every restart excludes it in at most 5 % of runs."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        values = rng.standard_normal(60)
        wrong += any(
            (interval := stats.confidence_sequence(values[:n])) is not None
            and not interval[0] <= 0 <= interval[1]
            for n in range(2, 61)
        )
    assert wrong / 400 <= 0.05


def test_peeking_at_ordinary_intervals_decides_wrongly_often():
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(200):
        values = rng.standard_normal(60)
        for n in range(2, 61):
            low, high = stats.estimate_family([values[:n]]).interval()
            if not low[0] <= 0 <= high[0]:
                wrong += 1
                break
    assert wrong / 200 > 0.2


@settings(max_examples=30)
@given(st.integers(2, 40), st.floats(0.001, 10))
def test_a_confidence_sequence_is_wider_than_the_interval_of_one_look(n, sigma):
    values = sigma * np.random.default_rng(n).standard_normal(n)
    sequence = stats.confidence_sequence(values)
    low, high = stats.estimate_family([values]).interval()
    assert sequence is None or (sequence[0] <= low[0] and sequence[1] >= high[0])


def test_restarts_to_decide_shrinks_with_the_gap():
    near = stats.restarts_to_decide(1.0, 0.05, 0.99, have=3)
    far = stats.restarts_to_decide(1.0, 0.05, 0.90, have=3)
    assert near > far >= 1
    assert stats.restarts_to_decide(1.0, 0.05, 1.0, have=3) is None


def test_offsets_near_zero_lend_no_noise_to_one_that_is_far_from_it():
    values = [[1e-6, -2e-6, 3e-6], [0.2500, 0.25001, 0.25002], [2e-6, -1e-6, 0.0]]
    low, high = stats.estimate_family(values, relative=False).interval()
    assert 0.2499 < low[1] < high[1] < 0.2501
