"""Factors fitted to a run's readings, and predictions that use them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.api.calibrating import calibrate, write_cluster_file
from assay.api.clusters import find_cluster
from assay.api.predicting import PredictOptions, predict_step
from assay.catalog.clusters import cluster, load_cluster
from assay.domain.calibration import Calibration, Factor, factor_names
from assay.domain.reading import Origin, Reading
from assay.domain.recipe import Recipe
from assay.domain.subject import CLUSTER, Subject
from assay.errors import InputError
from assay.predict.calibrate import calibrate as fit
from assay.predict.calibration import CorrectedNetwork, calibrated_gpu, calibrated_physics, network_of
from assay.predict.kernels import gemm_rates, gemm_time_s
from assay.predict.network import LinkNetwork
from assay.store.generate import Wish, generate
from assay.store.invented import Layout, Noise

TWO_CORES = Path(__file__).parents[2] / "examples" / "runs" / "two-cores"
SIZES = [2**power for power in range(10, 33, 2)]
WORKLOAD = {"workload": "llama-3.1-8b", "layout": "tp=2", "global_batch": 64}


def calibration(**factors: float) -> Calibration:
    named = {name.replace("__", "."): value for name, value in factors.items()}
    return Calibration(source="test", factors=tuple(Factor(name=n, value=v) for n, v in named.items()))


def measured(quantity: str, value: float, unit: str, subject: Subject = CLUSTER, restart: int = 0, **recipe):
    return Reading(
        quantity=quantity,
        subject=subject,
        origin=Origin.MEASURED,
        value=value,
        unit=unit,
        replicate=restart,
        recipe=Recipe.of(recipe),
    )


def all_reduces(latency: float, bandwidth: float, ranks: int = 8) -> list[Reading]:
    network = CorrectedNetwork(
        base=LinkNetwork.of(cluster("dgx-h100")),
        calibration=calibration(node__latency=latency, node__all_reduce__bandwidth=bandwidth),
    )
    recipe = {"method": "pipelined", "statistic": "mean", "ranks": ranks}
    return [
        measured(
            "collective.all_reduce.time",
            network.time_s("all_reduce", size, ranks, 1).item(),
            "s",
            **recipe,
            bytes=size,
        )
        for size in SIZES
    ]


@settings(max_examples=20)
@given(st.floats(0.3, 5.0), st.floats(0.3, 1.5))
def test_latency_and_bandwidth_of_exact_times_come_back(latency, bandwidth):
    found = fit(all_reduces(latency, bandwidth), cluster("dgx-h100"), source="test").calibration
    assert found.value("node.latency") == pytest.approx(latency, rel=1e-6)
    assert found.value("node.all_reduce.bandwidth") == pytest.approx(bandwidth, rel=1e-6)


def test_the_hosts_launches_are_fitted_and_lengthen_what_waits_for_the_host() -> None:
    times = [
        measured("kernel.launch.time", seconds, "s", Subject("gpu", "a/0"), restart, on="gpu", load="all")
        for restart, seconds in enumerate((9.9e-6, 10e-6, 10.1e-6))
    ]
    found = fit(times, cluster("dgx-h100"), source="test")
    factor = found.calibration.get("host.launch")
    assert factor is not None
    assert factor.value == pytest.approx(2.0, rel=0.01)
    assert factor.low is not None
    assert factor.low < factor.value
    assert [r.quantity for r in found.residuals] == ["kernel.launch.time"]
    assert abs(found.residuals[0].after_error_frac) < 0.01
    assert found.residuals[0].before_error_frac == pytest.approx(-0.5, rel=0.02)
    assert calibrated_physics(found.calibration).host == pytest.approx(
        2 * calibrated_physics(None).host, 0.01
    )


def test_an_operation_on_the_host_itself_is_no_launch() -> None:
    own = measured("kernel.launch.time", 1e-6, "s", on="cpu", load="all")
    found = fit([own, *all_reduces(2.0, 0.9)], cluster("dgx-h100"), source="test")
    assert found.calibration.get("host.launch") is None
    assert "host.launch" in dict(found.missing)


@settings(max_examples=20)
@given(st.floats(0.4, 1.3))
def test_the_rate_factor_makes_the_model_meet_the_measured_rate(factor):
    gpu = cluster("dgx-h100").node.gpu
    plain = gemm_time_s(gemm_rates([gpu], ["bf16"]), 8192, 8192, 8192).item()
    rate = factor * 2 * 8192**3 / plain
    reading = measured("gemm.bf16.rate", rate, "FLOP/s", Subject("gpu", "a/0"), shape="8192x8192x8192")
    found = fit([reading], cluster("dgx-h100"), source="test")
    after = gemm_time_s(gemm_rates([calibrated_gpu(gpu, found.calibration)], ["bf16"]), 8192, 8192, 8192)
    assert 2 * 8192**3 / after.item() == pytest.approx(rate, rel=1e-4)
    assert abs(found.residuals[0].after_error_frac) < 1e-4
    assert found.residuals[0].before_error_frac == pytest.approx(1 / factor - 1, rel=1e-6)


def test_the_clock_under_load_is_a_check_of_the_rate():
    load = {"shape": "8192x8192x8192", "load": "all", "statistic": "median"}
    card = Subject("gpu", "a/0")
    readings = [measured("gemm.bf16.rate", 6e14, "FLOP/s", card, **load)]
    readings.append(measured("gpu.sm_clock", 1.5e9, "Hz", card, **load))
    found = fit(readings, cluster("dgx-h100"), source="test")
    clock = next(r for r in found.residuals if r.quantity == "gpu.sm_clock")
    assert not clock.fitted
    assert clock.before == cluster("dgx-h100").node.gpu.tensor_clock_Hz
    assert clock.after == pytest.approx(clock.before * found.calibration.value("gemm.bf16.rate"))


def test_a_step_waits_for_a_card_that_is_truly_slow_and_not_for_noise():
    def rates(slow: float) -> list[Reading]:
        rng = np.random.default_rng(1)
        return [
            measured(
                "gemm.bf16.rate",
                7e14 * (slow if card == 3 else 1.0) * float(np.exp(0.01 * rng.standard_normal())),
                "FLOP/s",
                Subject("gpu", f"a/{card}"),
                restart,
                shape="8192x8192x8192",
                load="all",
            )
            for card in range(64)
            for restart in range(5)
        ]

    healthy = fit(rates(1.0), cluster("dgx-h100"), source="test").calibration.value("gemm.bf16.rate")
    slow = fit(rates(0.8), cluster("dgx-h100"), source="test").calibration.value("gemm.bf16.rate")
    level = fit(
        [measured("gemm.bf16.rate", 7e14, "FLOP/s", shape="8192x8192x8192")], cluster("dgx-h100"), source="t"
    )
    assert healthy / level.calibration.value("gemm.bf16.rate") == pytest.approx(1.0, abs=0.005)
    assert slow / healthy == pytest.approx(0.8, abs=0.02)


def test_a_generated_run_gives_back_what_it_was_made_of(tmp_path):
    layout = Layout(nodes=2, gpus=8)
    noise = Noise(restart_frac=0.005, within_frac=0.001, subject_frac=0.0)
    generate(tmp_path / "run", Wish(layout=layout, noise=noise, figures={"gemm.bf16.rate": 600e12}))
    done = calibrate([tmp_path / "run"])
    assert done.base == "dgx-h100"
    product = next(r for r in done.fit.residuals if r.quantity == "gemm.bf16.rate")
    assert product.measured == pytest.approx(600e12, rel=0.01)
    assert abs(product.after_error_frac) < 1e-3
    for line in done.fit.by_quantity:
        assert line.after_frac < 0.02 < (line.before_frac or 0)
    for factor, _ in done.fit.parameters:
        assert factor.low is not None
        assert factor.low < factor.value < (factor.high or 0)


def test_a_calibrated_cluster_file_predicts_what_the_run_itself_does(tmp_path):
    generate(tmp_path / "run", Wish(layout=Layout(nodes=2, gpus=8)))
    done = calibrate([tmp_path / "run"])
    file = tmp_path / "cluster.yaml"
    write_cluster_file(done, file)
    assert load_cluster(file).calibration == done.cluster.calibration
    from_file, from_run, from_sheet = (
        predict_step(PredictOptions(cluster=str(said), nodes=nodes, **WORKLOAD)).prediction.step_time_s.value
        for said, nodes in ((file, None), (tmp_path / "run", None), ("dgx-h100", 2))
    )
    assert from_file == from_run
    assert from_run > 1.01 * from_sheet


def test_the_file_of_a_machine_that_no_catalogue_knows_names_no_cpu(tmp_path):
    done = calibrate([TWO_CORES])
    file = tmp_path / "own.yaml"
    write_cluster_file(done, file)
    assert "cpu" not in file.read_text().partition("device:")[0]
    assert load_cluster(file).node == done.cluster.node


def test_inputs_say_which_are_measured_and_what_they_replace(tmp_path):
    generate(tmp_path / "run", Wish(layout=Layout(nodes=2, gpus=8)))
    inputs = predict_step(PredictOptions(cluster=str(tmp_path / "run"), **WORKLOAD)).inputs
    by_name = {one.name: one for one in inputs}
    peak = by_name["bf16 peak of products"]
    assert peak.origin is Origin.MEASURED
    assert "run" in peak.source
    assert peak.datasheet == cluster("dgx-h100").node.gpu.peak("bf16")
    assert peak.low < peak.value < peak.high
    assert by_name["bandwidth of a GPU inside a node"].origin is Origin.DATASHEET


def test_mfu_stays_against_the_datasheet(tmp_path):
    slow = calibration(gemm__bf16__rate=0.5)
    gpu = cluster("dgx-h100").node.gpu
    assert calibrated_gpu(gpu, slow).peak("bf16") == pytest.approx(0.5 * gpu.peak("bf16"))
    generate(tmp_path / "run", Wish(layout=Layout(nodes=2, gpus=8)))
    done = predict_step(PredictOptions(cluster=str(tmp_path / "run"), **WORKLOAD)).prediction
    assert done.mfu_frac == pytest.approx(done.model_flop_per_s / gpu.peak("bf16"))


def test_a_run_without_a_gpu_is_a_device_of_its_readings():
    found = find_cluster(str(TWO_CORES)).cluster
    assert found.gpus == 2
    assert all(one.origin is Origin.MEASURED for one in calibrate([TWO_CORES]).inputs)
    assert {r.quantity for r in calibrate([TWO_CORES]).fit.residuals if not r.fitted} >= {
        "training.step_time"
    }


def test_more_nodes_than_were_measured_need_a_network():
    with pytest.raises(InputError, match="nothing is known of a network"):
        find_cluster(str(TWO_CORES), nodes=4)


def test_a_run_is_not_held_for_another_system(tmp_path):
    generate(tmp_path / "run", Wish(layout=Layout(nodes=1, gpus=8)))
    assert find_cluster(str(tmp_path / "run"), base="hgx-h100-roce").cluster.fabric.transport.value == "roce"
    with pytest.raises(InputError, match="8 ranks to a host"):
        find_cluster(str(tmp_path / "run"), base="gb200-nvl72")


def test_other_tools_results_are_fitted_on_a_named_system(tmp_path):
    table = tmp_path / "gemm.csv"
    rates = [(4096, 600), (8192, 650), (16384, 640)]
    table.write_text("m,n,k,dtype,TFLOPS\n" + "".join(f"{s},{s},{s},bf16,{r}\n" for s, r in rates))
    done = calibrate([table], base="dgx-h100")
    assert [factor.name for factor, _ in done.fit.parameters] == ["gemm.bf16.rate"]
    missing = {"memory.bandwidth", "node.bandwidth", "network.bandwidth", "host.launch"}
    assert dict(done.fit.missing).keys() == missing
    with pytest.raises(InputError, match="which machine"):
        calibrate([table])


def test_a_factor_of_no_such_name_is_refused_with_the_nearest(tmp_path):
    with pytest.raises(InputError, match=r"node\.latency") as caught:
        Factor(name="node.latencies", value=1.0)
    assert "did you mean" in str(caught.value)
    file = tmp_path / "c.yaml"
    file.write_text(
        "schema: 1\nid: a\nname: A\nnodes: 2\nbase: dgx-h100\ncalibration:\n  source: x\n  factors:\n"
        "    gemm.bf17.rate: {value: 1.0}\n"
    )
    with pytest.raises(InputError, match="gemm") as caught:
        load_cluster(file)
    assert caught.value.where == f"{file}:9"


@settings(max_examples=30)
@given(st.sampled_from(factor_names()), st.sampled_from([0.2, 0.9, 1.1, 4.0]))
def test_every_factor_changes_what_it_names(name, value):
    c = Calibration(source="t", factors=(Factor(name=name, value=value),))
    place, kind = name.split(".")[0], name.split(".")[1]
    if place in ("gemm", "memory"):
        gpu = cluster("dgx-h100").node.gpu
        assert calibrated_gpu(gpu, c) != gpu
    elif place == "host":
        assert calibrated_physics(c).host == pytest.approx(value * calibrated_physics(None).host)
    else:
        op = "all_reduce" if kind == "latency" else kind
        ranks = 8 if place == "node" else 32
        systems = (cluster("dgx-h100"), replace(cluster("dgx-h100"), calibration=c))
        plain, real = (network_of(one).time_s(op, 2.0**20, ranks, 1).item() for one in systems)
        assert (real > plain) == ((value > 1) == (kind == "latency"))


def test_an_unmeasured_sibling_takes_the_mean_of_the_measured():
    c = calibration(gemm__bf16__rate=0.5, node__all_reduce__bandwidth=0.25, node__all_gather__bandwidth=1.0)
    assert c.like("gemm.fp8.rate") == 0.5
    assert c.like("node.all_to_all.bandwidth") == pytest.approx(0.5)
    assert c.like("network.all_reduce.bandwidth") == 1.0
