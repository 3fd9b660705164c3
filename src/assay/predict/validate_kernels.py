"""Scoring the kernel models on measured tables of matrix products and forward attention."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.catalog.devices import gpu_by_nvml_name, gpus
from assay.domain.device import Gpu
from assay.domain.score import ScoredRow, Validation, group_scores
from assay.errors import InputError
from assay.predict.kernel_fits import DATASHEET_ERRORS, DATASHEET_FIT, SIBLING_ERROR
from assay.predict.kernel_fitting import Products, fit_products
from assay.predict.kernel_model import GemmFit
from assay.predict.kernels import (
    CAST_DTYPES,
    DATASHEET_ATTENTION,
    attention_rates,
    attention_time_s,
    fit_error,
    gemm_rates,
    gemm_time_s,
)
from assay.predict.physics import FITTED
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

#: log of the 90th percentile over the 80 % quantile, about, of these fits' errors.
_TO_80 = 0.72

#: Half width of attention's range, as a logarithm: on a device with a table, and on one without.
_ATTENTION_WIDE = (0.3, 0.5)

#: Every so many rows of a device of another architecture are enough for a fit over several.
_STRANGERS_STEP = 4


def is_attention(header: Sequence[str]) -> bool:
    """Whether a table's columns are those of attention."""
    return "head_dim" in header


