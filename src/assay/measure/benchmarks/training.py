"""Training a small transformer, data-parallel over 1, 2, 4, … and all ranks."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import statistics
import time
from array import array
from typing import TYPE_CHECKING, Any

from assay.measure.benchmarks.gemm import torch_dtype
from assay.measure.benchmarks.kernels import adamw
from assay.measure.context import Context, RecipeParam
from assay.measure.node import memory_available_bytes, ranks_on_this_node
from assay.measure.registry import benchmark
from assay.measure.timing import Marks, percentile

if TYPE_CHECKING:
    from assay.measure.transformer import Shape

#: A percentile with fewer than three steps beyond it says little.
_P95_STEPS = 60
#: Of the memory that is free, the model may take this share.
_MEMORY_SHARE = 0.8


@benchmark(
    "training",
    summary="a small transformer, data-parallel",
    yields=(
        "training.readiness",
        "training.step_time",
        "training.tokens_per_s",
        "training.model_flop_per_s",
        "training.exposed_communication",
        "training.scaling_efficiency",
    ),
    from_nothing=True,
)
def training(context: Context) -> None:
    """All ranks first, which tells when the cluster is ready to train, then ever smaller groups.

    Weak scaling: every rank has the same batch at every size. The base is one full node, or on a single
    node one rank; groups up to the base run side by side on all ranks, because one lone card clocks higher.
    A single rank trains without DistributedDataParallel. Of other sizes only the first ranks train, and the
    rest wait. `sizes` among the settings takes the place of all these.
    """
    shape = trained_shape(context)
    base = _base(context)
    tokens_per_s: dict[int, float] = {}
    for size in context.settings.get("sizes") or _sizes(context.world, base):
        copies = context.world // size if size <= base and context.world % size == 0 else 1
        groups = [list(range(first, first + size)) for first in range(0, copies * size, size)]
        tokens_per_s[size] = _measure(context, shape, groups)
    if context.rank == 0:
        _record_scaling(context, shape, base, tokens_per_s)


def _record_scaling(context: Context, shape: Shape, base: int, tokens_per_s: dict[int, float]) -> None:
    """Tokens/s of a rank in each group above the base, over those of a rank in the base."""
    larger = [size for size in sorted(tokens_per_s) if size > base and base in tokens_per_s]
    if not larger:
        reason = "there is one rank, and nothing to scale to"
        context.missing("training.scaling_efficiency", "1", reason, subject="cluster")
    for size in larger:
        context.record(
            "training.scaling_efficiency",
            (tokens_per_s[size] / size) / (tokens_per_s[base] / base),
            "1",
            subject="cluster",
            recipe=_recipe(context, shape, size) | {"base_ranks": base, "mode": "weak"},
        )


def _sizes(world: int, base: int) -> list[int]:
    """Powers of two up to all ranks, all ranks and the base, the largest first."""
    powers = {1 << i for i in range(world.bit_length()) if 1 << i <= world}
    return sorted(powers | {world, base}, reverse=True)


def _base(context: Context) -> int:
    """Ranks of one full node where there are several alike, in order of rank; otherwise 1."""
    mine = ranks_on_this_node(context)
    size = len(mine)
    regular = mine == list(range(mine[0], mine[0] + size)) and mine[0] % size == 0
    alike = context.agree(size) == context.agree(size, "min") and context.agree(float(regular), "min") == 1.0
    return size if alike and size < context.world else 1


def trained_shape(context: Context) -> Shape:
    """The suite's model, with fewer layers where its states and activations would not fit the GPU."""
    from assay.measure.transformer import Shape

    settings = context.settings
    shape = Shape(**{key.name: settings[key.name] for key in dataclasses.fields(Shape)})
    if not context.on_gpu:
        return shape
    free = _MEMORY_SHARE * context.agree(memory_available_bytes(context), "min")
    tokens = int(settings["batch_per_rank"]) * shape.sequence

    def need_bytes(layers: int) -> float:
        """Parameter, gradient and two moments in fp32; some 20 activations a layer; the logits thrice."""
        weights = 12 * layers * shape.hidden**2 + 2 * shape.hidden * shape.vocabulary
        return 16 * weights + 4 * tokens * (20 * layers * shape.hidden + 3 * shape.vocabulary)

    layers = shape.layers
    while layers > 1 and need_bytes(layers) > free:
        layers -= 1
    return dataclasses.replace(shape, layers=layers)


