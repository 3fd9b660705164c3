"""Control groups: where the limits of this process are written."""

from __future__ import annotations

from pathlib import Path

from assay.probe.files import Roots, read


def group_directories(roots: Roots, controller: str) -> list[Path]:
    """Every directory that limits this process: its group and all above it, in both versions of cgroups.

    Version 2 has one tree at the mount; version 1 has one per controller ("cpu", "memory"). Inside a
    container the path may be the host's, and then only the mount itself is there, which is the last.
    """
    mount = roots.sys / "fs/cgroup"
    directories: list[Path] = []
    for line in (read(roots.proc / "self/cgroup").text or "").splitlines():
        names, _, path = line.partition(":")[2].partition(":")
        if names and controller not in names.split(","):
            continue
        tree = mount / controller if names else mount
        parts = [part for part in path.split("/") if part not in ("", "..")]
        directories += [tree.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]
    return directories
