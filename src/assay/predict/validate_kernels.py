"""Scoring the kernel models on measured tables of matrix products and forward attention."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from assay.catalog.devices import gpu_by_nvml_name, gpus
from assay.domain.device import Gpu
from assay.domain.score import ScoredRow, Validation, group_scores
from assay.errors import InputError
from assay.predict.kernels import attention_rates, attention_time_s, fit_error, gemm_rates, gemm_time_s
from assay.predict.tables import TableRow

Floats = NDArray[np.float64]


_ATTENTION_SIDES = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim")
_GEMM_SIDES = ("m", "n", "k")
GEMM_NEEDS = ("device", "dtype", *_GEMM_SIDES, "latency_ms")
ATTENTION_NEEDS = ("device", "attn_dtype", *_ATTENTION_SIDES, "latency_ms")

#: A table's name of a dtype → ours; AIConfigurator writes `sq` for SmoothQuant and `_wo` for weights alone.
_DTYPES = {
    "bfloat16": "bf16",
    "float16": "bf16",
    "bf16": "bf16",
    "fp16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8-block",
    "nvfp4": "nvfp4",
    "sq": "int8",
    "int8_wo": "int8-weights",
    "int4_wo": "int4-weights",
}

#: Dtypes whose tables time the quantisation of the left input too.
_CAST = ("fp8", "fp8-block", "nvfp4", "int8")

#: log of the 90th percentile over the 80 % quantile, about, of these fits' errors.
_TO_80 = 0.72

#: Half width of attention's interval, as a logarithm.
_ATTENTION_WIDE = 0.3


def is_attention(header: Sequence[str]) -> bool:
    """Whether a table's columns are those of attention."""
    return "head_dim" in header


def validate_kernels(rows: Sequence[TableRow]) -> Validation:
    """Predicted against measured seconds of every kernel; groups are device and dtype, and the kind."""
    batches: dict[tuple[str, str, bool], list[TableRow]] = defaultdict(list)
    for row in rows:
        attention = "head_dim" in row.cells
        dtype = row.cells.get("attn_dtype" if attention else "dtype", "")
        batches[row.cells.get("device", ""), dtype, attention].append(row)
    scored: list[ScoredRow] = []
    for (device, dtype, attention), some in batches.items():
        scored += _score(device, dtype, some, attention=attention)
    scored.sort(key=lambda row: (row.file, row.line))
    return Validation(rows=tuple(scored), groups=group_scores(scored))


def _score(device: str, dtype: str, rows: Sequence[TableRow], *, attention: bool) -> list[ScoredRow]:
    """Rows of one table, device and dtype; a row that cannot be predicted is kept with its reason."""
    kind, sides = ("attention", _ATTENTION_SIDES) if attention else ("gemm", _GEMM_SIDES)
    gpu = _device(device)
    names = (
        gpu.id if gpu is not None else device or "(no device)",
        _DTYPES.get(dtype, dtype or "(no dtype)"),
    )
    numbers = [[_number(row, key) for key in ("latency_ms", *sides)] for row in rows]
    reasons = [next((text for text in line if isinstance(text, str)), None) for line in numbers]
    readable = [at for at, reason in enumerate(reasons) if reason is None]
    predicted, wide, missing = _predicted(
        gpu, names, dtype, numbers=[numbers[at] for at in readable], kind=kind
    )
    found = dict(zip(readable, predicted, strict=True)) if missing is None else {}
    scored = []
    for at, row in enumerate(rows):
        seconds = float(found[at]) if at in found else None
        latency_ms = numbers[at][0]
        scored.append(
            ScoredRow(
                id=":".join([dtype, *(row.cells.get(key, "") for key in sides)]),
                file=row.file,
                line=row.line,
                groups=(f"{kind} {names[0]} {names[1]}", kind),
                unit="s",
                measured=None if isinstance(latency_ms, str) else latency_ms * 1e-3,
                predicted=seconds,
                low=None if seconds is None else seconds * float(np.exp(-wide)),
                high=None if seconds is None else seconds * float(np.exp(wide)),
                skipped=reasons[at] or missing,
            )
        )
    return scored


def _predicted(
    gpu: Gpu | None,
    names: tuple[str, str],
    dtype: str,
    *,
    numbers: Sequence[Sequence[float | str]],
    kind: str,
) -> tuple[Floats, float, str | None]:
    """Seconds of every row, the logarithmic half width of their interval, or why there are none."""
    none = np.empty(0)
    if gpu is None:
        return none, 0.0, f"device {names[0]!r} is not in the catalogue"
    if dtype not in _DTYPES:
        return none, 0.0, f"dtype {dtype!r} is not modelled"
    sides = np.array(numbers, float).reshape(len(numbers), -1).T[1:]
    if not len(numbers):
        return none, 0.0, None
    try:
        if kind == "attention":
            rates = attention_rates([gpu], names[1])
            return attention_time_s(rates, *sides, sustained=False), _ATTENTION_WIDE, None
        cast = names[1] in _CAST
        seconds = gemm_time_s(gemm_rates([gpu], [names[1]]), *sides, sustained=False, cast=cast)
        return seconds, float(np.log1p(fit_error(gpu, names[1])[1])) * _TO_80, None
    except InputError as error:
        return none, 0.0, error.what


def _device(name: str) -> Gpu | None:
    """The catalogue's GPU of a driver's name, also where the name carries more words ("B300 SXM6 AC")."""
    exact = gpu_by_nvml_name(name)
    if exact is not None:
        return exact
    words = name.lower().replace("nvidia", "").split()
    return next((one for one in gpus() if words and words[0] in (one.id, *one.aliases)), None)


def _number(row: TableRow, key: str) -> float | str:
    """A positive number of a row, or the sentence that says why it is none."""
    text = row.cells.get(key, "")
    try:
        value = float(text)
    except ValueError:
        return f"{key} = {text!r} is not a number"
    return value if 0 < value < np.inf else f"{key} = {text!r} is not a positive number"