def _measure(context: Context, shape: Shape, groups: list[list[int]]) -> float:
    """Train in each group at once and record what rank 0 saw; tokens/s of one group, their mean."""
    process_groups = [_process_group(context, members) for members in groups]
    mine = next((i for i, members in enumerate(groups) if context.rank in members), None)
    size = len(groups[0])
    run = None if mine is None else _Run(context, shape, size, process_groups[mine])
    context.barrier()
    if run and mine is not None:
        run.train()
        hosts = [context.hosts[rank] for rank in groups[mine]]
        context.called("all_reduce", run.gradient_bytes, count=run.steps_together, hosts=hosts)
    context.require_everywhere(run is None or run.learned(), "the loss on a repeated batch did not fall")
    prints = [p for (p,) in context.gather([run.fingerprint() if run else 0.0])]
    alike = mine is None or all(prints[r] == prints[context.rank] for r in groups[mine])
    context.require_everywhere(alike, f"{size} ranks that trained together hold different parameters")
    if run and size > 1:
        run.train_without_communication()
    rates = context.gather([run.tokens_per_s if run else 0.0])
    mean = float(statistics.fmean(rates[members[0]][0] for members in groups))
    if run and context.rank == 0:
        _record(context, shape, size, len(groups), run, mean)
    del run
    gc.collect()  # DistributedDataParallel is in reference cycles, and the next model needs its memory
    return mean


def _process_group(context: Context, members: list[int]) -> Any:
    """The group of these ranks; every rank asks for every group. None for a rank that trains alone."""
    import torch.distributed as dist

    if len(members) == 1:
        return None
    return dist.group.WORLD if len(members) == context.world else dist.new_group(members)


