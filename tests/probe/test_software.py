from __future__ import annotations

from pathlib import Path

import fake_sysfs
import pytest
from probing import NODE, find

from assay.probe import Roots
from assay.probe.masking import MASK, masked
from assay.probe.software import read_software


def distribution(site: Path, name: str, version: str) -> None:
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    fake_sysfs.write(site / f"{name.replace('-', '_')}-{version}.dist-info/METADATA", metadata)


def test_versions_come_from_metadata_without_an_import(roots: Roots, tmp_path: Path) -> None:
    for name, version in (("torch", "2.3.1"), ("tensorflow-gpu", "2.9.0"), ("nvidia-nccl-cu12", "2.20.5")):
        distribution(tmp_path / "site", name, version)
    facts = read_software(NODE, roots, {}, packages=[str(tmp_path / "site")])
    assert find(facts, "software.torch.version").value == "2.3.1"
    assert find(facts, "software.tensorflow.version").value == "2.9.0"
    assert find(facts, "software.nccl.version").value == "2.20.5"
    assert find(facts, "software.jax.version").reason == "no jax in this Python"


def test_what_the_machine_brings_is_read(roots: Roots) -> None:
    facts = read_software(NODE, roots, {}, packages=[])
    expected = {
        "software.nccl_system.version": "2.21.5",
        "software.cuda_toolkit.version": "12.4.1",
        "software.nvidia_driver.version": "550.54.15",
        "software.ofed.version": "MLNX_OFED_LINUX-23.10-2.1.3.1",
        "software.nvidia_peermem_loaded": "yes",
        "software.gdrdrv_loaded": "no",
    }
    assert {key: find(facts, key).value for key in expected} == expected


def test_the_library_that_the_loader_finds_first_counts(roots: Roots, tmp_path: Path) -> None:
    fake_sysfs.write(tmp_path / "own/libnccl.so.2.18.3", "")
    (tmp_path / "own/libnccl.so.2").symlink_to("libnccl.so.2.18.3")
    facts = read_software(NODE, roots, {"LD_LIBRARY_PATH": f":{tmp_path}/own"}, packages=[])
    assert find(facts, "software.nccl_system.version").value == "2.18.3"


def test_nvcc_is_asked_where_no_version_file_is(roots: Roots, tmp_path: Path) -> None:
    (roots.top / "usr/local/cuda/version.json").unlink()
    nvcc = tmp_path / "bin/nvcc"
    fake_sysfs.write(nvcc, "#!/bin/sh\necho 'Cuda compilation tools, release 12.2, V12.2.140'")
    nvcc.chmod(0o755)
    environ = {"PATH": str(nvcc.parent)}
    assert (
        find(read_software(NODE, roots, environ, packages=[]), "software.cuda_toolkit.version").value
        == "12.2.140"
    )
    fake_sysfs.write(nvcc, "#!/bin/sh\nexit 3")
    reason = find(read_software(NODE, roots, environ, packages=[]), "software.cuda_toolkit.version").reason
    assert reason is not None
    assert "ended with 3" in reason
    assert find(read_software(NODE, roots, {}, packages=[]), "software.cuda_toolkit.version").value is None


def test_settings_of_nccl_are_read_with_their_line(roots: Roots) -> None:
    facts = read_software(NODE, roots, {}, packages=[])
    hca = find(facts, "nccl_conf.etc.NCCL_IB_HCA")
    assert (hca.value, hca.source) == ("mlx5_0,mlx5_1", f"{roots.etc}/nccl.conf:2")
    assert find(facts, "nccl_conf.etc.NCCL_DEBUG").value == "WARN"
    assert find(facts, "nccl_conf.etc.unread_lines").value == "4"
    assert find(facts, "nccl_conf.home").value is None


def test_the_users_own_settings_are_read_where_the_variable_points(roots: Roots, tmp_path: Path) -> None:
    fake_sysfs.write(tmp_path / "mine.conf", "NCCL_ALGO=Ring\nNCCL_ALGO=Tree")
    facts = read_software(NODE, roots, {"NCCL_CONF_FILE": str(tmp_path / "mine.conf")}, packages=[])
    assert find(facts, "nccl_conf.home.NCCL_ALGO").value == "Ring"


def test_variables_are_shown_and_secrets_masked(roots: Roots) -> None:
    environ = {
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_PKEY": "0x8001",
        "TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
        "GLOO_AUTH_TOKEN": "short",
        "UCX_LOG_FILE": "https://user:hunter2@logs/ucx",
        "OMP_NUM_THREADS": "4",
        "AWS_SECRET_ACCESS_KEY": "never read",
        "EDITOR": "vi",
    }
    facts = read_software(NODE, roots, environ, packages=[])
    shown = {fact.key: fact.value for fact in facts if fact.key.startswith("env.")}
    assert shown == {
        "env.NCCL_DEBUG": "INFO",
        "env.NCCL_IB_PKEY": "0x8001",
        "env.TORCH_NCCL_AVOID_RECORD_STREAMS": "1",
        "env.GLOO_AUTH_TOKEN": MASK,
        "env.UCX_LOG_FILE": MASK,
        "env.OMP_NUM_THREADS": "4",
    }


@pytest.mark.parametrize(
    "value",
    ["hf_" + "a1B2" * 8, "sk-" + "0aZ9" * 6, "AKIA" + "Q7" * 8, "d41d8cd98f00b204e9800998ecf8427e"],
)
def test_a_value_that_looks_like_a_key_is_masked(value: str) -> None:
    assert masked("NCCL_X", f"a={value}") == MASK


@pytest.mark.parametrize(
    "value",
    [
        "^mlx5_0,mlx5_3:1",
        "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        "expandable_segments:True,max_split_size_mb:512",
        "/opt/site/topologies/ndv5.xml",
        "",
    ],
)
def test_a_setting_is_not_taken_for_a_secret(value: str) -> None:
    assert masked("NCCL_X", value) == value
