from __future__ import annotations

import os
import shutil

import fake_sysfs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from probing import NODE, find

from assay.probe import Roots, read, steal_facts, steal_frac
from assay.probe.cpu import cpu_model, read_cpus


def stat(ticks: list[int]) -> str:
    return "cpu  " + " ".join(map(str, ticks)) + "\ncpu0 1 2 3\nbtime 1\n"


def test_a_healthy_machine_is_counted(roots: Roots) -> None:
    facts = read_cpus(NODE, roots)
    expected = {
        "cpu.model": "Intel(R) Xeon(R) Platinum 8480C",
        "cpu.sockets": 2,
        "cpu.cores": 4,
        "cpu.threads": 8,
        "cpu.numa_nodes": 2,
        "cpu.numa_balancing": "yes",
        "cpu.governor": "performance",
        "cpu.load_1min": 1.5,
        "cpu.quota_cores": 4.0,
        "cpu.effective_cores": float(min(4, len(os.sched_getaffinity(0)))),
    }
    assert {key: find(facts, key).value for key in expected} == expected


def test_the_least_quota_of_all_levels_counts(roots: Roots) -> None:
    fake_sysfs.write(roots.sys / "fs/cgroup/system.slice/cpu.max", "150000 100000")
    quota = find(read_cpus(NODE, roots), "cpu.quota_cores")
    assert quota.value == 1.5
    assert quota.source.endswith("system.slice/cpu.max")


def test_a_quota_of_version_1_is_read(roots: Roots) -> None:
    shutil.rmtree(roots.sys / "fs/cgroup")
    fake_sysfs.write(roots.proc / "self/cgroup", "4:memory:/\n1:cpu,cpuacct:/kubepods/pod1")
    # In a container the path is the host's, and the limit stands at the mount.
    fake_sysfs.write(roots.sys / "fs/cgroup/cpu/cpu.cfs_quota_us", "250000")
    fake_sysfs.write(roots.sys / "fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert find(read_cpus(NODE, roots), "cpu.quota_cores").value == 2.5


def test_no_quota_is_a_reason(roots: Roots) -> None:
    fake_sysfs.write(roots.sys / "fs/cgroup/system.slice/job_7/cpu.max", "max 100000")
    facts = read_cpus(NODE, roots)
    assert find(facts, "cpu.quota_cores").reason == "no processor quota is set in the control groups"
    assert find(facts, "cpu.effective_cores").value == len(os.sched_getaffinity(0))


def test_sockets_come_from_sysfs_where_cpuinfo_omits_them(roots: Roots) -> None:
    arm = "\n".join(f"processor\t: {i}\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n" for i in range(4))
    fake_sysfs.write(roots.proc / "cpuinfo", arm)
    for i in range(4):
        fake_sysfs.write(roots.sys / f"devices/system/cpu/cpu{i}/topology/physical_package_id", str(i // 2))
        fake_sysfs.write(roots.sys / f"devices/system/cpu/cpu{i}/topology/core_id", str(i))
    facts = read_cpus(NODE, roots)
    assert [find(facts, f"cpu.{name}").value for name in ("sockets", "cores", "threads")] == [2, 4, 4]
    assert find(facts, "cpu.model").value == "implementer 0x41 part 0xd4f"


def test_a_cpuinfo_without_a_name_is_a_reason() -> None:
    with pytest.raises(ValueError, match="no model name"):
        cpu_model("processor : 0")


columns = st.lists(st.integers(0, 10**9), min_size=8, max_size=8)


@given(columns, columns)
def test_steal_is_a_share(first: list[int], more: list[int]) -> None:
    more[0] += 20
    frac = steal_frac(stat(first), stat([a + b for a, b in zip(first, more, strict=True)]))
    assert 0 <= frac <= 1
    assert frac == pytest.approx(more[7] / sum(more))


def test_steal_needs_time_between_its_readings(roots: Roots) -> None:
    before = read(roots.proc / "stat")
    facts = steal_facts(NODE, before, before)
    assert find(facts, "cpu.steal_frac").reason == "0 ticks between the two readings, at least 20 are needed"
    assert find(facts, "cpu.steal_since_boot_frac").value == pytest.approx(0.05, rel=0.01)


@pytest.mark.parametrize("text", ["", "intr 5", "cpu 1 2 3", "cpu a b c d e f g h"])
def test_a_stat_without_steal_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        steal_frac(stat([0] * 8), text)