class _Run:
    """The model, its optimizer and one batch on this rank."""

    def __init__(self, context: Context, shape: Shape, size: int, process_group: Any) -> None:
        import torch

        from assay.measure.transformer import Transformer

        self._context = context
        settings = context.settings
        batch = settings["batch_per_rank"]
        self._group_tokens = size * batch * shape.sequence
        self._cast = settings["dtype"] if settings["dtype"] != "fp32" else None
        torch.manual_seed(context.seed)
        model = Transformer(shape).to(context.device)
        # A step of one part in a few hundred of a weight's deviation, smaller for wider models.
        self._optimizer, self.fused = adamw(model.parameters(), lr=0.3 / shape.hidden)
        self._module = model
        if process_group is not None:
            model = torch.nn.parallel.DistributedDataParallel(
                model,
                device_ids=[context.device] if context.on_gpu else None,
                process_group=process_group,
                gradient_as_bucket_view=True,
            )
        self._model = model
        generator = torch.Generator().manual_seed(context.seed + context.rank)
        text = torch.randint(shape.vocabulary, (batch, shape.sequence + 1), generator=generator)
        self._tokens, self._targets = (part.to(context.device) for part in (text[:, :-1], text[:, 1:]))
        self._losses: list[Any] = []
        self.gradient_bytes = sum(p.numel() * p.element_size() for p in self._module.parameters())
        self.steps_together = 0
        self.without_s: array[float] | None = None

    def train(self) -> None:
        """Warm up, noting when the first step was done, and then the suite's number of steps."""
        self._steps(1)
        self._context.sync_function()()
        self.ready_s = time.time()
        self._steps(self._context.settings["warmup_steps"])
        self._context.sync_function()()
        cpu, wall = time.process_time(), time.perf_counter()
        self.step_s = self._steps(self._context.settings["steps"])
        self.cpu_share_frac = (time.process_time() - cpu) / (time.perf_counter() - wall)
        self.steps_together = len(self._losses)

    def train_without_communication(self) -> None:
        """Half as many steps in which each rank keeps its gradients to itself; the ranks drift apart."""
        with self._model.no_sync():
            self._steps(1)
            self.without_s = self._steps(max(4, self._context.settings["steps"] // 2))

    def learned(self) -> bool:
        """Whether the last loss is below the first; false for NaN."""
        return float(self._losses[-1]) < float(self._losses[0])

    def fingerprint(self) -> float:
        """A number that equals another rank's when all parameters do."""
        from assay.measure.transformer import fingerprint

        return float(fingerprint(self._module))

    @property
    def tokens_per_s(self) -> float:
        """Tokens of the whole group over this rank's median step."""
        return float(self._group_tokens / statistics.median(self.step_s))

    def _steps(self, count: int) -> array[float]:
        """Seconds of each of `count` steps by the device's clock; the host runs ahead, as in training."""
        marks = Marks(self._context.device)
        marks.mark()
        for _ in range(count):
            self._losses.append(self._step())
            marks.mark()
        return marks.gaps()

    def _step(self) -> Any:
        import torch

        self._optimizer.zero_grad(set_to_none=True)
        cast: Any = contextlib.nullcontext()
        if self._cast:
            cast = torch.autocast(self._tokens.device.type, dtype=torch_dtype(self._cast))
        with cast:
            loss = self._model(self._tokens, self._targets)
        loss.backward()
        self._optimizer.step()
        return loss.detach()


def _record(context: Context, shape: Shape, size: int, copies: int, run: _Run, tokens_per_s: float) -> None:
    recipe = _recipe(context, shape, size) | {"fused": run.fused, "copies": copies}
    cpu = run.cpu_share_frac
    if size == context.world:
        context.record(
            "training.readiness",
            run.ready_s - context.launched_s,
            "s",
            subject="cluster",
            recipe={"ranks": size, "from": "launch of the restart"},
            absolute=False,
        )
    _record_steps(context, recipe, run)
    for quantity, value, unit, more in (
        ("tokens_per_s", tokens_per_s, "1/s", {}),
        ("model_flop_per_s", tokens_per_s * shape.flop_per_token, "FLOP/s", {"formula": shape.formula}),
    ):
        context.record(
            f"training.{quantity}",
            value,
            unit,
            subject="cluster",
            recipe=recipe | more | {"statistic": "median"},
            n=len(run.step_s),
            cpu_share_frac=cpu,
        )
    if run.without_s is not None:
        context.record(
            "training.exposed_communication",
            1.0 - statistics.median(run.without_s) / statistics.median(run.step_s),
            "1",
            subject="cluster",
            recipe=recipe | {"statistic": "median"},
            n=len(run.without_s),
        )


def _record_steps(context: Context, recipe: dict[str, RecipeParam], run: _Run) -> None:
    """Median with the samples, 95th percentile where there are enough of them, and maximum."""
    steps = len(run.step_s)
    values = {"median": statistics.median(run.step_s), "max": max(run.step_s)}
    if steps >= _P95_STEPS:
        values["p95"] = percentile(run.step_s, 0.95)
    else:
        context.missing(
            "training.step_time",
            "s",
            f"p95 needs {_P95_STEPS} steps, {steps} were taken",
            subject="cluster",
            recipe=recipe | {"statistic": "p95"},
        )
    for statistic, value in values.items():
        context.record(
            "training.step_time",
            value,
            "s",
            subject="cluster",
            recipe=recipe | {"statistic": statistic},
            n=steps,
            samples=run.step_s if statistic == "median" else None,
            cpu_share_frac=run.cpu_share_frac,
        )


def _recipe(context: Context, shape: Shape, size: int) -> dict[str, RecipeParam]:
    return {
        "model": str(shape),
        "ranks": size,
        "batch_per_rank": context.settings["batch_per_rank"],
        "sequence": shape.sequence,
        "dtype": context.settings["dtype"],
        "optimizer": "adamw",
    } | context.host_threads()
