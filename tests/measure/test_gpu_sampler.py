"""Clock, power and temperature beside a rate, through the stand-in for the driver's library."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "testbed"))

from compile_nvml import compile_nvml

from assay.measure.context import Context
from assay.measure.gpu_sampler import link_facts, watched
from assay.measure.transport import over_nvlink, sent_by
from assay.probe.nvml import Nvml, NvmlError
from assay.store.append import LineFile, SampleFile


@pytest.fixture
def context(tmp_path):
    return Context(
        run="test",
        folder=str(tmp_path),
        scratch=str(tmp_path),
        benchmark="gemm",
        replicate=0,
        rank=0,
        numbers=(0,),
        local_rank=0,
        hosts=("h0",),
        device="cuda:0",
        backend="nccl",
        seed=1,
        command_time_s=0.0,
        launched_s=0.0,
        deadline_s=time.time() + 60,
        settings={},
        units={},
        crowded=None,
        lines=LineFile(tmp_path / "rank-0000.jsonl"),
        samples=SampleFile(tmp_path / "s.f64", "samples"),
    )


def lines(tmp_path):
    import json

    return [json.loads(line) for line in (tmp_path / "rank-0000.jsonl").read_text().splitlines()]


def test_a_throttled_card_is_seen_while_it_works(context, tmp_path, monkeypatch):
    (tmp_path / "state").write_text(
        "-1 count 1\n0 clk_sm 1410\n0 power_mw 399000\n0 temp 88\n0 throttle 64\n"
    )
    monkeypatch.setenv("NVML_STUB", str(tmp_path / "state"))
    with Nvml(compile_nvml(tmp_path)) as nvml:
        device = nvml.device(0)
        with watched(device) as sampler:
            while len(sampler.samples) < 3:
                sum(range(1000))
        sampler.record(context, {"shape": "8192x8192x8192", "load": "all"})
        link_facts(context, device)
    found = {line["quantity"]: line for line in lines(tmp_path) if line["type"] == "reading"}
    assert found["gpu.sm_clock"]["value"] == 1.41e9
    assert found["gpu.power"]["value"] == 399.0
    assert found["gpu.temperature"]["value"] == 88.0
    assert found["gpu.sm_clock"]["subject"] == "gpu:h0/0"
    assert found["gpu.sm_clock"]["n"] >= 3
    throttled = [line for line in lines(tmp_path) if line.get("kind") == "throttled"]
    assert throttled
    assert {line["key"] for line in lines(tmp_path) if line["type"] == "fact"} == {
        "gpu.pcie_generation_under_load",
        "gpu.pcie_width_under_load",
    }


def test_bytes_over_nvlink_as_the_driver_counts_them(tmp_path, monkeypatch):
    said = ("-1 count 4", "0 nvlink_sent_KiB 5000000000", "1 nvlinks 0", "2 nvlink_leads_to 0", "3 nvlink0 0")
    (tmp_path / "state").write_text("\n".join(said) + "\n")
    monkeypatch.setenv("NVML_STUB", str(tmp_path / "state"))
    with Nvml(compile_nvml(tmp_path)) as nvml:
        sent = [sent_by(nvml.device(i)) for i in range(4)]
        with pytest.raises(NvmlError, match="no count of NVLink bytes"):
            nvml.device(1).nvlink_sent_bytes()
    assert sent[0] == ("nvlink", 5_000_000_000 * 1024)
    assert sent[1] == "the card has no NVLink that is up"
    assert sent[2] == ("nvlink_pair", 0)
    assert sent[3] == ("nvlink", 0)  # one link of eighteen is down


def test_a_count_of_nvlink_that_goes_back_is_not_known():
    back = over_nvlink("gpu:h0/0", ("nvlink", 900), ("nvlink", 100))
    assert (back.bytes, back.reason) == (
        None,
        "the counter went back from 900 to 100: it wrapped, or was reset",
    )
    lacking = over_nvlink("gpu:h0/0", "driver lacks it", ("nvlink", 100))
    assert (lacking.bytes, lacking.reason) == (None, "driver lacks it")
    assert over_nvlink("gpu:h0/0", ("nvlink", 100), ("nvlink", 900)).bytes == 800
