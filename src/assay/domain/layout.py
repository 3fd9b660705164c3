"""How a step is cut over GPUs: degrees, micro-batches, sharding, recomputation, schedule and precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from assay.errors import InputError, did_you_mean, unknown_name

#: What each rank keeps of the model: everything; optimizer state over dp (1); gradients too (2); weights too.
SHARDINGS = ("none", "zero1", "zero2", "zero3")
RECOMPUTES = ("none", "selective", "full")
SCHEDULES = ("1f1b", "interleaved", "zero-bubble")
PRECISIONS = ("fp16", "bf16", "fp8", "fp8-current", "fp8-block", "mxfp8", "nvfp4")

_SHARDING_ALIASES = {"zero-1": "zero1", "zero-2": "zero2", "zero-3": "zero3", "fsdp": "zero3", "ddp": "none"}
_SHARDING_ALIASES |= {"distributed-optimizer": "zero1", "full-shard": "zero3", "shard-grad-op": "zero2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The degrees of one job. Ranks are tp × cp × dp × pp; `ep` is carved out of tp × cp × dp.

    `etp` is the tensor degree inside an expert. `shard_ranks` is the group that shares what `sharding`
    names (0: all of dp × cp; smaller: HSDP, or ZeRO within a group). `micro_batch` counts sequences.
    """

    tp: int = 1
    pp: int = 1
    vpp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    dp: int = 1
    sp: bool = True
    micro_batch: int = 1
    sharding: str = "zero1"
    shard_ranks: int = 0
    recompute: str = "none"
    schedule: str = "1f1b"
    precision: str = "bf16"

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "micro_batch"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)}; at least 1 is wanted")
        for name, allowed in (
            ("sharding", SHARDINGS),
            ("recompute", RECOMPUTES),
            ("schedule", SCHEDULES),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in allowed:
                raise unknown_name(name, getattr(self, name), allowed)
        if self.vpp > 1 and self.pp == 1:
            raise InputError(f"vpp = {self.vpp} with pp = 1", fix="interleaving needs at least two stages")
        inner = self.tp * self.cp * self.dp
        if inner % (self.ep * self.etp):
            raise InputError(
                f"ep × etp = {self.ep} × {self.etp} = {self.ep * self.etp} does not divide "
                f"tp × cp × dp = {self.tp} × {self.cp} × {self.dp} = {inner}",
                fix=f"take an ep × etp that does: {_near_divisors(inner, self.ep * self.etp)}",
            )
        group = self.dp * self.cp
        if self.shard_ranks < 0 or (self.shard_ranks and group % self.shard_ranks):
            raise InputError(
                f"shard_ranks = {self.shard_ranks} does not divide dp × cp = {self.dp} × {self.cp} = {group}",
                fix=f"take one that does: {_near_divisors(group, abs(self.shard_ranks))}",
            )

    @property
    def ranks(self) -> int:
        """GPUs the layout takes."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def product(self) -> str:
        """The multiplication, written out."""
        return f"tp × pp × cp × dp = {self.tp} × {self.pp} × {self.cp} × {self.dp} = {self.ranks}"

    def micro_batches(self, global_batch: int) -> int:
        """Micro-batches of one replica; an `InputError` shows the numbers where they do not divide."""
        lot = self.dp * self.micro_batch
        if global_batch < 1 or global_batch % lot:
            raise InputError(
                f"global batch {global_batch} is no multiple of dp × micro_batch = "
                f"{self.dp} × {self.micro_batch} = {lot}",
                fix=f"take {max(1, round(global_batch / lot)) * lot}, or another micro_batch",
            )
        return global_batch // lot

    def check(self, *, gpus: int, layers: int, heads: int, seq_len: int) -> None:
        """Refuse a layout that does not multiply out on so many GPUs, or that cuts the model unevenly."""
        if self.ranks != gpus:
            raise InputError(f"{self.product}, but the cluster has {gpus} GPUs", fix=_nearest(self, gpus))
        if heads % self.tp:
            raise InputError(
                f"tp = {self.tp} does not divide {heads} attention heads",
                fix=f"take a tp that does: {_near_divisors(heads, self.tp)}",
            )
        if layers < self.pp * self.vpp:
            raise InputError(
                f"pp × vpp = {self.pp} × {self.vpp} = {self.pp * self.vpp} stages for {layers} layers"
            )
        if seq_len % (self.cp * (2 if self.cp > 1 else 1)):
            raise InputError(f"seq_len {seq_len} is not cut by cp = {self.cp} into 2·cp equal pieces")


def parse_layout(text: str, *, gpus: int, where: str | None = None) -> Layout:
    """A layout from "tp=4,pp=4,vpp=5,cp=2"; dp fills the GPUs where it is not said.

    Raises `InputError` for an unknown key, a value of the wrong kind, or degrees that do not divide.
    """
    values: dict[str, object] = {}
    kinds: Mapping[str, type] = {entry.name: type(entry.default) for entry in fields(Layout)}
    short = {"mbs": "micro_batch", "zero": "sharding", "recomp": "recompute", "dtype": "precision"}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, _, value = (side.strip().lower() for side in part.partition("="))
        key = short.get(key, key)
        if key not in kinds:
            raise InputError(f"unknown layout key {key!r}", where=where, fix=did_you_mean(key, kinds))
        if key in values:
            raise InputError(f"{key} is given twice", where=where)
        values[key] = _value(key, value, kinds[key], where)
    said = Layout(**(values | {"dp": 1, "ep": 1, "etp": 1, "shard_ranks": 0}))  # type: ignore[arg-type]
    if "dp" not in values:
        inner = said.tp * said.pp * said.cp
        if gpus % inner:
            raise InputError(
                f"tp × pp × cp = {said.tp} × {said.pp} × {said.cp} = {inner} does not divide {gpus} GPUs",
                where=where,
                fix=f"take {_near_multiples(inner, gpus)} GPUs, or degrees whose product divides {gpus}",
            )
        values["dp"] = gpus // inner
    if said.vpp > 1 and "schedule" not in values:
        values["schedule"] = "interleaved"
    return Layout(**values)  # type: ignore[arg-type]


def _value(key: str, text: str, kind: type, where: str | None) -> object:
    if kind is bool:
        if text not in ("true", "false", "on", "off", "1", "0"):
            raise InputError(f"{key}={text!r} is neither on nor off", where=where)
        return text in ("true", "on", "1")
    if kind is int:
        if not text.isdecimal():
            raise InputError(f"{key}={text!r} is not a whole number", where=where)
        return int(text)
    if key == "sharding":
        text = {"0": "none", "1": "zero1", "2": "zero2", "3": "zero3"}.get(text, text)
        return _SHARDING_ALIASES.get(text.replace("_", "-"), text)
    return text.replace("_", "-")


def _nearest(layout: Layout, gpus: int) -> str:
    inner = layout.tp * layout.pp * layout.cp
    if gpus % inner == 0:
        return f"with dp = {gpus // inner} it takes {gpus}"
    return f"tp × pp × cp = {inner} does not divide {gpus}; use a multiple of {inner} GPUs"


def _near_divisors(whole: int, wanted: int) -> str:
    """The divisors of `whole` on both sides of a number that is none."""
    found = [divisor for divisor in range(1, whole + 1) if whole % divisor == 0]
    below = [divisor for divisor in found if divisor < wanted][-1:]
    above = [divisor for divisor in found if divisor > wanted][:1]
    return " or ".join(map(str, below + above))


def _near_multiples(part: int, wanted: int) -> str:
    """The multiples of `part` on both sides of a number that is none."""
    below = wanted // part * part
    return " or ".join(str(n) for n in (below, below + part) if n)
