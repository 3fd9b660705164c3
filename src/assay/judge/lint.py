"""A profile against physics: what no device can reach, what means nothing, what is far too low.

Published threshold tables are wrong by factors of 1.8 to 1,000 often enough that a profile is checked
before it is used: a floor above what the chip or its links can do is an error, with the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from assay.catalog.devices import pcie
from assay.domain.criterion import Criterion, Op, Profile
from assay.domain.device import Gpu
from assay.domain.message import Message
from assay.domain.quantity import Better, Quantity
from assay.domain.recipe import Recipe
from assay.errors import InputError
from assay.units import show

#: A floor below this share of the ceiling passes devices that are badly broken.
LOW_FRAC = 0.5
#: No healthy device is known to sustain more of its dense peak than this by a GEMM: the best published
#: share is 97 % (Gaudi 2), NVIDIA GPUs reach 73–94 % (docs/profiles.md lists them).
ATTAINABLE_FRAC = 0.97
#: Direct links that connect every accelerator of a board to every other by one link, without a switch.
_MESHES = ("xgmi", "hccs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What physics allows: a value in the quantity's unit, and how it is worked out."""

    value: float
    arithmetic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """One thing that is wrong with a criterion; an error forbids the profile, a warning is shown."""

    criterion: Criterion
    is_error: bool
    message: Message


def lint_profile(
    profile: Profile, quantity_of: Callable[[str], Quantity], gpus: Iterable[Gpu]
) -> tuple[Complaint, ...]:
    """Every complaint about `profile`; `gpus` are the devices that it applies to."""
    devices = tuple(gpus)
    return tuple(
        complaint
        for criterion in profile.criteria
        for complaint in _lint(criterion, quantity_of(criterion.quantity), devices)
    )


def require_sound(profile: Profile, complaints: Iterable[Complaint], say: Callable[[Message], str]) -> None:
    """Refuse a profile that asks for the impossible."""
    errors = [c for c in complaints if c.is_error]
    if errors:
        first = errors[0]
        raise InputError(
            f"profile {profile.name!r}, criterion {first.criterion.id!r}: {say(first.message)}"
            + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""),
            where=first.criterion.where or profile.where or None,
            fix="correct the bound, or the device and recipe that it is meant for",
        )


def _lint(criterion: Criterion, quantity: Quantity, gpus: tuple[Gpu, ...]) -> list[Complaint]:
    complaints = []
    unstated = quantity.unstated(criterion.recipe)
    if (
        unstated
        and "<" not in criterion.quantity
        and criterion.bound is not None
        and criterion.op is not Op.UNIFORM
    ):
        complaints.append(_complain(criterion, "lint.recipe_unstated", False, names=", ".join(unstated)))
    wrong_way = {Op.AT_LEAST: Better.LOWER, Op.AT_MOST: Better.HIGHER}.get(criterion.op)
    if wrong_way is quantity.better:
        complaints.append(
            _complain(criterion, "lint.wrong_way", False, op=criterion.op.value, better=quantity.better.value)
        )
    if criterion.op is Op.AT_LEAST and criterion.bound is not None and criterion.of is None:
        for gpu in gpus:
            complaints += _against(criterion, criterion.bound, gpu)
    return complaints


def _against(criterion: Criterion, floor: float, gpu: Gpu) -> list[Complaint]:
    ceiling = ceiling_of(criterion.quantity, criterion.recipe, gpu)
    if ceiling is None:
        return []
    values: dict[str, str | float] = {
        "floor": show(floor, criterion.unit),
        "ceiling": show(ceiling.value, criterion.unit),
        "arithmetic": ceiling.arithmetic,
        "device": gpu.id,
        "share_frac": floor / ceiling.value,
    }
    if floor > ceiling.value * 1.000001:
        return [_complain(criterion, "lint.impossible", True, **values)]
    if criterion.quantity.startswith("gemm.") and floor > ceiling.value * ATTAINABLE_FRAC:
        return [_complain(criterion, "lint.unattainable", False, **values)]
    if floor < ceiling.value * LOW_FRAC:
        return [_complain(criterion, "lint.far_below", False, **values)]
    return []


