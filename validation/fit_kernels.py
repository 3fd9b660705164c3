"""Fit the GEMM parameters of each architecture and dtype again on `validation/kernels`, and print them.

Needs SciPy (a development dependency). Run: python validation/fit_kernels.py
"""

from __future__ import annotations

import gzip
from dataclasses import fields, replace
from pathlib import Path

import click
import numpy as np
from scipy.optimize import minimize

from assay.catalog.devices import gpu
from assay.predict.kernel_model import GemmFit
from assay.predict.kernels import GemmRates, gemm_rates, gemm_time_s
from assay.predict.tables import read_table

#: Parameter → lowest and highest value a fit may take.
RANGES = {
    "rate_frac": (0.3, 1.2),
    "small_tile_loss": (1e-3, 1.0),
    "ramp_k": (1.0, 800.0),
    "launch_s": (5e-7, 2e-5),
    "wave_s": (1e-8, 2e-5),
    "stream_frac": (1e-3, 1.0),
    "memory_frac": (0.3, 1.2),
    "join": (1.5, 8.0),
    "throttle": (1e-4, 0.3),
    "l2_ratio": (0.5, 50.0),
    "cast_bytes": (1e-2, 15.0),
}

GROUPS = (
    (("a100-sxm-80gb",), ("bf16",)),
    (("h100-sxm", "h200-sxm"), ("bf16", "fp8", "fp8-block")),
    (("b200", "gb200"), ("bf16", "fp8", "fp8-block", "nvfp4")),
    (("b300", "gb300"), ("bf16", "fp8", "fp8-block", "nvfp4")),
    (("l40s",), ("bf16", "fp8", "fp8-block")),
    (("rtx-pro-6000-server",), ("bf16", "fp8", "fp8-block", "nvfp4")),
)
TABLES = {"a100-sxm-80gb": "a100_sxm", "h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200": "b200_sxm"}
TABLES |= {"gb200": "gb200", "b300": "b300_sxm", "gb300": "gb300", "l40s": "l40s"}
TABLES["rtx-pro-6000-server"] = "rtx_pro_6000_server"
DTYPES = {"bf16": "bfloat16", "fp8": "fp8", "fp8-block": "fp8_block", "nvfp4": "nvfp4"}


def shapes(device: str, dtype: str) -> np.ndarray:
    """Columns m, n, k and measured seconds of one table."""
    file = Path(__file__).parent / "kernels" / f"gemm_{TABLES[device]}.csv.gz"
    lines = gzip.decompress(file.read_bytes()).decode("utf-8").splitlines()
    rows = [r.cells for r in read_table(lines, file=file.name, needs=("m", "n", "k"))]
    return np.array(
        [
            [float(r["m"]), float(r["n"]), float(r["k"]), float(r["latency_ms"]) * 1e-3]
            for r in rows
            if r["dtype"] == DTYPES[dtype]
        ]
    )


def fit_group(devices: tuple[str, ...], dtype: str) -> None:
    """Fit one architecture and dtype, and print the parameters and each device's error."""
    tables = [shapes(device, dtype) for device in devices]
    base = [gemm_rates([gpu(device)], [dtype]) for device in devices]
    low = np.log([bounds[0] for bounds in RANGES.values()])
    high = np.log([bounds[1] for bounds in RANGES.values()])

    def rates(z: np.ndarray) -> list[GemmRates]:
        values = np.exp(low + (high - low) / (1 + np.exp(-np.clip(z[: len(low)], -30, 30))))
        named = {name: np.array([value]) for name, value in zip(RANGES, values, strict=True)}
        ratios = np.exp(np.concatenate([[0.0], z[len(low) :]]))
        return [
            replace(one, peak_flop_per_s=one.peak_flop_per_s * ratio, **named)
            for one, ratio in zip(base, ratios, strict=True)
        ]

    def errors(z: np.ndarray) -> list[np.ndarray]:
        cast = dtype != "bf16"
        return [
            np.log(gemm_time_s(r, t[:, 0], t[:, 1], t[:, 2], sustained=False, cast=cast) / t[:, 3])
            for r, t in zip(rates(z), tables, strict=True)
        ]

    def loss(z: np.ndarray) -> float:
        clipped = [np.minimum(np.abs(e), 0.5) for e in errors(z)]
        return float(np.mean([np.mean(e) + 0.5 * np.sqrt(np.mean(e**2)) for e in clipped]))

    z = np.zeros(len(low) + len(devices) - 1)
    for _ in range(6):
        z = minimize(loss, z, method="Nelder-Mead", options={"maxfev": 1000, "adaptive": True}).x
    first = rates(z)[0]
    found = {e.name: float(f"{getattr(first, e.name)[0]:.3g}") for e in fields(GemmFit)}
    click.echo(f"{devices} {dtype} {found}")
    for device, e in zip(devices, errors(z), strict=True):
        size = np.abs(np.expm1(e))
        click.echo(f"  {device}: median {np.median(size):.3f}, p90 {np.quantile(size, 0.9):.3f}")


if __name__ == "__main__":
    for devices, dtypes in GROUPS:
        for dtype in dtypes:
            fit_group(devices, dtype)
