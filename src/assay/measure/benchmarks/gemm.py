"""Dense matrix multiplication per dtype, alone and with all ranks at once, at thermal steady state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from assay.measure.context import Context
from assay.measure.gpu_sampler import while_watched
from assay.measure.node import turns_in_node
from assay.measure.registry import benchmark
from assay.measure.timing import Windows, windows

#: Rounding of one product and of the result, by dtype: half the spacing of numbers near 1.
_EPSILON = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8, "fp8": 2.0**-4}
_CHECKED = 8


@benchmark(
    "gemm",
    summary="dense matrix multiplication per dtype",
    yields=(
        "gemm.<dtype>.rate",
        "gemm.<dtype>.best_rate",
        "gemm.<dtype>.fluctuation",
        "gpu.sm_clock",
        "gpu.power",
        "gpu.temperature",
    ),
    wave="card",
)
def gemm(context: Context) -> None:
    """Per dtype: the fixed shape alone and with all ranks at once, and the best of a list of shapes."""
    for dtype in context.settings["dtypes"]:
        reason = unsupported(dtype, context)
        if reason:
            context.missing(f"gemm.{dtype}.rate", "FLOP/s", reason)
            continue
        m, n, k = context.settings["shape"]
        _fixed_shape(context, dtype, m, n, k)
        if context.settings["search"]:
            _best_shape(context, dtype)


def _fixed_shape(context: Context, dtype: str, m: int, n: int, k: int) -> None:
    product = Product(context, dtype, m, n, k)
    recipe = _recipe(context, f"{m}x{n}x{k}")
    for turn in range(turns_in_node(context)):
        context.barrier()
        if turn == context.local_rank:
            alone = product.time(context, share=0.5)
    context.barrier()
    together = while_watched(
        context, recipe | {"load": "all", "dtype": dtype}, lambda: product.time(context, share=1.0)
    )
    context.require_everywhere(product.is_right(), f"the {dtype} product does not match its reference")
    for load, result in (("alone", alone), ("all", together)):
        context.record(
            f"gemm.{dtype}.rate",
            product.flop / result.median_s,
            "FLOP/s",
            recipe=recipe | {"load": load, "statistic": "median"},
            samples=result.per_iteration_s,
            cpu_share_frac=result.cpu_share_frac,
            absolute=load == "all",
        )
    context.record(
        f"gemm.{dtype}.fluctuation",
        together.fluctuation_frac,
        "1",
        recipe=recipe | {"load": "all", "statistic": "(max-min)/median"},
        n=len(together.per_iteration_s),
    )


def _best_shape(context: Context, dtype: str) -> None:
    """The best rate over the listed shapes, each for a few windows, all ranks at once."""
    best, best_shape = 0.0, ""
    for m, n, k in context.settings["search"]:
        product = Product(context, dtype, m, n, k)
        context.barrier()
        rate = product.flop / product.time(context, share=0.25).median_s
        context.require_everywhere(product.is_right(), f"the {dtype} product does not match its reference")
        if rate > best:
            best, best_shape = rate, f"{m}x{n}x{k}"
    shapes = "+".join("x".join(map(str, shape)) for shape in context.settings["search"])
    context.record(
        f"gemm.{dtype}.best_rate",
        best,
        "FLOP/s",
        recipe={"search": shapes, "load": "all", "statistic": "median", "input": "normal"},
        n=len(context.settings["search"]),
    )
    context.event("best_shape", best_shape, dtype=dtype)


class Product:
    """A times B into C, filled with normal random numbers: zeros or ones draw less power and clock higher."""

    def __init__(self, context: Context, dtype: str, m: int, n: int, k: int) -> None:
        import torch

        self._dtype = dtype
        self._k = k
        self.flop = 2.0 * m * n * k
        generator = torch.Generator(device=context.device).manual_seed(context.seed)
        kind = torch_dtype(dtype)
        self._a = torch.randn(m, k, device=context.device, generator=generator).to(kind)
        self._b = torch.randn(n, k, device=context.device, generator=generator).to(kind).t()
        self._run, self._output = _multiply(dtype, self._a, self._b)

    def time(self, context: Context, *, share: float) -> Windows:
        """Sustained windows; `share` of the suite's number of them and of its warm-up."""
        settings = context.settings
        return windows(
            self._run,
            window_s=settings["window_s"],
            count=max(2, round(settings["windows"] * share)),
            warmup_s=settings["warmup_s"] * share,
            sync=context.sync_function(),
        )

    def multiply(self) -> None:
        """One product, for a load."""
        self._run()

    def again(self) -> Any:
        """The result of one more product; nothing of the last one is left in it."""
        if (last := self._output()) is not None:
            last.zero_()
        self._run()
        return self._output()

    def is_right(self) -> bool:
        """Compare some rows and columns of the last result with the product in double precision.

        Each element sums k products of standard normal numbers and is of size sqrt(k). Rounding the
        factors or the result adds a few epsilon of that, and summing in single precision a random walk of
        k roundings.
        """
        import torch

        rows = torch.linspace(0, self._a.shape[0] - 1, _CHECKED).long()
        columns = torch.linspace(0, self._b.shape[1] - 1, _CHECKED).long()
        reference = self._a[rows].double() @ self._b[:, columns].double()
        result = self._output()[rows][:, columns].double()
        epsilon = _EPSILON["bf16" if self._dtype == "fp8" else self._dtype]
        tolerance = 8 * (epsilon * math.sqrt(self._k) + _EPSILON["fp32"] * self._k)
        return bool(torch.isfinite(result).all()) and float((result - reference).abs().max()) <= tolerance


def _multiply(dtype: str, a: Any, b: Any) -> tuple[Callable[[], object], Callable[[], Any]]:
    """The function that multiplies once, and the one that gives the last result."""
    import torch

    if dtype == "fp8":
        one = torch.ones((), device=a.device)
        last: dict[str, Any] = {}

        def scaled() -> None:
            last["c"] = torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)

        return scaled, lambda: last.get("c")
    c = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    allow = dtype == "tf32"

    def plain() -> None:
        if a.is_cuda:
            torch.backends.cuda.matmul.allow_tf32 = allow
        torch.mm(a, b, out=c)

    return plain, lambda: c


def torch_dtype(dtype: str) -> Any:
    """The torch type that holds a dtype of the catalogue; tf32 is a way to multiply fp32."""
    import torch

    names = {
        "fp32": "float32",
        "tf32": "float32",
        "fp16": "float16",
        "bf16": "bfloat16",
        "fp8": "float8_e4m3fn",
    }
    return getattr(torch, names[dtype])


def unsupported(dtype: str, context: Context) -> str | None:
    """Why this device cannot multiply this dtype at a rate worth measuring, or None."""
    import torch

    if not context.on_gpu:
        native = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
        if dtype == "bf16" and not native():
            return "this CPU has no native bf16 multiplication"
        return None if dtype in ("fp32", "bf16") else f"{dtype} is not measured on a CPU"
    needs = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}.get(dtype, (0, 0))
    if torch.version.hip is None and torch.cuda.get_device_capability(context.device) < needs:
        return f"this GPU has no {dtype} matrix units"
    if dtype == "fp8" and not hasattr(torch, "_scaled_mm"):
        return f"torch {torch.__version__} has no fp8 multiplication"
    return None


def _recipe(context: Context, shape: str) -> dict[str, str | int | float]:
    recipe: dict[str, str | int | float] = {
        "shape": shape,
        "window_s": context.settings["window_s"],
        "input": "normal",
    }
    if not context.on_gpu:
        import torch

        recipe["threads"] = torch.get_num_threads()
    return recipe
