"""Versions of what training runs on, and the settings that NCCL and its kin read; nothing is imported."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.probe.command import run
from assay.probe.fact import Fact, known, missing
from assay.probe.files import Roots, entries, file_fact, read, short, text_fact
from assay.probe.masking import masked

#: What people call it, and the distributions that bring it.
_PACKAGES: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-rocm"),
    "jax": ("jax",),
    "mxnet": ("mxnet", "mxnet-cu112", "mxnet-cu110", "mxnet-cu102", "mxnet-mkl"),
    "paddlepaddle": ("paddlepaddle", "paddlepaddle-gpu"),
    "horovod": ("horovod",),
    "deepspeed": ("deepspeed",),
    "megatron_core": ("megatron-core",),
    "transformer_engine": ("transformer-engine",),
    "flash_attn": ("flash-attn", "flash-attn-3"),
    "numpy": ("numpy",),
}
_NCCL_PACKAGES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")

_PREFIXES = (
    *("NCCL_", "RCCL_", "GLOO_", "UCX_", "FI_", "SHARP_", "NVSHMEM_"),
    *("TORCH_", "PYTORCH_", "CUDA_", "HSA_", "HIP_", "ROCR_"),
    *("OMP_", "MKL_", "KMP_"),
)
_MORE_VARIABLES = ("LD_PRELOAD", "LD_LIBRARY_PATH")

_LIBRARY_DIRECTORIES = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/local/lib",
    "usr/local/cuda/lib64",
    "usr/local/nccl/lib",
    "opt/rocm/lib",
)


def read_software(
    node: str, roots: Roots, environ: Mapping[str, str], *, packages: Sequence[str] | None = None
) -> tuple[Fact, ...]:
    """Frameworks, NCCL, CUDA, drivers, variables and nccl.conf; `packages` replaces Python's search path."""
    return (
        known(node, "software.python.version", platform.python_version(), "text", "platform"),
        *(_package(node, name, found, packages) for name, found in _PACKAGES.items()),
        _package(node, "nccl", _NCCL_PACKAGES, packages),
        _system_nccl(node, roots, environ),
        _cuda_toolkit(node, roots, environ),
        file_fact(node, "software.rocm.version", roots.top / "opt/rocm/.info/version"),
        file_fact(node, "software.nvidia_driver.version", roots.sys / "module/nvidia/version"),
        file_fact(node, "software.amdgpu_driver.version", roots.sys / "module/amdgpu/version"),
        file_fact(node, "software.mlx5_driver.version", roots.sys / "module/mlx5_core/version"),
        _ofed(node, roots),
        _module(node, roots, "nvidia_peermem"),
        _module(node, roots, "gdrdrv"),
        *_variables(node, environ),
        *_nccl_conf(node, "etc", roots.etc / "nccl.conf"),
        *_nccl_conf(node, "home", Path(environ.get("NCCL_CONF_FILE") or roots.home / ".nccl.conf")),
    )


def _package(node: str, name: str, distributions: Sequence[str], packages: Sequence[str] | None) -> Fact:
    # Imported here because it costs as much time as the rest of this room.
    from importlib.metadata import Distribution

    key = f"software.{name}.version"
    search = list(sys.path if packages is None else packages)
    for distribution in distributions:
        for found in Distribution.discover(name=distribution, path=search):
            version = found.metadata["Version"]
            if version:
                return known(node, key, version, "text", f"metadata of {distribution}")
    return missing(node, key, "text", f"no {' or '.join(distributions)} in this Python", "importlib.metadata")


def _system_nccl(node: str, roots: Roots, environ: Mapping[str, str]) -> Fact:
    """The version in the file name of the NCCL or RCCL that the loader would find outside of Python."""
    key, source = "software.nccl_system.version", "library directories"
    directories = [Path(part) for part in environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    directories += [roots.top / part for part in _LIBRARY_DIRECTORIES]
    for directory in directories:
        for name in ("libnccl.so.2", "librccl.so.1"):
            if os.path.exists(directory / name):
                target = os.path.realpath(directory / name)
                return known(node, key, os.path.basename(target).partition(".so.")[2], "text", target)
    return missing(node, key, "text", "no libnccl.so.2 or librccl.so.1 in the library directories", source)


def _cuda_toolkit(node: str, roots: Roots, environ: Mapping[str, str]) -> Fact:
    """From the toolkit's version file, else from the nvcc on the path."""
    key = "software.cuda_toolkit.version"
    home = Path(environ.get("CUDA_HOME") or roots.top / "usr/local/cuda")
    fact = file_fact(node, key, home / "version.json", parse=_cuda_version)
    if fact.value is not None:
        return fact
    nvcc = shutil.which("nvcc", path=environ.get("PATH", ""))
    if nvcc is None:
        return missing(node, key, "text", f"no {home}/version.json and no nvcc on the path", fact.source)
    return text_fact(node, key, run([nvcc, "--version"]), parse=_nvcc_version)


def _cuda_version(text: str) -> str:
    try:
        return str(json.loads(text)["cuda"]["version"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("version.json has no cuda.version") from None


def _nvcc_version(text: str) -> str:
    match = re.search(r"release [\d.]+, V([\d.]+)", text)
    if match is None:
        raise ValueError(f"nvcc prints {short(text)!r}, which has no release")
    return match[1]


def _ofed(node: str, roots: Roots) -> Fact:
    """The name that the vendor's stack writes into its own ofed_info script."""
    return file_fact(node, "software.ofed.version", roots.top / "usr/bin/ofed_info", parse=_ofed_version)


def _ofed_version(text: str) -> str:
    match = re.search(r"(?:MLNX_OFED_LINUX|OFED-internal|DOCA_OFED|OFED)-[\w.-]*\d", text)
    if match is None:
        raise ValueError("ofed_info names no version")
    return match[0]


def _module(node: str, roots: Roots, name: str) -> Fact:
    modules, key = roots.sys / "module", f"software.{name}_loaded"
    if not entries(modules):
        return missing(node, key, "text", f"no {modules} on this host", str(modules))
    return known(node, key, os.path.isdir(modules / name), "text", str(modules / name))


def _variables(node: str, environ: Mapping[str, str]) -> list[Fact]:
    names = sorted(n for n in environ if n.startswith(_PREFIXES) or n in _MORE_VARIABLES)
    return [known(node, f"env.{name}", masked(name, environ[name]), "text", f"${name}") for name in names]


def _nccl_conf(node: str, place: str, path: Path) -> list[Fact]:
    """One fact per setting of the file, one for the file itself, and one for lines that are no setting."""
    source = read(path)
    key = f"nccl_conf.{place}"
    if source.text is None:
        return [missing(node, key, "text", source.reason or "not read", str(path))]
    facts: dict[str, Fact] = {}
    unread = []
    for number, line in enumerate(source.text.splitlines(), start=1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if name and equals:
            where = f"{path}:{number}"
            # NCCL keeps the first value that a variable was given.
            facts.setdefault(name, known(node, f"{key}.{name}", masked(name, value), "text", where))
        elif name and not name.startswith("#"):
            unread.append(str(number))
    facts_of_file = [known(node, key, f"{len(facts)} settings", "text", str(path))]
    if unread:
        facts_of_file.append(known(node, f"{key}.unread_lines", " ".join(unread), "text", str(path)))
    return facts_of_file + list(facts.values())
