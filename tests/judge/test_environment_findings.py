"""What the environment tells: real inventories of a fabricated machine in, findings out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

import fake_sysfs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.catalog.findings import findings as kinds
from assay.catalog.messages import LANGUAGES, Texts
from assay.domain.fact import Fact
from assay.domain.finding import Finding, Severity
from assay.domain.reading import Origin, Reading
from assay.domain.subject import CLUSTER, Subject
from assay.judge.environment import environment_findings
from assay.probe import Roots, inventory

Probe = Callable[..., tuple[Fact, ...]]

NO_GPU = "libnvidia-ml-of-nobody.so"


def fact(key: str, subject: str, value: float | str | None, unit: str = "text", source: str = "s") -> Fact:
    reason = "no permission" if value is None else None
    return Fact(key=key, subject=Subject.parse(subject), value=value, unit=unit, reason=reason, source=source)


def find(facts: Iterable[Fact], *, ranks: int = 2) -> tuple[Finding, ...]:
    return environment_findings(facts, ranks=ranks)


def said(facts: Iterable[Fact], code: str, *, ranks: int = 2) -> list[tuple[str, str, str]]:
    """Subject, severity and English sentence of each finding with this code."""
    texts = Texts("en")
    return [
        (str(f.subject), f.severity.value, texts.say(f.because))
        for f in find(facts, ranks=ranks)
        if f.code == code
    ]


def grave(facts: Iterable[Fact], *, ranks: int = 2) -> list[Finding]:
    return [f for f in find(facts, ranks=ranks) if f.severity not in (Severity.LOW, Severity.INFO)]


def test_a_healthy_machine_has_nothing_that_matters(probe: Probe) -> None:
    facts = probe()
    assert grave(facts) == []
    assert {f.code for f in find(facts)} == {"NUMA_BALANCING"}


def test_a_machine_without_gpus_has_nothing_that_matters(top: Path) -> None:
    facts = inventory(host="h", roots=Roots.under(top), environ={}, packages=[], nvml_library=NO_GPU)
    fabric = ("pcie.", "port.", "nic.")
    assert grave(f for f in facts if not f.key.startswith(fabric)) == []


def test_this_machine_is_judged(nvml_library: str) -> None:
    assert {f.code for f in find(inventory(nvml_library=nvml_library), ranks=2)} <= set(kinds())


@pytest.mark.parametrize(
    ("lines", "code", "severity", "sentence"),
    [
        (["0 lost 1"], "GPU_LOST", "critical", "The driver says: nvmlDeviceGetUUID: GPU is lost (15)"),
        (["0 ecc_unc 3"], "GPU_ECC", "critical", "3 uncorrected memory errors since the driver was loaded."),
        (["0 ecc_unc 1"], "GPU_ECC", "critical", "1 uncorrected memory error since the driver was loaded."),
        (["0 rows_pending 1"], "GPU_ECC", "critical", "A row remap waits for a reset of the GPU."),
        (["0 rows_failed 1"], "GPU_ECC", "critical", "Remapping a row failed: no spare row is left."),
        (
            ["0 rows_unc 2"],
            "GPU_ECC",
            "low",
            "2 rows were remapped after uncorrected errors; the errors themselves are dealt with.",
        ),
        (
            ["0 throttle 68"],
            "GPU_THROTTLED",
            "high",
            "Reasons that the driver gives: sw_power_cap, hw_thermal_slowdown.",
        ),
        (["0 throttle 4"], "GPU_THROTTLED", "info", "Reasons that the driver gives: sw_power_cap."),
        (
            ["0 limit_mw 500000", "1 limit_mw 500000"],
            "GPU_THROTTLED",
            "medium",
            "The power limit is set to 500 W, the card's own is 700 W.",
        ),
        (["0 pid0 4711"], "GPU_SHARED", "high", "Processes that are not of this run hold the card: 4711."),
        (
            ["0 used_mib 20480"],
            "GPU_SHARED",
            "medium",
            "20 GiB of its memory were in use before the run; driver and context take less than 2 GiB.",
        ),
        (
            ["0 virtualization 2"],
            "GPU_VIRTUALISED",
            "medium",
            "The driver reports that the device is a part of a card: vgpu.",
        ),
        (
            ["0 mig 1"],
            "GPU_VIRTUALISED",
            "medium",
            "The driver reports that the device is a part of a card: MIG.",
        ),
        (
            ["0 virtualization 1", "1 virtualization 1"],
            "GPU_VIRTUALISED",
            "info",
            "The whole card is passed through to a virtual machine; its real place on the bus is hidden.",
        ),
        (["0 cores 14592"], "GPU_CUT_DOWN", "high", "114 SMs are present; NVIDIA H100 SXM 80 GB has 132."),
        (
            ["0 memory_mib 40960"],
            "GPU_CUT_DOWN",
            "high",
            "40 GiB of memory are present; NVIDIA H100 SXM 80 GB has 80 GiB.",
        ),
        (["0 nvlink5 0"], "NVLINK_DOWN", "high", "17 of 18 NVLinks are up."),
        (["0 pcie_width 8"], "PCIE_DEGRADED", "high", "8 of 16 lanes are in use."),
        (
            ["0 pcie_width 8", "0 pcie_width_max 8"],
            "PCIE_DEGRADED",
            "high",
            "8 of 16 lanes are in use.",
        ),
        (
            ["0 pcie_gen 1"],
            "PCIE_DEGRADED",
            "high",
            "The link runs at generation 1 of 5, and the card was not idle.",
        ),
    ],
)
def test_trouble_of_a_gpu_is_named(
    probe: Probe, lines: list[str], code: str, severity: str, sentence: str
) -> None:
    facts = probe(*lines)
    assert ("gpu:h/0", severity, sentence) in said(facts, code)
    assert all(found.evidence for found in find(facts))


@pytest.mark.parametrize(
    "lines",
    [
        ["0 pcie_gen 1", "0 throttle 1"],
        ["0 pcie_gen 1", "0 clk_sm 345"],
        ["0 throttle 3"],
        ["0 nvlinks 0", "1 nvlinks 0"],
        ["0 used_mib 900"],
    ],
)
def test_what_an_idle_or_bridgeless_card_shows_is_no_fault(probe: Probe, lines: list[str]) -> None:
    assert grave(probe(*lines)) == []


def test_a_slice_explains_the_sms_that_are_missing(probe: Probe) -> None:
    cut = [f for f in find(probe("0 cores 2048", "0 mig 1")) if f.code == "GPU_CUT_DOWN"]
    assert [f.follows_from for f in cut] == ["GPU_VIRTUALISED"]


def test_the_memory_of_our_own_process_is_not_held_against_the_card(probe: Probe) -> None:
    import os

    assert said(probe(f"0 pid0 {os.getpid()}", "0 used_mib 20480"), "GPU_SHARED") == []


def test_one_machine_under_two_names_is_found_by_everything_that_is_unique(probe: Probe) -> None:
    facts = (*probe(host="a"), *probe(host="b"))
    keys = {f.evidence[0].text.split()[0] for f in find(facts) if f.code == "DEVICE_DUPLICATED"}
    assert keys == {"gpu.uuid", "gpu.serial", "nic.node_guid", "host.serial", "host.boot_id"}
    uuid = said(facts, "DEVICE_DUPLICATED")[0]
    assert uuid == ("gpu:b/0", "critical", "gpu.uuid GPU-stub-0000 is given by gpu:a/0, gpu:b/0.")


@pytest.mark.parametrize(
    "serial", ["0", "N/A", "Not Specified", "0000:0000:0000:0000", "To be filled by O.E.M."]
)
def test_a_number_that_nobody_set_is_no_identity(serial: str) -> None:
    facts = [fact("host.serial", f"node:{host}", serial) for host in "ab"]
    facts += [fact("nic.node_guid", f"port:{host}/mlx5_0[1]", serial) for host in "ab"]
    assert find(facts) == ()


def test_boards_with_several_gpus_share_a_serial_number_within_a_node() -> None:
    within = [fact("gpu.serial", f"gpu:a/{i}", "1650") for i in range(2)]
    assert find(within) == ()
    assert len(find([*within, fact("gpu.serial", "gpu:b/0", "1650")])) == 1


def test_two_ports_of_one_adapter_have_one_guid() -> None:
    assert find([fact("nic.node_guid", f"port:a/mlx5_0[{i}]", "a088:1") for i in (1, 2)]) == ()


def test_ranks_on_one_gpu_are_told() -> None:
    facts = [fact("torch.device_uuid", f"rank:{i}", "GPU-1") for i in range(2)]
    assert said(facts, "DEVICE_DUPLICATED") == [("rank:1", "medium", "rank:0, rank:1 run on one GPU, GPU-1.")]


def test_the_minority_and_the_majority_of_a_difference_are_named() -> None:
    facts = [fact("gpu.driver", f"node:h{i}", "550.1" if i == 2 else "570.2") for i in range(5)]
    assert said(facts, "ENV_DIFFERS") == [
        ("node:h2", "high", "gpu.driver: 550.1 (node:h2), but 570.2 on 4 of 5.")
    ]


def test_of_two_that_differ_none_is_called_the_odd_one() -> None:
    facts = [fact("host.kernel", "node:a", "5.15"), fact("host.kernel", "node:b", "6.8")]
    assert [f.subject for f in find(facts)] == [CLUSTER]


def test_a_variable_that_one_rank_lacks_differs() -> None:
    facts = [fact("torch.backend", f"rank:{i}", "nccl") for i in range(3)]
    facts += [fact("env.NCCL_ALGO", f"rank:{i}", "Ring", source="$NCCL_ALGO") for i in range(2)]
    assert said(facts, "ENV_DIFFERS") == [
        ("rank:2", "medium", "env.NCCL_ALGO: – (rank:2), but Ring on 2 of 3.")
    ]


def test_a_package_that_one_node_lacks_differs_and_a_limit_that_could_not_be_read_does_not() -> None:
    facts = [
        fact("software.torch.version", f"node:{h}", v) for h, v in (("a", "2.5"), ("b", "2.5"), ("c", None))
    ]
    facts += [fact("limit.nofile", f"node:{h}", v, "count") for h, v in (("a", 1e6), ("b", 1e6), ("c", None))]
    assert [f.because.values[0][1] for f in find(facts)] == ["software.torch.version"]


def test_what_each_rank_has_of_its_own_does_not_differ() -> None:
    facts = [fact("env.CUDA_VISIBLE_DEVICES", f"rank:{i}", str(i)) for i in range(2)]
    facts += [fact("gpu.temperature", f"gpu:h/{i}", 40.0 + i, "degC") for i in range(2)]
    assert find(facts) == ()


def test_a_node_with_another_kind_of_card_is_told_once() -> None:
    facts = []
    for i, (name, sms) in enumerate(
        [("NVIDIA H100 80GB HBM3", 132.0)] * 3 + [("NVIDIA A100-SXM4-80GB", 108.0)]
    ):
        facts += [fact("gpu.name", f"gpu:h/{i}", name), fact("gpu.sm_count", f"gpu:h/{i}", sms, "count")]
    assert said(facts, "ENV_DIFFERS") == [
        (
            "gpu:h/3",
            "high",
            "gpu.name: NVIDIA A100-SXM4-80GB (gpu:h/3), but NVIDIA H100 80GB HBM3 on 3 of 4.",
        )
    ]
    assert len(find(facts)) == 1


def test_firmware_is_compared_among_adapters_of_one_kind() -> None:
    facts = []
    for i, (board, firmware) in enumerate(
        [("cx7", "28.1"), ("cx7", "28.1"), ("cx7", "28.0"), ("bf3", "32.4")]
    ):
        facts += [
            fact("nic.board_id", f"port:h/mlx5_{i}[1]", board),
            fact("nic.fw_ver", f"port:h/mlx5_{i}[1]", firmware),
        ]
    assert [str(f.subject) for f in find(facts)] == ["port:h/mlx5_2[1]"]


def test_a_port_that_is_down_or_slow_is_a_fault_where_its_siblings_are_not(top: Path, probe: Probe) -> None:
    for i in range(2, 4):
        fake_sysfs.adapter(top, i)
    port = top / "sys/class/infiniband"
    fake_sysfs.write(port / "mlx5_1/ports/1/state", "1: DOWN")
    fake_sysfs.write(port / "mlx5_1/ports/1/phys_state", "3: Disabled")
    fake_sysfs.write(port / "mlx5_2/ports/1/rate", "200 Gb/sec (4X HDR)")
    fake_sysfs.write(port / "mlx5_0/ports/1/counters/symbol_error", "65535")
    assert said(probe(), "NIC_DEGRADED")[:3] == [
        ("port:h/mlx5_1[1]", "high", "The port is DOWN (Disabled); 3 of 4 ports like it are active."),
        ("port:h/mlx5_2[1]", "high", "The port runs at 25 GB/s, its siblings at 50 GB/s."),
        (
            "port:h/mlx5_0[1]",
            "medium",
            "Counters stand at their largest value, so the truth is higher: symbol_error.",
        ),
    ]


def test_ports_that_nobody_cabled_are_mentioned_only() -> None:
    facts = [fact("port.state", f"port:h/mlx5_{i}[1]", "ACTIVE") for i in range(2)]
    facts += [fact("port.state", f"port:h/mlx5_{i}[2]", "DOWN") for i in range(2)]
    assert [(str(f.subject), f.severity) for f in find(facts)] == [
        ("port:h/mlx5_0[2]", Severity.LOW),
        ("port:h/mlx5_1[2]", Severity.LOW),
    ]


def test_a_slot_that_is_slower_than_its_port_is_a_fault(top: Path, probe: Probe) -> None:
    fake_sysfs.write(top / "sys/devices/pci0000:00/0000:40:00.0/current_link_speed", "16.0 GT/s PCIe")
    assert said(probe(), "PCIE_DEGRADED") == [
        ("port:h/mlx5_0[1]", "high", "The slot carries 31.5 GB/s, less than the 50 GB/s of the port.")
    ]


def test_limits_that_stop_rdma_are_named(top: Path, probe: Probe) -> None:
    limits = fake_sysfs.LIMITS.replace("unlimited            unlimited            bytes", "65536 65536 bytes")
    fake_sysfs.write(
        top / "proc/self/limits", limits.replace("1048576              1048576 ", "1024 1048576 ")
    )
    assert said(probe(), "LIMIT_LOW") == [
        (
            "node:h",
            "medium",
            "Locked memory is limited to 64 KiB; RDMA pins its buffers and needs it unlimited.",
        ),
        ("node:h", "medium", "1,024 files may be open at once; images for HPC allow 65,535."),
    ]


def test_what_most_nodes_have_alike_is_told_once() -> None:
    facts = [fact("shm.total", f"node:h{i}", 64.0 * 2**20 if i else 8.0 * 2**30, "B") for i in range(6)]
    (found,) = find(facts)
    assert found.subject == CLUSTER
    assert found.evidence[-1].text == "the same on 5 of 6 (node)"
    assert len(find(facts[:4])) == 3


def test_a_small_shared_memory_matters_where_there_are_gpus() -> None:
    facts = [fact("shm.total", "node:h", 64.0 * 2**20, "B")]
    assert [f.severity for f in find(facts)] == [Severity.LOW]
    facts.append(fact("gpu.count", "node:h", 8.0, "count"))
    assert said(facts, "LIMIT_LOW") == [
        ("node:h", "medium", "/dev/shm holds 64 MiB; 1 GiB are advised for NCCL and data loaders.")
    ]


def test_files_of_dead_jobs_matter_when_no_room_is_left() -> None:
    facts = [
        fact("shm.total", "node:h", 8.0 * 2**30, "B"),
        fact("shm.free", "node:h", 64.0 * 2**20, "B"),
        fact("shm.nccl_files", "node:h", 12.0, "count"),
    ]
    assert [f.code for f in find(facts)] == ["LIMIT_LOW"]


@pytest.mark.parametrize(
    ("now", "boot", "severity"),
    [
        (0.02, 0.03, Severity.MEDIUM),
        (0.02, 0.001, Severity.LOW),
        (0.2, 0.001, Severity.MEDIUM),
        (None, 0.05, Severity.LOW),
        (0.009, 0.009, None),
    ],
)
def test_stolen_time_counts_when_it_lasts(now: float | None, boot: float, severity: Severity | None) -> None:
    facts = [
        fact("cpu.steal_frac", "node:h", now, "1"),
        fact("cpu.steal_since_boot_frac", "node:h", boot, "1"),
    ]
    assert [f.severity for f in find(facts)] == ([severity] if severity else [])


@pytest.mark.parametrize(("ranks", "crowded"), [(2, False), (3, True)])
def test_more_ranks_than_cores_are_crowded_unless_gpus_do_the_work(ranks: int, crowded: bool) -> None:
    facts = [fact("host.name", "node:h", "h")]
    facts += [fact("cpu.affinity_list", f"rank:{i}", "0-1") for i in range(ranks)]
    assert bool(said(facts, "CPU_OVERSUBSCRIBED", ranks=ranks)) is crowded
    facts.append(fact("gpu.count", "node:h", 1.0, "count"))
    assert said(facts, "CPU_OVERSUBSCRIBED", ranks=ranks) == []


def test_ranks_bound_to_cores_of_their_own_are_not_crowded() -> None:
    facts = [fact("host.name", "node:h", "h")]
    facts += [fact("cpu.affinity_list", f"rank:{i}", str(i)) for i in range(4)]
    assert said(facts, "CPU_OVERSUBSCRIBED", ranks=4) == []


def test_a_program_that_is_missing_is_named_once() -> None:
    lost = Reading(
        quantity="storage.random_read_4k.iops",
        subject=Subject("node", "h"),
        origin=Origin.MEASURED,
        value=None,
        unit="1/s",
        reason="fio is not installed (package fio)",
    )
    other = dataclasses.replace(lost, quantity="storage.sequential_read.bandwidth", unit="B/s")
    (found,) = environment_findings((), ranks=1, readings=(lost, other))
    assert (found.code, found.severity) == ("TOOL_MISSING", Severity.INFO)
    assert Texts("en").say(found.because) == "fio is not installed; the package is fio."


def test_evidence_of_a_setting_names_file_and_line() -> None:
    facts = [
        fact("nccl_conf.etc.NCCL_ALGO", f"node:{host}", value, source="/etc/nccl.conf:7")
        for host, value in (("a", "Ring"), ("b", "Ring"), ("c", "Tree"))
    ]
    (found,) = find(facts)
    assert (found.evidence[0].file, found.evidence[0].line) == ("/etc/nccl.conf", 7)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_finding_has_words_that_are_filled_in(lang: str, top: Path, probe: Probe) -> None:
    fake_sysfs.write(top / "sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN")
    lines = ["0 lost 1", "1 ecc_unc 3", "1 mig 1", "1 cores 1280", "1 throttle 64", "1 pcie_width 4"]
    found = find((*probe(*lines, host="a"), *probe("1 pid0 7", "1 nvlink2 0", host="b")))
    assert len({f.code for f in found}) > 8
    for one in found:
        assert one.code in kinds()
        text = Texts(lang).say(one.because)
        assert "{" not in text
        assert "because." not in text


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["gpu.name", "gpu.driver", "gpu.throttle", "gpu.uuid", "port.state", "env.NCCL_ALGO"]
            ),
            st.sampled_from(["gpu:h/0", "gpu:h/1", "node:h", "port:h/x[1]", "rank:0"]),
            st.none() | st.text(max_size=8),
        ),
        max_size=12,
    )
)
def test_no_text_of_any_fact_raises(said_by: list[tuple[str, str, str | None]]) -> None:
    find([fact(key, subject, value) for key, subject, value in said_by])
