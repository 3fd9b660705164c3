"""Jobs of phases: formulas, laws of their cost, scaling, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from assay.api.predicting_jobs import is_job, network_of, predict_named_job
from assay.catalog.clusters import cluster
from assay.catalog.jobs import job, job_ids
from assay.codec.job import load_job
from assay.errors import AssayError, InputError
from assay.predict.jobs.formula import evaluate
from assay.predict.jobs.price import predict_job, scaling, settings

SIX = ("composite", "halo3d", "montecarlo", "raytrace", "spectral", "volume")

FILE = """\
schema: 1
id: mine
name: my job
about: test
source: me
parameters:
  cells: {value: 1000000, about: cells, grows: 1}
phases:
  - {name: work, kind: compute, flop: cells * 100 / ranks}
memory:
  cells: cells / ranks * 8
"""


def priced(name, nodes=16, system="dgx-h100", **said):
    built = cluster(system).of(nodes)
    one = job(name)
    return predict_job(one, built, settings(one, said), network_of(built))


def test_the_six_kinds_are_there_each_with_its_source():
    assert job_ids() == SIX
    assert all(job(name).source for name in SIX)
    assert all(is_job(name) for name in SIX)
    assert not is_job("llama-3.1-8b")


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("system", ["dgx-h100", "gb200-nvl72", "hgx-mi300x"])
def test_a_step_adds_up_on_every_kind_of_system(name, system):
    found = priced(name, nodes=4, system=system)
    assert found.step_s > 0
    assert sum(found.breakdown_s.values()) == pytest.approx(found.step_s)
    assert all(phase.exposed_s <= phase.time_s for phase in found.phases)


@settings_of_hypothesis(max_examples=25)
@given(nodes=st.integers(1, 64))
def test_a_stencil_is_bound_by_memory_and_its_halo_by_the_surface(nodes):
    found = priced("halo3d", nodes=nodes)
    cells = 4096**3 / (nodes * 8)
    assert found.breakdown_s["stencil"] == pytest.approx(2 * 8 * cells * 8 / (3.35e12 * 0.8))
    bigger = priced("halo3d", nodes=nodes, nx=8192, ny=8192, nz=8192)
    times = [next(p.time_s for p in one.phases if p.name == "halo") for one in (found, bigger)]
    # Twice the edge is four times the face; what is fixed makes it less.
    assert 2 <= times[1] / times[0] <= 4.01


def test_weak_scaling_of_the_halo_is_as_flat_as_was_published():
    built = cluster("dgx-a100").of(128)
    one = job("halo3d")
    points = scaling(one, built, settings(one, {}), network_of, weak=True)
    assert points[-1].efficiency_frac > 0.96


def test_strong_scaling_of_a_spectral_transform_is_held_by_its_transposes():
    built = cluster("dgx-h100").of(64)
    one = job("spectral")
    points = scaling(one, built, settings(one, {}), network_of, weak=False)
    assert points[0].efficiency_frac == 1
    assert points[-1].efficiency_frac < 0.5
    assert [p.nodes for p in points] == [1, 2, 4, 8, 16, 32, 64]


def test_independent_paths_scale_to_the_end():
    built = cluster("dgx-h100").of(64)
    one = job("montecarlo")
    assert scaling(one, built, settings(one, {}), network_of, weak=False)[-1].efficiency_frac > 0.95


def test_binary_swap_sends_in_more_rounds_what_direct_send_sends_at_once():
    swap, direct = priced("composite", radix=2), priced("composite", radix=128)
    times = [next(p.time_s for p in one.phases if p.name == "exchange") for one in (swap, direct)]
    assert times[0] < times[1]


def test_the_reconstruction_is_within_what_was_published_for_it():
    done = predict_named_job("dgx-v100", 256, "volume", [])
    ((run, modelled_s),) = done.published
    assert run.step_time_s == 30
    assert 0.25 < modelled_s / run.step_time_s < 1.5


def test_a_gpu_without_fp64_is_refused_for_a_job_that_needs_it():
    with pytest.raises(InputError, match="no fp64 peak"):
        priced("halo3d", system="l40s-pcie", nodes=2)


def test_a_job_that_does_not_fit_says_so():
    assert not priced("halo3d", nodes=1, nx=20000, ny=20000, nz=20000).fits


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (["nn=1"], "did you mean 'n'"),
        (["n"], "write --set name=value"),
        (["n=many"], "is not a number"),
        (["word_bytes=4 parsec"], "parsec"),
        (["n=-4"], "from 0 up"),
        (["flop_frac=0"], "not between 0 and 1"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused(said, words):
    with pytest.raises(AssayError) as fault:
        predict_named_job("dgx-h100", 4, "volume", said)
    assert words in str(fault.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2 + 3 * 4", 14), ("ceil(7 / 2)", 4), ("5 if a < 2 else 6", 5), ("-a ** 2", -1), ("max(a, 9, 2)", 9)],
)
def test_formulas_are_arithmetic(text, value):
    assert evaluate(text, {"a": 1.0}) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "a.b",
        "[1]",
        "1 / 0",
        "a ** 1000",
        "lambda: 1",
        "b",
        "open(1)",
        "1 +",
        "10 ** 60 ** 9",
    ],
)
def test_what_is_no_arithmetic_is_refused(text):
    with pytest.raises(InputError):
        evaluate(text, {"a": 2.0})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("kind: compute", "kind: thinking", "of kind 'thinking'"),
        ("flop: cells", "flops: cells", "did you mean 'flop'"),
        ("schema: 1", "schema: 2", "schema is 2"),
        (", flop: cells * 100 / ranks", "", "says no flop"),
        ("- {name: work", "- {name: work, overlaps: rest", "which is no phase"),
    ],
)
def test_a_faulty_job_file_is_told_with_its_line(old, new, words):
    with pytest.raises(InputError) as fault:
        load_job(FILE.replace(old, new), "mine.yaml")
    assert words in str(fault.value)
    assert "mine.yaml:" in str(fault.value)


def test_a_job_says_what_moves_its_messages(tmp_path):
    file = tmp_path / "mine.yaml"
    steps = {}
    for library in ("nccl", "mpi"):
        reducing = "  - {name: sum, kind: reduce, bytes: '8'}\nmemory:"
        file.write_text(FILE.replace("memory:", reducing) + f"library: {library}\n")
        done = predict_named_job("dgx-h100", 4, str(file), ())
        steps[library] = done.prediction.breakdown_s["sum"]
    # Doubling: three steps in the node up and three down, two between nodes at 1.3 µs.
    assert steps["mpi"] == pytest.approx(6 * 0.6e-6 + 2 * 1.3e-6, rel=0.01)
    assert steps["nccl"] > steps["mpi"]
    with pytest.raises(AssayError, match="nccl"):
        load_job(FILE + "library: ncll\n", "mine.yaml")


def test_a_job_file_of_ones_own_is_predicted(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(FILE)
    done = predict_named_job("dgx-h100", 2, str(file), ["cells=2e6"])
    assert done.prediction.memory_bytes == {"cells": 2e6 / 16 * 8}
