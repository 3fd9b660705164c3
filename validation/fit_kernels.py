"""Fit the GEMM parameters of each architecture and dtype again on `validation/kernels`, and print them.

Needs SciPy (a development dependency). Run: python validation/fit_kernels.py [ARCHITECTURE…]
The text it prints is what stands in `predict/kernel_fits.py`.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, fields, replace
from pathlib import Path

import click
import numpy as np
from scipy.optimize import least_squares, minimize

from assay.catalog.devices import gpu
from assay.predict.kernel_model import TILES, GemmFit
from assay.predict.kernels import GemmRates, gemm_rates, gemm_time_s
from assay.predict.tables import read_table

#: Parameter → lowest and highest value a fit may take.
RANGES = {
    "rate_frac": (0.2, 1.0),
    "small_tile_loss": (1e-3, 1.0),
    "ramp_k": (1.0, 800.0),
    "launch_s": (5e-7, 2e-5),
    "wave_s": (1e-8, 1e-5),
    "split_s": (1e-7, 1e-3),
    "stream_frac": (1e-3, 1.0),
    "memory_frac": (0.3, 1.0),
    "join": (1.0, 8.0),
    "throttle": (1e-4, 0.6),
    "l2_ratio": (1.0, 20.0),
    "l2_bytes": (1e6, 3e8),
    "unpaired": (1.0, 4.0),
    "cast_bytes": (1e-2, 15.0),
    "cast_row_s": (1e-11, 1e-7),
}

#: Architecture → its devices with a table, and their dtypes.
GROUPS = {
    "ampere": (("a100-sxm-80gb",), ("bf16", "int8", "int8-weights", "int4-weights")),
    "hopper": (("h100-sxm", "h200-sxm"), ("bf16", "fp8", "fp8-block")),
    "blackwell": (("b200", "gb200"), ("bf16", "fp8", "fp8-block", "nvfp4")),
    "blackwell-ultra": (("b300", "gb300"), ("bf16", "fp8", "fp8-block", "nvfp4")),
    "ada": (("l40s",), ("bf16", "fp8", "fp8-block")),
    "blackwell-rtx": (("rtx-pro-6000-server",), ("bf16", "fp8", "fp8-block", "nvfp4")),
}
TABLES = {"a100-sxm-80gb": "a100_sxm", "h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200": "b200_sxm"}
TABLES |= {"gb200": "gb200", "b300": "b300_sxm", "gb300": "gb300", "l40s": "l40s"}
TABLES["rtx-pro-6000-server"] = "rtx_pro_6000_server"
DTYPES = {"bf16": "bfloat16", "fp8": "fp8", "fp8-block": "fp8_block", "nvfp4": "nvfp4"}
DTYPES |= {"int8": "sq", "int8-weights": "int8_wo", "int4-weights": "int4_wo"}
#: Dtypes whose tables time the quantisation of the left input too.
CAST = ("fp8", "fp8-block", "nvfp4", "int8")


@dataclass(frozen=True)
class Found:
    """A fit: the parameters, each further device's ratio, and each device's logarithmic errors."""

    loss: float
    fit: GemmFit
    ratios: dict[str, float]
    errors: dict[str, np.ndarray]


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


def errors_of(rates: GemmRates, table: np.ndarray, *, cast: bool) -> np.ndarray:
    """log(predicted / measured) of every row."""
    m, n, k, measured_s = table.T
    return np.log(gemm_time_s(rates, m, n, k, sustained=False, cast=cast) / measured_s)


def fit_group(tables: dict[str, np.ndarray], dtype: str, tiles: str) -> Found:
    """Fit one architecture and dtype with one family of tiles: robust least squares, then the loss itself."""
    cast = dtype in CAST
    bounds = {name: span for name, span in RANGES.items() if cast or not name.startswith("cast")}
    if tiles == "library":
        del bounds["unpaired"]
    low, high = np.log(np.array(list(bounds.values())).T)
    base = {device: plain_rates(device, dtype, tiles) for device in tables}

    def rates(z: np.ndarray) -> list[GemmRates]:
        values = np.exp(low + (high - low) / (1 + np.exp(-np.clip(z[: len(low)], -30, 30))))
        named = {name: np.array([value]) for name, value in zip(bounds, values, strict=True)}
        ratios = np.exp(np.concatenate([[0.0], z[len(low) :]]))
        return [
            replace(one, peak_flop_per_s=one.peak_flop_per_s * ratio, **named)
            for one, ratio in zip(base.values(), ratios, strict=True)
        ]

    def errors(z: np.ndarray) -> list[np.ndarray]:
        return [errors_of(r, t, cast=cast) for r, t in zip(rates(z), tables.values(), strict=True)]

    def loss(z: np.ndarray) -> float:
        clipped = [np.minimum(np.abs(e), 0.5) for e in errors(z)]
        return float(np.mean([np.mean(e) + 0.5 * np.sqrt(np.mean(e**2)) for e in clipped]))

    best, random = np.zeros(len(low) + len(tables) - 1), np.random.default_rng(0)
    start = best
    for _ in range(3):
        z = least_squares(
            lambda z: np.concatenate(errors(z)),
            start,
            loss="soft_l1",
            f_scale=0.05,
            max_nfev=50,
            diff_step=1e-3,
            bounds=(-8, 8),
        ).x
        best = min(best, z, key=loss)
        start = np.clip(best + random.normal(0, 0.7, len(best)), -7.9, 7.9)
    best = minimize(loss, best, method="Nelder-Mead", options={"maxfev": 1000, "adaptive": True}).x
    first = rates(best)[0]
    values = {e.name: float(f"{getattr(first, e.name)[0]:.3g}") for e in fields(GemmFit) if e.name in bounds}
    ratios = dict(zip(list(tables)[1:], np.exp(best[len(low) :]), strict=True))
    found = dict(zip(tables, errors(best), strict=True))
    return Found(loss=loss(best), fit=GemmFit(tiles=tiles, **values), ratios=ratios, errors=found)


def plain_rates(device: str, dtype: str, tiles: str) -> GemmRates:
    """Rates of a device before any fit: its datasheet and a family of tiles."""
    rates = gemm_rates([gpu(device)], [dtype])
    peak = np.array([gpu(device).peak(_PEAKS.get(dtype, "bf16"))], float)
    none = {"unpaired": np.ones(1), "cast_bytes": np.zeros(1), "cast_row_s": np.zeros(1)}
    return replace(rates, peak_flop_per_s=peak, tiles=np.array([TILES[tiles]], float), **none)


_PEAKS = {"fp8": "fp8", "fp8-block": "fp8", "nvfp4": "fp4", "int8": "int8"}


@click.command()
@click.argument("architectures", nargs=-1, type=click.Choice(list(GROUPS)))
def main(architectures: tuple[str, ...]) -> None:
    """Print the parameters, ratios and errors of ARCHITECTURES, or of all."""
    for architecture in architectures or GROUPS:
        devices, dtypes = GROUPS[architecture]
        for dtype in dtypes:
            tables = {device: shapes(device, dtype) for device in devices}
            found = min((fit_group(tables, dtype, tiles) for tiles in TILES), key=lambda one: one.loss)
            click.echo(f'FIT ("{architecture}", "{dtype}"): {found.fit},')
            for device, ratio in found.ratios.items():
                click.echo(f'RATIO ("{device}", "{dtype}"): {ratio:.3g},')
            for device, e in found.errors.items():
                size = np.abs(np.expm1(e))
                pair = f"({np.median(size):.3f}, {np.quantile(size, 0.9):.3f})"
                click.echo(f'ERROR ("{device}", "{dtype}"): {pair},')


if __name__ == "__main__":
    main()
