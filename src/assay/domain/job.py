"""A job that is not a language model, as phases: what each rank computes, moves and sends in one step.

A phase's amounts are formulas in the job's parameters and in `ranks`, `nodes` and `node_gpus`; the predictor
prices them on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from assay.errors import InputError, unknown_name

#: What moves a job's messages.
LIBRARIES = ("nccl", "rccl", "gloo", "mpi")

#: What a phase does, and the formula that says how much.
KINDS = {
    "compute": "flop",
    "memory": "bytes",
    "halo": "bytes",
    "all_to_all": "bytes",
    "reduce": "bytes",
    "gather": "bytes",
    "input": "bytes",
    "output": "bytes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number of the job: its default in `unit`, and how it grows with ranks when each keeps its work.

    `grows` is the exponent of the number of ranks in weak scaling, 1/3 for the edge of a cube.
    """

    name: str
    value: float
    unit: str
    about: str
    grows: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of a step, per rank. Formulas are text; those that a kind does not use are empty.

    `flop` and `bytes` are per rank and step; of `bytes` a halo sends that much in each of its `messages`,
    an all-to-all or a gather holds it per rank, a reduce adds it up over all ranks, input and output are of
    the whole job. `group` ranks `stride` apart take part. `local_frac` is the part of the messages that stay
    in the node. `repeat` times a step; of its time `overlap_frac` hides behind the phase `overlaps`.
    """

    name: str
    kind: str
    about: str = ""
    flop: str = ""
    dtype: str = "fp64"
    bytes: str = ""
    messages: str = "1"
    group: str = "ranks"
    stride: str = "1"
    local_frac: str = ""
    repeat: str = "1"
    overlaps: str = ""
    overlap_frac: str = "1"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(
                f"phase {self.name} is of kind {self.kind!r}", fix=f"one of {', '.join(sorted(KINDS))}"
            )
        if not getattr(self, KINDS[self.kind]):
            raise InputError(f"phase {self.name} of kind {self.kind} says no {KINDS[self.kind]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """A public figure of a job of this kind: what was run, on what, and what came out."""

    what: str
    system: str
    gpus: int
    figure: str
    source: str
    cluster: str = ""
    set: str = ""
    step_time_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A named job: parameters, names derived from them in order, phases, and what a rank holds in memory.

    `library` moves its messages: one of LIBRARIES.
    """

    id: str
    name: str
    about: str
    source: str
    parameters: tuple[Parameter, ...]
    derived: tuple[tuple[str, str], ...]
    phases: tuple[Phase, ...]
    memory: tuple[tuple[str, str], ...]
    published: tuple[PublishedRun, ...] = ()
    library: str = "nccl"

    def __post_init__(self) -> None:
        if self.library not in LIBRARIES:
            raise unknown_name("library", self.library, LIBRARIES)
        names = [p.name for p in self.parameters] + [name for name, _ in self.derived]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError(f"job {self.id}: {', '.join(twice)} is named twice")
        phases = [phase.name for phase in self.phases]
        if not phases or len(set(phases)) < len(phases):
            raise InputError(f"job {self.id}: phases need names of their own, found {phases}")
        for phase in self.phases:
            if phase.overlaps and phase.overlaps not in phases:
                raise InputError(
                    f"job {self.id}: {phase.name} overlaps {phase.overlaps!r}, which is no phase"
                )
