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

GEMM_NEEDS = ("device", "dtype", "m", "n", "k", "latency_ms")
ATTENTION_NEEDS = (
    "device",
    "attn_dtype",
    "batch_size",
    "isl",
    "num_heads",
    "num_key_value_heads",
    "head_dim",
)

_DTYPES = {"bfloat16": "bf16", "float16": "bf16", "fp8": "fp8", "fp8_block": "fp8-block", "nvfp4": "nvfp4"}

#: log of the 90th percentile over the 80 % quantile, about, of these fits' errors.
_TO_80 = 0.72


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
    kind = "attention" if attention else "gemm"
    measured = np.array([_number(row, "latency_ms") * 1e-3 for row in rows])
    gpu = _device(device)
    reason = None
    if gpu is None:
        reason = f"device {device!r} is not in the catalogue"
    elif dtype not in _DTYPES:
        reason = f"dtype {dtype!r} is not modelled"
    predicted: Floats | None = None
    wide = 0.3
    if gpu is not None and reason is None:
        try:
            if attention:
                predicted = _attention(gpu, dtype, rows)
            else:
                predicted = _gemm(gpu, _DTYPES[dtype], rows, cast=dtype not in ("bfloat16", "float16"))
                wide = float(np.log1p(fit_error(gpu, _DTYPES[dtype])[1])) * _TO_80
        except InputError as error:
            reason = error.what
    name = gpu.id if gpu is not None else device
    return [
        ScoredRow(
            id=_id(row, dtype, attention=attention),
            file=row.file,
            line=row.line,
            groups=(f"{kind} {name} {_DTYPES.get(dtype, dtype)}", kind),
            unit="s",
            measured=float(measured[at]),
            predicted=None if predicted is None else float(predicted[at]),
            low=None if predicted is None else float(predicted[at] * np.exp(-wide)),
            high=None if predicted is None else float(predicted[at] * np.exp(wide)),
            skipped=reason,
        )
        for at, row in enumerate(rows)
    ]


def _gemm(gpu: Gpu, dtype: str, rows: Sequence[TableRow], *, cast: bool) -> Floats:
    m, n, k = (np.array([_number(row, key) for row in rows]) for key in ("m", "n", "k"))
    return gemm_time_s(gemm_rates([gpu], [dtype]), m, n, k, sustained=False, cast=cast)


def _attention(gpu: Gpu, dtype: str, rows: Sequence[TableRow]) -> Floats:
    keys = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim")
    batch, length, heads, kv_heads, width = (np.array([_number(row, key) for row in rows]) for key in keys)
    rates = attention_rates([gpu], _DTYPES[dtype])
    return attention_time_s(rates, batch, length, heads, kv_heads, width, sustained=False)


def _id(row: TableRow, dtype: str, *, attention: bool) -> str:
    keys = ("m", "n", "k")
    if attention:
        keys = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim")  # type: ignore[assignment]
    return ":".join([dtype, *(row.cells.get(key, "") for key in keys)])


def _device(name: str) -> Gpu | None:
    """The catalogue's GPU of a driver's name, also where the name carries more words ("B300 SXM6 AC")."""
    exact = gpu_by_nvml_name(name)
    if exact is not None:
        return exact
    words = name.lower().replace("nvidia", "").split()
    return next((one for one in gpus() if words and words[0] in (one.id, *one.aliases)), None)


def _number(row: TableRow, key: str) -> float:
    text = row.cells.get(key, "")
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{key} = {text!r} is not a number", where=row.where) from None
