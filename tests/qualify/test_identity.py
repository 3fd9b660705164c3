"""Readings that rest on facts: identities, versions, nominal peaks, and what datasheets promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import fake_sysfs
import pytest

from assay.catalog.devices import gpu, sources
from assay.catalog.profiles import find_profile
from assay.catalog.quantities import quantity
from assay.domain.fact import Fact
from assay.domain.quantity import SUBJECTS_OF
from assay.domain.reading import ABSENT, Origin, Reading
from assay.domain.subject import CLUSTER, Subject
from assay.domain.verdict import Verdict
from assay.judge.families import gather
from assay.judge.verdicts import judge
from assay.probe import Roots, inventory
from assay.qualify.identity import datasheet_readings, readings_from_facts

Probe = Callable[..., tuple[Fact, ...]]

NO_GPU = "libnvidia-ml-of-nobody.so"
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"


def fact(key: str, subject: str, value: float | str | None, unit: str = "text", reason: str = "") -> Fact:
    return Fact(
        key=key, subject=Subject.parse(subject), value=value, unit=unit, reason=reason or None, source="s"
    )


def one(readings: Iterable[Reading], quantity_id: str, subject: str) -> Reading:
    [reading] = [r for r in readings if r.quantity == quantity_id and str(r.subject) == subject]
    return reading


def test_every_reading_is_of_a_quantity_its_unit_and_scope_and_stands_once(probe: Probe) -> None:
    readings = readings_from_facts(probe("0 lost 1"))
    names = [(r.quantity, r.subject) for r in readings]
    assert len(names) == len(set(names))
    for reading in readings:
        known = quantity(reading.quantity)
        assert known.exact
        assert known.unit == reading.unit
        assert reading.subject.kind in SUBJECTS_OF[known.scope]
        assert reading.origin is Origin.MEASURED


def test_a_healthy_node_says_what_it_is(probe: Probe) -> None:
    readings = readings_from_facts(probe())
    assert one(readings, "gpu.name", "gpu:h/1").value == H100
    assert one(readings, "gpu.count", "node:h").value == 2
    assert one(readings, "gpu.nominal_peak.bf16", "gpu:h/0").value == gpu("h100").peak("bf16")
    assert one(readings, "interconnect.nvlink_version", "gpu:h/0").value == 4.0
    rdma = one(readings, "interconnect.rdma", "node:h")
    assert rdma.value == "mlx5_0[1] InfiniBand, mlx5_1[1] InfiniBand"
    assert one(readings, "software.cuda_toolkit.version", "node:h").value == "12.4.1"


def test_software_that_is_not_there_is_absent_and_what_cannot_be_read_is_not(top: Path) -> None:
    roots = Roots.under(top)
    fake_sysfs.write(top / "usr/local/cuda/version.json", "{}")
    facts = inventory(host="h", roots=roots, environ={}, packages=[], nvml_library=NO_GPU)
    readings = readings_from_facts(facts)
    for name in ("torch", "tensorflow", "rocm", "nccl"):
        assert one(readings, f"software.{name}.version", "node:h").value == ABSENT
    unread = one(readings, "software.cuda_toolkit.version", "node:h")
    assert unread.value in (None, ABSENT)
    secret = [
        fact("software.ofed.version", "node:h", None, reason="no permission to read /usr/bin/ofed_info")
    ]
    (hidden,) = readings_from_facts(secret)
    assert (hidden.value, hidden.reason) == (None, "no permission to read /usr/bin/ofed_info")


def test_nominal_peaks_shrink_with_the_sms_that_are_missing(probe: Probe) -> None:
    readings = readings_from_facts(probe(f"0 cores {66 * 128}"))
    peak = gpu("h100").peak("fp16")
    assert peak is not None
    assert one(readings, "gpu.nominal_peak.fp16", "gpu:h/0").value == pytest.approx(peak / 2)
    assert one(readings, "gpu.nominal_peak.fp16", "gpu:h/1").value == peak


def test_a_peak_that_cannot_be_known_says_why() -> None:
    facts = [
        fact("gpu.name", "gpu:h/0", "Graphics Device"),
        fact("gpu.name", "gpu:h/1", H100),
        fact("gpu.sm_count", "gpu:h/1", None, "count", reason="driver lacks nvmlDeviceGetNumGpuCores"),
        fact("gpu.name", "gpu:h/2", A100),
        fact("gpu.sm_count", "gpu:h/2", 108.0, "count"),
    ]
    readings = readings_from_facts(facts)
    unknown = one(readings, "gpu.nominal_peak.<dtype>", "gpu:h/0")
    assert unknown.value is None
    assert "Graphics Device" in str(unknown.reason)
    assert "driver lacks" in str(one(readings, "gpu.nominal_peak.fp16", "gpu:h/1").reason)
    assert "no fp8 unit" in str(one(readings, "gpu.nominal_peak.fp8", "gpu:h/2").reason)


def test_a_card_without_nvlink_has_generation_zero_and_an_unknown_one_none() -> None:
    facts = [
        fact("gpu.nvlinks", "gpu:h/0", 0.0, "count"),
        fact("gpu.nvlink_version", "gpu:h/0", None, reason="not supported"),
        fact("gpu.nvlinks", "gpu:h/1", 18.0, "count"),
        fact("gpu.nvlink_version", "gpu:h/1", "unknown (9)"),
    ]
    readings = readings_from_facts(facts)
    assert one(readings, "interconnect.nvlink_version", "gpu:h/0").value == 0
    assert one(readings, "interconnect.nvlink_version", "gpu:h/1").value is None


@pytest.mark.parametrize(
    ("state", "layer", "value"),
    [
        ("ACTIVE", "Ethernet", "mlx5_0[1] RoCE"),
        ("ACTIVE", "InfiniBand", "mlx5_0[1] InfiniBand"),
        ("DOWN", "InfiniBand", ABSENT),
    ],
)
def test_rdma_is_an_active_port(state: str, layer: str, value: str) -> None:
    facts = [
        fact("nic.rdma_adapters", "node:h", 1.0, "count"),
        fact("port.state", "port:h/mlx5_0[1]", state),
        fact("port.link_layer", "port:h/mlx5_0[1]", layer),
    ]
    assert one(readings_from_facts(facts), "interconnect.rdma", "node:h").value == value


def test_rdma_whose_state_is_hidden_is_unknown() -> None:
    facts = [
        fact("nic.rdma_adapters", "node:h", 1.0, "count"),
        fact("port.state", "port:h/mlx5_0[1]", None, reason="no permission to read state"),
    ]
    rdma = one(readings_from_facts(facts), "interconnect.rdma", "node:h")
    assert (rdma.value, rdma.reason) == (None, "no permission to read state")


def test_what_facts_state_themselves_is_not_derived_again() -> None:
    facts = [
        fact("interconnect.rdma", "node:h", "active"),
        fact("nic.rdma_adapters", "node:h", 0.0, "count"),
    ]
    assert [r.value for r in readings_from_facts(facts)] == ["active"]


def test_of_facts_about_one_thing_the_first_that_is_known_counts() -> None:
    facts = [
        fact("gpu.count", "node:h", None, "count", reason="r"),
        fact("gpu.count", "node:h", 8.0, "count"),
    ]
    assert [r.value for r in readings_from_facts(facts)] == [8.0]


def test_datasheets_of_one_kind_of_card_hold_for_the_cluster(probe: Probe) -> None:
    h100 = gpu("h100")
    sheet = {r.quantity: r for r in datasheet_readings(probe())}
    assert {r.subject for r in sheet.values()} == {CLUSTER}
    assert {r.origin for r in sheet.values()} == {Origin.DATASHEET}
    assert sheet["gemm.bf16.rate"].value == h100.peak("bf16")
    assert sheet["memory.copy.bandwidth"].value == h100.memory_Bps
    assert sheet["peer.bandwidth"].value == pytest.approx(450e9)
    assert sheet["host_device.h2d.bandwidth"].value == pytest.approx(16 * 32e9 * 128 / 130 / 8)
    assert "h100-sxm" in sheet["gemm.bf16.rate"].source
    assert any(document.title in sheet["gemm.bf16.rate"].source for document in sources().values())


def test_datasheets_of_mixed_cards_hold_for_each_card() -> None:
    facts = [
        fact("gpu.name", "gpu:h/0", H100),
        fact("gpu.name", "gpu:h/1", A100),
        fact("gpu.name", "gpu:h/2", "?"),
    ]
    readings = datasheet_readings(facts)
    assert one(readings, "gemm.bf16.rate", "gpu:h/1").value == gpu("a100-sxm-80gb").peak("bf16")
    assert {str(r.subject) for r in readings} == {"gpu:h/0", "gpu:h/1"}
    assert not any(r.quantity.startswith("peer.") for r in readings)


def test_a_pair_in_a_mesh_has_one_link() -> None:
    facts = [fact("gpu.name", f"gpu:h/{i}", "AMD Instinct MI300X") for i in range(8)]
    sheet = {r.quantity: r.value for r in datasheet_readings(facts)}
    assert sheet["peer.bandwidth"] == pytest.approx(64e9)


def test_a_machine_without_gpus_has_no_datasheet() -> None:
    assert datasheet_readings([fact("gpu.count", "node:h", None, "count", reason="no driver")]) == ()


def test_a_profile_judges_what_a_card_is_by_these_readings(probe: Probe) -> None:
    profile = find_profile("rental-guide-attainable")
    judged = judge(profile, gather(readings_from_facts(probe()), quantity), quantity)
    verdicts = {(j.criterion.quantity, j.verdict) for j in judged.judgements}
    assert ("gpu.nominal_peak.fp16", Verdict.PASS) in verdicts
    assert ("interconnect.nvlink_version", Verdict.PASS) in verdicts
    assert ("interconnect.rdma", Verdict.PASS) in verdicts
    assert ("software.torch.version", Verdict.FAIL) in verdicts
