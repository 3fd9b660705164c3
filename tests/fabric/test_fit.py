"""The fit of the collective model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from assay.errors import InputError
from assay.fabric.fit import Sample, fit, nonnegative, priced_s
from assay.fabric.parameters import Parameters, read_parameters, shipped, write_parameters


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_nonnegative_least_squares_agrees_with_scipy(seed: int) -> None:
    random = np.random.default_rng(seed)
    matrix, goal = random.normal(size=(30, 6)), random.normal(size=30)
    expected, _ = nnls(matrix, goal)
    ours = nonnegative(matrix, goal, start=random.random(6) > 0.5)
    assert np.linalg.norm(matrix @ ours - goal) == pytest.approx(np.linalg.norm(matrix @ expected - goal))
    assert np.all(ours >= 0)


def test_known_parameters_are_found_again() -> None:
    true = {"launch/hopper": 10.0, "hop/LL/hopper": 1.4, "wire/SIMPLE/hopper": 1.2}
    random = np.random.default_rng(1)
    samples = []
    for at in range(200):
        counts = {"launch/hopper": 5e-7, "hop/LL/hopper": float(random.integers(1, 14)) * 0.6e-6}
        counts["wire/SIMPLE/hopper"] = float(10 ** random.uniform(-7, -2))
        time = sum(true[name] * count for name, count in counts.items())
        samples.append(Sample(counts=counts, measured_s=time, source=f"s{at % 3}", bytes=1e6, inter=False))
    found = fit(samples, {"host/torch": 39e-6})
    for name, value in true.items():
        assert found[name] == pytest.approx(value, rel=0.02)
    assert found["host/torch"] == 39e-6


def test_what_was_never_measured_is_what_nccl_itself_takes_it_for() -> None:
    assert Parameters(values={}).value("net-hop/LL/infiniband") == 1.0
    assert Parameters(values={}).value("wire/SIMPLE/host") == pytest.approx(31 / 18.7)


def test_links_and_nics_run_at_the_same_time() -> None:
    counts = {"launch/hopper": 1e-6, "wire/SIMPLE/hopper": 1e-3, "net/infiniband": 2e-3}
    parameters = Parameters(values={"launch": 5.0, "wire/SIMPLE": 1.5, "net": 1.1})
    assert priced_s(counts, parameters) == pytest.approx(5e-6 + 2.2e-3)


def test_parameters_survive_writing() -> None:
    text = write_parameters(shipped(), head="a head\nof two lines")
    again = read_parameters(text)
    assert again.values == pytest.approx(dict(shipped().values), rel=1e-3)
    assert again.ranges.keys() == shipped().ranges.keys()


def test_a_parameter_below_physics_is_refused() -> None:
    with pytest.raises(InputError, match=r"wire/SIMPLE/hopper = 0\.5 is below 1"):
        Parameters(values={"wire/SIMPLE/hopper": 0.5})


def test_an_unmeasured_link_takes_its_familys_value_and_says_so() -> None:
    parameters = Parameters(values={"launch": 6.0, "launch/hopper": 9.0, "launch/ampere": 12.0})
    assert parameters.value("launch/rubin") == 6.0
    assert Parameters(values={"launch/hopper": 9.0, "launch/ampere": 12.0}).value("launch/rubin") == 10.5
    assert parameters.unknown(["launch/rubin", "launch/hopper"]) == ("launch/rubin",)


def test_a_family_is_what_is_usual_among_its_members_and_not_what_most_rows_are_of() -> None:
    members = {"ampere": (2e-7, 400), "hopper": (6e-7, 4), "blackwell": (7e-7, 4)}
    samples = [
        Sample(
            counts={f"chunk/LL/{member}": 10.0}, measured_s=10 * each_s, source=member, bytes=8, inter=False
        )
        for member, (each_s, rows) in members.items()
        for _ in range(rows)
    ]
    found = fit(samples, {})
    for member, (each_s, _) in members.items():
        assert found[f"chunk/LL/{member}"] == pytest.approx(each_s, rel=0.02)
    assert 4e-7 < Parameters(values=found).value("chunk/LL/rubin") < 7e-7


def test_of_links_and_shared_memory_the_slower_carries_the_time() -> None:
    counts = {"hop/SIMPLE/host": 4e-5, "wire/SIMPLE/host": 1e-5, "crowd/SIMPLE": 4e-5, "launch/ada": 4e-10}
    parameters = Parameters(
        values={"hop/SIMPLE": 1.0, "wire/SIMPLE/host": 1.5, "crowd/SIMPLE": 1.5, "launch": 10.0}
    )
    assert priced_s(counts, parameters) == pytest.approx(6e-5 + 4e-9)
    assert priced_s({**counts, "crowd/SIMPLE": 1e-5}, parameters) == pytest.approx(5.5e-5 + 4e-9)