def validate_kernels(rows: Sequence[TableRow], *, cross: bool = False) -> Validation:
    """Predicted against measured seconds of every kernel; groups are device and dtype, and the kind.

    With `cross` no device is predicted from its own table: products are fitted on the other devices of its
    architecture among `rows`, without any on those of other architectures; attention takes the neutral
    values of a device without a table. Attention whose table has a column `pass` is that of a training step:
    forward or backward, by the library that `framework` names.
    """
    tables: dict[tuple[str, str, str, str], list[TableRow]] = defaultdict(list)
    for row in rows:
        attention = "head_dim" in row.cells
        kind = " ".join(("attention", row.cells.get("pass", ""))).strip() if attention else "gemm"
        library = row.cells.get("framework", "") if "pass" in row.cells else ""
        dtype = row.cells.get("attn_dtype" if attention else "dtype", "")
        tables[kind, row.cells.get("device", ""), dtype, library].append(row)
    read = [_Table.of(*key, some) for key, some in tables.items()]
    scored = [one for table in read for one in _score(table, *_predicted(table, read if cross else None))]
    scored.sort(key=lambda row: (row.file, row.line))
    return Validation(rows=tuple(scored), groups=group_scores(scored), cross="source" if cross else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Rows of one device, dtype and kind; `values`: milliseconds and sides, or what is wrong with a cell."""

    kind: str
    device: str
    gpu: Gpu | None
    said: str
    dtype: str | None
    library: str
    rows: Sequence[TableRow]
    values: Sequence[Sequence[float | str]]

    @classmethod
    def of(cls, kind: str, device: str, dtype: str, library: str, rows: Sequence[TableRow]) -> _Table:
        """The table with its device and dtype looked up."""
        return cls(
            kind=kind,
            device=device,
            gpu=_device(device),
            said=dtype,
            dtype=_DTYPES.get(dtype),
            library=library,
            rows=rows,
            values=[[_number(row, key) for key in ("latency_ms", *_sides(kind))] for row in rows],
        )

    @property
    def group(self) -> str:
        """Kind, device and dtype."""
        device = self.gpu.id if self.gpu is not None else self.device or "(no device)"
        return f"{self.kind} {device} {self.dtype or self.said or '(no dtype)'}"

    @property
    def readable(self) -> list[int]:
        """Positions of the rows whose every cell is a number."""
        return [at for at, line in enumerate(self.values) if not any(isinstance(v, str) for v in line)]

    def numbers(self) -> Floats:
        """Milliseconds and sides of the readable rows, shape (1 + sides, rows)."""
        width = 1 + len(_sides(self.kind))
        return np.array([self.values[at] for at in self.readable], float).reshape(-1, width).T


def _sides(kind: str) -> tuple[str, ...]:
    return _GEMM_SIDES if kind == "gemm" else _ATTENTION_SIDES


def _in_a_step(table: _Table) -> float:
    """Time of a training step's attention over the table's forward kernels: 1 where it is not of a step."""
    if table.kind == "attention" or table.gpu is None:
        return 1.0
    blackwell = table.gpu.architecture.startswith("blackwell")
    flash2 = table.library.lower().startswith(("flashattention-2", "flash2"))
    backward = FITTED.flash_backward if flash2 else FITTED.attention_backward
    older = FITTED.flash_ampere if table.gpu.architecture == "ampere" else FITTED.flash_hopper
    forward = FITTED.attention_blackwell if blackwell else FITTED.attention
    return forward * (older if flash2 else 1.0) * (backward if table.kind.endswith("backward") else 1.0)


def _score(table: _Table, predicted: Floats, wide: float, missing: str | None) -> list[ScoredRow]:
    """Every row of a table; one that cannot be predicted is kept with its reason."""
    found = {} if missing else dict(zip(table.readable, predicted.tolist(), strict=True))
    scored = []
    for at, (row, values) in enumerate(zip(table.rows, table.values, strict=True)):
        seconds = found.get(at)
        wrong = next((value for value in values if isinstance(value, str)), None)
        cells = (row.cells.get(key, "") for key in _sides(table.kind))
        scored.append(
            ScoredRow(
                id=":".join([table.said, *cells]),
                file=row.file,
                line=row.line,
                groups=(table.group, table.kind.split()[0]),
                unit="s",
                measured=None if isinstance(values[0], str) else values[0] * 1e-3,
                predicted=seconds,
                low=None if seconds is None else seconds * float(np.exp(-wide)),
                high=None if seconds is None else seconds * float(np.exp(wide)),
                skipped=wrong or missing,
            )
        )
    return scored


def _predicted(table: _Table, others: Sequence[_Table] | None) -> tuple[Floats, float, str | None]:
    """Seconds of the readable rows, the logarithmic half width of their range, or why there are none."""
    if table.gpu is None:
        return np.empty(0), 0.0, f"device {table.device or '(no device)'!r} is not in the catalogue"
    if table.dtype is None:
        return np.empty(0), 0.0, f"dtype {table.said!r} is not modelled"
    sides = table.numbers()[1:]
    try:
        if table.kind != "gemm":
            plain = DATASHEET_ATTENTION if others is not None else None
            rates = attention_rates([table.gpu], table.dtype, fit=plain)
            wide = _ATTENTION_WIDE[plain is not None or table.kind != "attention"]
            return attention_time_s(rates, *sides, sustained=False) * _in_a_step(table), wide, None
        fit, error = None, fit_error(table.gpu, table.dtype)
        if others is not None:
            fit, error = _fit_without(table.gpu, table.dtype, others)
        cast = table.dtype in CAST_DTYPES
        rated = gemm_rates([table.gpu], [table.dtype], fit=fit)
        seconds = gemm_time_s(rated, *sides, sustained=False, cast=cast)
        # On a strange architecture the error is mostly one bias, of which no part may be taken off.
        part = 1.0 if error == DATASHEET_ERRORS[table.dtype] else _TO_80
        return seconds, float(np.log1p(error[1])) * part, None
    except InputError as fault:
        return np.empty(0), 0.0, fault.what


def _fit_without(gpu: Gpu, dtype: str, tables: Sequence[_Table]) -> tuple[GemmFit, tuple[float, float]]:
    """A fit on the other devices of a GPU's architecture, or else on all others; and its stated error."""
    others: dict[str, list[Products]] = {"siblings": [], "strangers": []}
    for table in tables:
        if table.kind == "gemm" and table.dtype == dtype and table.gpu is not None and table.gpu.id != gpu.id:
            latency_ms, m, n, k = table.numbers()
            some = Products(gpu=table.gpu, m=m, n=n, k=k, measured_s=latency_ms * 1e-3)
            near = table.gpu.architecture == gpu.architecture
            others["siblings" if near else "strangers"].append(some)
    if others["siblings"]:
        return fit_products(others["siblings"], dtype).fit, SIBLING_ERROR
    if others["strangers"]:
        thin = [some.every(_STRANGERS_STEP) for some in others["strangers"]]
        return fit_products(thin, dtype, ratios=False).fit, DATASHEET_ERRORS[dtype]
    return DATASHEET_FIT, DATASHEET_ERRORS[dtype]


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
