from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import fake_sysfs
import pytest
from probing import find

from assay.probe import Nvml, NvmlError, Roots, sample
from assay.probe.gpu import read_gpus

Say = Callable[..., None]


def test_a_healthy_gpu_is_read_in_base_units(nvml_library: str, gpus_say: Say, roots: Roots) -> None:
    gpus_say("-1 count 2")
    facts = read_gpus("h", roots, library=nvml_library)
    assert find(facts, "gpu.count").value == 2
    assert find(facts, "gpu.driver").value == "580.00.stub"
    assert find(facts, "gpu.cuda_version").value == "12.8"
    expected = {
        "gpu.lost": "no",
        "gpu.name": "NVIDIA H100 80GB HBM3",
        "gpu.uuid": "GPU-stub-0001",
        "gpu.serial": "1650000000001",
        "gpu.pci_bus_id": "0000:1b:00.0",
        "gpu.sm_count": 132,
        "gpu.memory_total": 81559 * 2**20,
        "gpu.memory_used": 600 * 2**20,
        "gpu.ecc_enabled": "yes",
        "gpu.ecc_corrected": 0,
        "gpu.remap_pending": "no",
        "gpu.mig_enabled": "no",
        "gpu.virtualization": "none",
        "gpu.persistence": "yes",
        "gpu.compute_mode": "default",
        "gpu.power": pytest.approx(300.0),
        "gpu.power_limit": pytest.approx(700.0),
        "gpu.temperature": 45,
        "gpu.sm_clock": pytest.approx(1.98e9),
        "gpu.memory_clock_max": pytest.approx(2.619e9),
        "gpu.throttle": "none",
        "gpu.pcie_generation": 5,
        "gpu.pcie_width": 16,
        "gpu.nvlinks": 18,
        "gpu.nvlinks_up": 18,
        "gpu.nvlink_version": "4.0",
        "gpu.processes": 0,
        "gpu.foreign_pids": "none",
        "gpu.topology": "0:PXB",
        "pcie.generation_current": 5,
        "pcie.numa_node": 0,
    }
    assert {key: find(facts, key, "gpu:h/1").value for key in expected} == expected


def test_trouble_shows_in_the_facts_of_its_gpu_alone(nvml_library: str, gpus_say: Say, roots: Roots) -> None:
    lines = [
        "throttle 68",
        "ecc_unc 3",
        "rows_pending 1",
        "nvlink5 0",
        "mig 1",
        "virtualization 2",
        "pcie_width 8",
    ]
    gpus_say("-1 count 2", *(f"0 {line}" for line in lines))
    facts = read_gpus("h", roots, library=nvml_library)
    expected = {
        "gpu.throttle": ("sw_power_cap hw_thermal_slowdown", "none"),
        "gpu.ecc_uncorrected": (3, 0),
        "gpu.remap_pending": ("yes", "no"),
        "gpu.nvlinks_up": (17, 18),
        "gpu.mig_enabled": ("yes", "no"),
        "gpu.virtualization": ("vgpu", "none"),
        "gpu.pcie_width": (8, 16),
    }
    for key, (sick, well) in expected.items():
        assert (find(facts, key, "gpu:h/0").value, find(facts, key, "gpu:h/1").value) == (sick, well)


def test_a_lost_gpu_is_named_and_the_others_are_read(nvml_library: str, gpus_say: Say, roots: Roots) -> None:
    gpus_say("-1 count 3", "0 lost 1", "1 gone 1")
    facts = read_gpus("h", roots, library=nvml_library)
    for subject in ("gpu:h/0", "gpu:h/1"):
        assert find(facts, "gpu.lost", subject).value == "yes"
        uuid = find(facts, "gpu.uuid", subject)
        assert uuid.value is None
        assert uuid.reason is not None
        assert "GPU is lost (15)" in uuid.reason
    assert find(facts, "gpu.lost", "gpu:h/2").value == "no"
    assert find(facts, "gpu.uuid", "gpu:h/2").value == "GPU-stub-0002"


def test_an_old_driver_is_read_as_far_as_it_goes(old_nvml_library: str, gpus_say: Say, roots: Roots) -> None:
    gpus_say("-1 count 1", "0 throttle 4")
    facts = read_gpus("h", roots, library=old_nvml_library)
    mig = find(facts, "gpu.mig_enabled", "gpu:h/0")
    assert (mig.value, mig.reason) == (None, "driver lacks nvmlDeviceGetMigMode")
    assert find(facts, "gpu.sm_count", "gpu:h/0").reason == "driver lacks nvmlDeviceGetNumGpuCores"
    assert find(facts, "gpu.lost", "gpu:h/0").value == "no"
    assert find(facts, "gpu.name", "gpu:h/0").value == "NVIDIA H100 80GB HBM3"
    # The call that newer drivers renamed is asked by its old name.
    assert find(facts, "gpu.throttle", "gpu:h/0").value == "sw_power_cap"


def test_processes_of_others_make_a_card_shared(nvml_library: str, gpus_say: Say, roots: Roots) -> None:
    gpus_say("-1 count 2", f"0 pid0 {os.getpid()}", "0 pid1 4711", "0 pid2 815", f"1 pid0 {os.getpid()}")
    facts = read_gpus("h", roots, library=nvml_library)
    assert find(facts, "gpu.processes", "gpu:h/0").value == 3
    assert find(facts, "gpu.foreign_pids", "gpu:h/0").value == "815 4711"
    assert find(facts, "gpu.foreign_pids", "gpu:h/1").value == "none"
    ranks = read_gpus("h", roots, library=nvml_library, own_pids={os.getpid(), 815, 4711})
    assert find(ranks, "gpu.foreign_pids", "gpu:h/0").value == "none"