def ceiling_of(quantity_id: str, recipe: Recipe, gpu: Gpu) -> Ceiling | None:
    """The most that a device of this kind can do for a quantity by a recipe, or None where unknown."""
    parts = quantity_id.split(".")
    if quantity_id.startswith("gpu.nominal_peak.") or (
        parts[0] == "gemm" and parts[2] in ("rate", "best_rate")
    ):
        dtype = parts[2] if parts[0] == "gpu" else parts[1]
        peak = gpu.peak(dtype)
        return None if peak is None else Ceiling(value=peak, arithmetic=f"dense {dtype} peak of {gpu.name}")
    if quantity_id in ("memory.copy.bandwidth", "memory.triad.bandwidth") and gpu.memory_Bps:
        return Ceiling(value=gpu.memory_Bps, arithmetic=f"memory bandwidth of {gpu.name}")
    if parts[0] == "host_device":
        return _host_ceiling(gpu)
    if parts[0] == "peer" and parts[1].endswith("bandwidth"):
        return _peer_ceiling(gpu, ways=2 if "bidirectional" in parts[1] else 1)
    if parts[0] == "collective" and parts[2] == "busbw" and gpu.links_Bps:
        return _collective_ceiling(parts[1], recipe, gpu)
    return None


def _host_ceiling(gpu: Gpu) -> Ceiling | None:
    """What the PCIe slot carries one way; a coherent link to the CPU instead of PCIe is not known here."""
    if gpu.pcie_generation is None or gpu.pcie_lanes is None or gpu.form == "superchip":
        return None
    link = pcie(gpu.pcie_generation)
    return Ceiling(
        value=link.one_way_Bps(gpu.pcie_lanes),
        arithmetic=f"{gpu.pcie_lanes} lanes x {link.lane_transfer_per_s / 1e9:g} GT/s x {link.encoding} / 8",
    )


def _peer_ceiling(gpu: Gpu, *, ways: int) -> Ceiling | None:
    """What one pair of GPUs can exchange: all links of a GPU through a switch, in a mesh the one between."""
    if gpu.links is None or gpu.link_Bps is None:
        return None
    links = 1 if gpu.link in _MESHES else gpu.links
    return Ceiling(
        value=ways * links * gpu.link_Bps,
        arithmetic=f"{links} {'link' if links == 1 else 'links'} x {show(gpu.link_Bps, 'B/s')} one way"
        + (" x 2 ways" if ways == 2 else ""),
    )


def _collective_ceiling(op: str, recipe: Recipe, gpu: Gpu) -> Ceiling | None:
    """busbw inside one NVLink domain.

    Without help from the switch busbw is at most what the links of one GPU carry one way. A switch that
    reduces (NVLS) lets an all-reduce send each byte once, so algbw is at most the links and busbw
    2(n−1)/n times that; where the recipe names no ranks, n is taken as endless.
    """
    links, ranks = gpu.links_Bps, recipe.get("ranks")
    if links is None:
        return None
    if op == "all_reduce" and gpu.link == "nvlink" and (gpu.nvlink_generation or 0) >= 4:
        if isinstance(ranks, int) and ranks > 1:
            factor, said = 2 * (ranks - 1) / ranks, f"2({ranks}-1)/{ranks}"
        else:
            factor, said = 2.0, "2"
        return Ceiling(
            value=links * factor,
            arithmetic=f"{show(links, 'B/s')} of links one way x {said} with in-switch reduction",
        )
    return Ceiling(value=links, arithmetic=f"{show(links, 'B/s')} of links one way")


def _complain(criterion: Criterion, code: str, is_error: bool, **values: str | float) -> Complaint:
    return Complaint(
        criterion=criterion, is_error=is_error, message=Message.of(code, id=criterion.id, **values)
    )
