from __future__ import annotations

import pathlib

import fake_sysfs
import pytest
from probing import NODE, find

from assay.probe import Roots
from assay.probe.host import read_host
from assay.probe.limits import read_limits


def test_a_healthy_machine_is_named(roots: Roots) -> None:
    facts = read_host(NODE, roots, {})
    expected = {
        "host.name": "h",
        "host.boot_id": "c3803d89-3b11-4130-9bcc-27ee2b7b9f88",
        "host.uptime": 86400.25,
        "host.product": "DGXH100",
        "host.serial": "1660224000001",
        "host.kernel": "5.15.0-105-generic",
        "host.os": "Ubuntu 22.04.4 LTS",
        "host.virtualized": "no",
        "host.container": "none",
        "memory.total": 2113512448 * 1024,
        "memory.swap_total": 0,
        "memory.cgroup_limit": 512 * 2**30,
        "memory.huge_pages": "madvise",
    }
    assert {key: find(facts, key).value for key in expected} == expected
    assert find(facts, "host.hypervisor").reason == "not virtualized"


def test_a_virtual_machine_is_known_by_flag_and_firmware(roots: Roots) -> None:
    cpuinfo = roots.proc / "cpuinfo"
    fake_sysfs.write(cpuinfo, cpuinfo.read_text().replace("fpu vme", "fpu hypervisor vme"))
    assert find(read_host(NODE, roots, {}), "host.hypervisor").value == "unnamed"
    fake_sysfs.write(roots.sys / "class/dmi/id/sys_vendor", "QEMU")
    facts = read_host(NODE, roots, {})
    assert (find(facts, "host.virtualized").value, find(facts, "host.hypervisor").value) == ("yes", "QEMU")


def test_rented_bare_metal_is_not_called_virtual(roots: Roots) -> None:
    fake_sysfs.write(roots.sys / "class/dmi/id/sys_vendor", "Amazon EC2")
    assert find(read_host(NODE, roots, {}), "host.virtualized").value == "no"


def test_arm_is_known_by_firmware_alone(roots: Roots) -> None:
    fake_sysfs.write(roots.proc / "cpuinfo", "processor : 0\nFeatures : fp asimd")
    assert find(read_host(NODE, roots, {}), "host.virtualized").value is None
    fake_sysfs.write(roots.sys / "class/dmi/id/product_name", "KVM Virtual Machine")
    assert find(read_host(NODE, roots, {}), "host.virtualized").value == "yes"


@pytest.mark.parametrize(
    ("path", "text", "environ", "expected"),
    [
        (".dockerenv", "", {}, "docker"),
        ("run/.containerenv", "", {}, "podman"),
        ("proc/1/cgroup", "12:cpu:/kubepods/besteffort/pod1", {}, "kubepods"),
        ("proc/self/mountinfo", "900 800 0:50 / / rw - overlay overlay rw,lowerdir=/a", {}, "overlay root"),
        ("etc/unrelated", "", {"SINGULARITY_CONTAINER": "/x.sif"}, "singularity"),
        ("etc/unrelated", "", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
    ],
)
def test_a_container_is_recognised(
    roots: Roots, path: str, text: str, environ: dict[str, str], expected: str
) -> None:
    fake_sysfs.write(roots.top / path, text)
    assert find(read_host(NODE, roots, environ), "host.container").value == expected


def test_a_secret_on_the_kernel_command_line_is_masked(roots: Roots) -> None:
    fake_sysfs.write(roots.proc / "cmdline", "iommu=pt install.token=abc123")
    assert find(read_host(NODE, roots, {}), "host.kernel_args").value == "iommu=pt (masked)"


def test_the_limits_of_this_process_are_read(roots: Roots) -> None:
    facts = read_limits(NODE, roots)
    assert find(facts, "limit.memlock_unlimited").value == "yes"
    assert (find(facts, "limit.memlock").value, find(facts, "limit.memlock").reason) == (None, "unlimited")
    assert find(facts, "limit.nofile").value == 1048576
    assert find(facts, "limit.nofile_unlimited").value == "no"
    assert find(facts, "limit.core_pattern").value == "|/usr/share/apport/apport %p"
    assert find(facts, "shm.nccl_files").value == 1
    free, total = find(facts, "shm.free").value, find(facts, "shm.total").value
    assert isinstance(free, int)
    assert isinstance(total, int)
    assert 0 <= free <= total


def test_a_limit_that_is_not_there_is_a_reason(roots: Roots) -> None:
    fake_sysfs.write(roots.proc / "self/limits", "Max open files  lots")
    facts = read_limits(NODE, roots)
    for key in ("limit.memlock", "limit.memlock_unlimited", "limit.nofile", "limit.nofile_unlimited"):
        fact = find(facts, key)
        assert fact.value is None
        assert fact.reason is not None
        assert "no line" in fact.reason


def test_the_topmost_missing_directory_is_named(roots: Roots) -> None:
    pathlib.Path(roots.sys / "class/dmi").rename(roots.sys / "class/dmi_hidden")
    assert find(read_host(NODE, roots, {}), "host.serial").reason == f"no {roots.sys}/class/dmi on this host"