def test_from_inside_a_container_no_process_is_called_foreign(
    nvml_library: str, gpus_say: Say, roots: Roots
) -> None:
    (roots.proc / "self/ns/pid").unlink()
    (roots.proc / "self/ns/pid").symlink_to("pid:[4026532100]")
    gpus_say("-1 count 1", "0 pids 2")
    facts = read_gpus("h", roots, library=nvml_library)
    assert find(facts, "gpu.processes", "gpu:h/0").value == 2
    assert find(facts, "gpu.foreign_pids", "gpu:h/0").value is None


def test_more_processes_than_expected_are_all_counted(nvml_library: str, gpus_say: Say, roots: Roots) -> None:
    gpus_say("-1 count 1", "0 pids 100")
    facts = read_gpus("h", roots, library=nvml_library)
    assert find(facts, "gpu.processes", "gpu:h/0").value == 100


def test_a_gpu_without_nvlink_has_none(nvml_library: str, gpus_say: Say, roots: Roots) -> None:
    gpus_say("-1 count 1", "0 nvlinks 0")
    facts = read_gpus("h", roots, library=nvml_library)
    assert find(facts, "gpu.nvlinks", "gpu:h/0").value == 0
    assert find(facts, "gpu.nvlink_version", "gpu:h/0").value is None


def test_an_unknown_architecture_is_not_guessed_at(nvml_library: str, gpus_say: Say, roots: Roots) -> None:
    gpus_say("-1 count 1", "0 cc_major 99")
    reason = find(read_gpus("h", roots, library=nvml_library), "gpu.sm_count", "gpu:h/0").reason
    assert reason is not None
    assert "sm_990" in reason


def test_a_driver_that_refuses_to_start_is_a_reason(nvml_library: str, gpus_say: Say, roots: Roots) -> None:
    gpus_say("-1 init 18")
    count = find(read_gpus("h", roots, library=nvml_library), "gpu.count")
    assert count.value is None
    assert count.reason == "nvmlInit_v2: Unknown Error (18)"


def test_no_driver_is_a_reason(roots: Roots) -> None:
    count = find(read_gpus("h", roots, library="libnvidia-ml-of-nobody.so"), "gpu.count")
    assert (count.value, count.reason) == (None, "no libnvidia-ml-of-nobody.so on this host")


def test_a_library_that_is_broken_is_told_from_one_that_is_missing(tmp_path: Path) -> None:
    broken = tmp_path / "libnvidia-ml.so.1"
    broken.write_text("not a library")
    with pytest.raises(NvmlError, match="cannot load"):
        Nvml(str(broken))


def test_a_sample_tells_how_a_gpu_runs(nvml_library: str, gpus_say: Say) -> None:
    gpus_say("-1 count 1")
    with Nvml(nvml_library) as nvml:
        device = nvml.device(0)
        assert sample(device).reason is None
        gpus_say("-1 count 1", "0 clk_sm 1200", "0 power_mw 699500", "0 temp 87", "0 throttle 32")
        hot = sample(device)
        gpus_say("-1 count 1", "0 lost 1")
        lost = sample(device)
    assert (hot.sm_clock_Hz, hot.power_W, hot.temperature_degC) == (
        pytest.approx(1.2e9),
        pytest.approx(699.5),
        pytest.approx(87.0),
    )
    assert hot.throttle == ("sw_thermal_slowdown",)
    assert (lost.sm_clock_Hz, lost.power_W, lost.throttle) == (None, None, None)
    assert lost.reason is not None
    assert "GPU is lost" in lost.reason


@pytest.mark.parametrize("name", ["GPU-stub-0002", "stub-0002", "0000:1c:00.0", "0000:1C:00.0"])
def test_a_gpu_is_found_by_the_name_that_a_framework_gives_it(
    nvml_library: str, gpus_say: Say, name: str
) -> None:
    gpus_say("-1 count 3", "0 lost 1", "1 gone 1")
    with Nvml(nvml_library) as nvml:
        assert nvml.device_named(name).index == 2
        with pytest.raises(NvmlError, match="stub-0000"):
            nvml.device_named("GPU-stub-0000")


def test_a_lost_neighbour_leaves_the_ways_to_the_others(
    nvml_library: str, gpus_say: Say, roots: Roots
) -> None:
    gpus_say("-1 count 5", "1 lost 1")
    facts = read_gpus("h", roots, library=nvml_library)
    assert find(facts, "gpu.topology", "gpu:h/0").value == "1:unknown 2:PXB 3:PXB 4:SYS"
    assert find(facts, "gpu.topology", "gpu:h/1").value is None


def test_throttle_bits_without_a_name_are_kept(nvml_library: str, gpus_say: Say) -> None:
    gpus_say("-1 count 1", f"0 throttle {0x1004}")
    with Nvml(nvml_library) as nvml:
        assert nvml.device(0).throttle_reasons() == ("sw_power_cap", "0x1000")


def test_amd_cards_are_read_from_sysfs(top: Path, roots: Roots) -> None:
    fake_sysfs.amd_card(top, 1, "0000:2a:00.0")
    facts = read_gpus("h", roots, library="libnvidia-ml-of-nobody.so")
    assert find(facts, "gpu.count").value == 1
    expected = {
        "gpu.name": "AMD Instinct MI300X OAM",
        "gpu.memory_total": 192 * 2**30,
        "gpu.partition": "SPX",
        "gpu.power": pytest.approx(141.0),
        "gpu.temperature": pytest.approx(41.0),
        "pcie.width_current": 16,
    }
    assert {key: find(facts, key, "gpu:h/0").value for key in expected} == expected
    assert find(facts, "gpu.vbios", "gpu:h/0").value is None
