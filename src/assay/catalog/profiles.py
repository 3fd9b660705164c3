"""The profiles that come with Assay: `data/profiles/<name>.toml`, each bound with its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from assay.catalog.quantities import quantity
from assay.catalog.tables import shipped_text
from assay.codec.profile import load_profile
from assay.domain.criterion import Profile
from assay.errors import unknown_name

#: The profile that needs no outside numbers: the default where the hardware is unknown.
DEFAULT = "self"


#: Floors of one system each; the first that is meant for a device is its default.
SYSTEMS = ("a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "gb200-nvl72", "mi300x")


def profile_for(devices: Iterable[str]) -> str:
    """The profile of the system that these catalogue ids of GPUs are; `self` where they are none or mixed."""
    kinds = set(devices)
    if len(kinds) == 1:
        for name in SYSTEMS:
            if kinds <= set(profiles()[name].applies_to):
                return name
    return DEFAULT


@cache
def profiles() -> Mapping[str, Profile]:
    """Every shipped profile by name."""
    folder = resources.files("assay.catalog").joinpath("data", "profiles")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    loaded = (
        load_profile(shipped_text(f"profiles/{name}"), f"profiles/{name}", quantity_of=quantity)
        for name in names
    )
    return MappingProxyType({profile.name: profile for profile in loaded})


def find_profile(name_or_file: str) -> Profile:
    """A shipped profile by name, or one from a YAML or TOML file.

    What looks like a path (it has a suffix or a separator, or exists) is read as a file.
    """
    path = Path(name_or_file)
    if name_or_file not in profiles() and (path.suffix or len(path.parts) > 1 or path.exists()):
        return load_profile(path, quantity_of=quantity)
    if name_or_file not in profiles():
        raise unknown_name("profile", name_or_file, profiles())
    return profiles()[name_or_file]
