"""The same seeded matrix product on every card, compared bit for bit: a card that computes wrong, silently.

Cards of one model with one library round alike, so that their results are equal to the last bit. Each card
repeats the product and compares every result with its first; digests of the first are compared when the run
is judged, over cards and restarts, only where model, library and threads are the same.
"""

from __future__ import annotations

import ctypes
import hashlib
from pathlib import Path
from typing import Any

from assay.measure.benchmarks.gemm import Product, unsupported
from assay.measure.context import Context, RecipeParam
from assay.measure.registry import benchmark


@benchmark(
    "bitwise",
    summary="one seeded product on every card, compared bit for bit",
    yields=("gemm.<dtype>.digest", "gemm.<dtype>.unlike_repeats"),
    wave="card",
)
def bitwise(context: Context) -> None:
    """Per dtype: repeat, count the results unlike the first, and record the digest of that."""
    for dtype in context.settings["dtypes"]:
        if reason := unsupported(dtype, context):
            context.missing(f"gemm.{dtype}.digest", "text", reason)
            continue
        shape, repeats = context.settings["shape"], context.settings["repeats"]
        record(context, dtype, Repeated(Product(context, dtype, *shape)), shape, repeats)


def record(context: Context, dtype: str, repeated: Repeated, shape: list[int], repeats: int) -> None:
    """Repeat and record."""
    unlike = sum(not repeated.is_alike() for _ in range(repeats))
    recipe = recipe_of(context, shape)
    context.record(f"gemm.{dtype}.digest", repeated.digest, "text", recipe=recipe, n=repeats, absolute=False)
    context.record(f"gemm.{dtype}.unlike_repeats", unlike, "count", recipe=recipe, n=repeats, absolute=False)


class Repeated:
    """A product whose first result is kept, to hold the later ones against it."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._first = product.again().clone()
        self.digest = digest_of(self._first)

    def is_alike(self) -> bool:
        """Multiply again; whether every bit is as it was at first."""
        import torch

        as_bits = torch.int16 if self._first.element_size() == 2 else torch.int32
        return bool(torch.equal(self._product.again().view(as_bits), self._first.view(as_bits)))


def digest_of(tensor: Any) -> str:
    """BLAKE2 of the bytes of a tensor, 24 hex digits."""
    host = tensor.cpu().contiguous()
    data = ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def recipe_of(context: Context, shape: list[int]) -> dict[str, RecipeParam]:
    """What must be the same for the results to be: shape, seed, model, library and threads."""
    import torch

    if context.on_gpu:
        model = str(torch.cuda.get_device_name(context.device))
        library = f"torch {torch.__version__}, {torch.version.cuda or torch.version.hip}"
    else:
        model = f"{_processor()}, {torch.backends.cpu.get_cpu_capability()}"
        library = f"torch {torch.__version__}"
    recipe: dict[str, RecipeParam] = {
        "shape": "x".join(map(str, shape)),
        "seed": context.seed,
        "model": model,
        "library": library,
    }
    return recipe | context.host_threads()


def _processor() -> str:
    """The processor's model as the kernel tells it."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Processor", "cpu model"):
            return value.strip()
    return "unknown processor"
