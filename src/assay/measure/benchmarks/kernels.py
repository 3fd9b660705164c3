"""Kernels of a training step: optimizer, softmax with cross-entropy, elementwise chain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay.measure.benchmarks.gemm import torch_dtype
from assay.measure.context import Context, RecipeParam
from assay.measure.registry import benchmark
from assay.measure.timing import windows

#: How far a result may be from double precision, by dtype: the rounding of a few steps, and in fp32 the
#: few last places that vectorised exp and erf may be off.
_TOLERANCE = {"fp32": 2.0**-17, "bf16": 2.0**-5}
#: Elements or rows of a result that are compared with the reference.
_CHECKED = 64
_LR, _BETAS, _EPS, _DECAY = 1e-3, (0.9, 0.95), 1e-8, 0.1
#: The optimizer whose steps `adamw_is_right` can tell.
ADAMW: dict[str, Any] = {"lr": _LR, "betas": _BETAS, "eps": _EPS, "weight_decay": _DECAY}


@dataclass(frozen=True)
class _Kernel:
    """One kernel: what to run, the bytes that one run moves, and whether the last run's result is right."""

    name: str
    dtype: str
    shape: str
    run: Callable[[], object]
    moved_bytes: float
    is_right: Callable[[], bool]
    recipe: dict[str, RecipeParam]


@benchmark(
    "kernels",
    summary="optimizer step, softmax with cross-entropy, elementwise chain",
    yields=("kernel.<name>.time", "kernel.<name>.bandwidth"),
    wave="card",
)
def kernels(context: Context) -> None:
    """Each kernel in sustained windows with all ranks at once; bytes moved are those of eager PyTorch.

    adamw: parameter, gradient and two moments read, parameter and moments written: 7 passes of fp32.
    cross_entropy, forward and backward: logits read, log-probabilities written; backward writes and reads
    their gradient, reads them, writes the logits' gradient: 6 passes.
    elementwise, residual + gelu(x + bias): three kernels, 4 reads and 3 writes: 7 passes.
    """
    for make in (_adamw, _cross_entropy, _elementwise):
        _measure(context, make(context))


def _measure(context: Context, kernel: _Kernel) -> None:
    settings = context.settings
    context.barrier()
    result = windows(
        kernel.run,
        window_s=settings["window_s"],
        count=settings["windows"],
        warmup_s=settings["warmup_s"],
        sync=context.sync_function(),
    )
    context.require_everywhere(kernel.is_right(), f"the {kernel.name} result does not match its reference")
    recipe = {
        "shape": kernel.shape,
        "dtype": kernel.dtype,
        "load": "all",
        "statistic": "median",
        "window_s": settings["window_s"],
    }
    recipe |= kernel.recipe | context.host_threads()
    context.record(
        f"kernel.{kernel.name}.time",
        result.median_s,
        "s",
        recipe=recipe,
        samples=result.per_iteration_s,
        cpu_share_frac=result.cpu_share_frac,
    )
    context.record(
        f"kernel.{kernel.name}.bandwidth",
        kernel.moved_bytes / result.median_s,
        "B/s",
        recipe=recipe,
        n=len(result.per_iteration_s),
        cpu_share_frac=result.cpu_share_frac,
    )


def _adamw(context: Context) -> _Kernel:
    """One step over a weight of vocabulary × hidden in fp32, fused where this torch can."""
    import torch

    rows, columns = context.settings["vocabulary"], context.settings["hidden"]
    weight = torch.nn.Parameter(_normal(context, rows, columns))
    weight.grad = _normal(context, rows, columns)
    optimizer, fused = adamw([weight], **ADAMW)

    return _Kernel(
        name="adamw",
        dtype="fp32",
        shape=f"{rows}x{columns}",
        run=optimizer.step,
        moved_bytes=7.0 * 4 * rows * columns,
        is_right=lambda: adamw_is_right(optimizer, weight),
        recipe={"optimizer": "adamw", "fused": fused},
    )


def adamw(parameters: Any, **options: Any) -> tuple[Any, bool]:
    """An AdamW optimizer, and whether it is the fused one, which older torch has on GPUs only."""
    import torch

    parameters = list(parameters)
    try:
        return torch.optim.AdamW(parameters, fused=True, **options), True
    except RuntimeError:
        return torch.optim.AdamW(parameters, foreach=True, **options), False


def adamw_is_right(optimizer: Any, weight: Any) -> bool:
    """One more step with `ADAMW` on some elements of a weight against the formula in double precision."""
    import torch

    where = torch.linspace(0, weight.numel() - 1, _CHECKED, dtype=torch.float64).long().to(weight.device)

    def seen(tensor: Any) -> Any:
        return tensor.detach().flatten()[where].double()

    state = optimizer.state[weight]
    p, g, m, v = map(seen, (weight, weight.grad, state["exp_avg"], state["exp_avg_sq"]))
    optimizer.step()
    expected = _adamw_reference(p, g, m, v, float(state["step"]))
    return _close(seen(weight), expected, _TOLERANCE["fp32"])


def _adamw_reference(p: Any, g: Any, m: Any, v: Any, step: float) -> Any:
    """Parameters after a step by the published formula (Loshchilov and Hutter, 2019, algorithm 2)."""
    beta1, beta2 = _BETAS
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g**2
    m_unbiased, v_unbiased = m / (1 - beta1**step), v / (1 - beta2**step)
    return p * (1 - _LR * _DECAY) - _LR * m_unbiased / (v_unbiased.sqrt() + _EPS)


def _cross_entropy(context: Context) -> _Kernel:
    """Mean cross-entropy of tokens × vocabulary logits in fp32, as mixed precision computes it."""
    import torch
    import torch.nn.functional as functional

    rows, columns = context.settings["tokens"], context.settings["vocabulary"]
    logits = _normal(context, rows, columns).requires_grad_()
    targets = torch.arange(rows, device=context.device) * 7919 % columns
    last: dict[str, Any] = {}

    def run() -> None:
        logits.grad = None
        last["loss"] = functional.cross_entropy(logits, targets)
        last["loss"].backward()

    def is_right() -> bool:
        """The loss over all rows and the gradient of some, in double precision."""
        values = logits.detach()
        each = values.double().logsumexp(1) - values.gather(1, targets[:, None])[:, 0].double()
        loss = float(each.mean())
        where = torch.linspace(0, rows - 1, _CHECKED).long().to(context.device)
        gradient = values[where].double().softmax(1)
        gradient[torch.arange(len(where), device=where.device), targets[where]] -= 1.0
        return abs(float(last["loss"].detach()) - loss) <= 1e-5 * loss and _close(
            logits.grad[where].double() * rows, gradient, _TOLERANCE["fp32"]
        )

    return _Kernel(
        name="cross_entropy",
        dtype="fp32",
        shape=f"{rows}x{columns}",
        run=run,
        moved_bytes=6.0 * 4 * rows * columns,
        is_right=is_right,
        recipe={"pass": "forward+backward"},
    )


def _elementwise(context: Context) -> _Kernel:
    """residual + gelu(x + bias) over tokens × 4·hidden, the inside of a transformer's MLP."""
    import torch
    import torch.nn.functional as functional

    rows, columns = context.settings["tokens"], 4 * context.settings["hidden"]
    dtype = "bf16" if context.on_gpu else "fp32"
    kind = torch_dtype(dtype)
    x, residual = (_normal(context, rows, columns).to(kind) for _ in range(2))
    bias = _normal(context, columns).to(kind)
    last: dict[str, Any] = {}

    def run() -> None:
        last["y"] = residual + functional.gelu(x + bias)

    def is_right() -> bool:
        """Some rows in double precision, with gelu by its definition."""
        where = torch.linspace(0, rows - 1, _CHECKED).long().to(context.device)
        inner = x[where].double() + bias.double()
        expected = residual[where].double() + inner * (1 + torch.erf(inner / math.sqrt(2))) / 2
        return _close(last["y"][where].double(), expected, _TOLERANCE[dtype])

    return _Kernel(
        name="elementwise",
        dtype=dtype,
        shape=f"{rows}x{columns}",
        run=run,
        moved_bytes=7.0 * kind.itemsize * rows * columns,
        is_right=is_right,
        recipe={"chain": "bias+gelu+residual"},
    )


def _normal(context: Context, *shape: int) -> Any:
    import torch

    return torch.randn(*shape, device=context.device)


def _close(value: Any, expected: Any, tolerance: float) -> bool:
    """Whether all elements agree to `tolerance`, absolute below 1 and relative above; false for NaN."""
    return bool(((value - expected).abs() <= tolerance * (1 + expected.abs())).all())
