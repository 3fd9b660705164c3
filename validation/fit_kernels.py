"""Fit the GEMM parameters of each architecture and dtype again on `validation/kernels`, and print them.

Run: python validation/fit_kernels.py [ARCHITECTURE…]. The text it prints is what stands in
`predict/kernel_fits.py`. With --pooled it fits one set per dtype over all architectures, for devices without
a table, and leaves each architecture out in turn; with --folds it holds out a fifth of the shapes five times.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import click
import numpy as np

from assay.catalog.devices import gpu
from assay.predict.kernel_fitting import Products, errors_of, fit_products
from assay.predict.tables import read_table
from assay.predict.validate_kernels import GEMM_NEEDS

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


def products(device: str, dtype: str) -> Products:
    """One device's measured products of one dtype."""
    file = Path(__file__).parent / "kernels" / f"gemm_{TABLES[device]}.csv.gz"
    lines = gzip.decompress(file.read_bytes()).decode("utf-8").splitlines()
    rows = [r.cells for r in read_table(lines, file=file.name, needs=GEMM_NEEDS)]
    rows = [r for r in rows if r["dtype"] == DTYPES[dtype]]
    m, n, k, latency_ms = np.array([[float(r[key]) for key in GEMM_NEEDS[2:]] for r in rows]).T
    return Products(gpu=gpu(device), m=m, n=n, k=k, measured_s=latency_ms * 1e-3)


def size(errors: np.ndarray) -> str:
    """Median and 90th percentile of the absolute error, as they stand in the source."""
    sizes = np.abs(np.expm1(errors))
    return f"({np.median(sizes):.3f}, {np.quantile(sizes, 0.9):.3f})"


def fit_architecture(architecture: str) -> None:
    """Parameters, ratios and errors of one architecture."""
    devices, dtypes = GROUPS[architecture]
    for dtype in dtypes:
        found = fit_products([products(device, dtype) for device in devices], dtype)
        click.echo(f'FIT ("{architecture}", "{dtype}"): {found.fit.rounded()},')
        for device, ratio in zip(devices[1:], found.ratios, strict=True):
            click.echo(f'RATIO ("{device}", "{dtype}"): {ratio:.3g},')
        for device, errors in zip(devices, found.errors, strict=True):
            click.echo(f'ERROR ("{device}", "{dtype}"): {size(errors)},')


def fit_pooled(dtype: str) -> None:
    """One set over all architectures, and its errors on each that was left out of it."""
    tables = {a: [products(d, dtype) for d in group[0]] for a, group in GROUPS.items() if dtype in group[1]}
    thin = {a: [one.every(4) for one in some] for a, some in tables.items()}
    whole = fit_products([one for some in thin.values() for one in some], dtype, ratios=False)
    click.echo(f'POOLED "{dtype}": {whole.fit.rounded()},')
    left = []
    for architecture, some in tables.items():
        others = [one for a, some in thin.items() if a != architecture for one in some]
        if others:
            fit = fit_products(others, dtype, ratios=False).fit
            left += [errors_of(fit, one, dtype) for one in some]
            click.echo(f"  without {architecture}: {[size(e) for e in left[-len(some) :]]}")
    if left:
        click.echo(f'POOLED_ERROR "{dtype}": {size(np.concatenate(left))},')


def fit_folds(architecture: str, dtype: str) -> None:
    """Errors on a fifth of the shapes that the fit never saw, five times."""
    tables = [products(device, dtype) for device in GROUPS[architecture][0]]
    folds = [np.random.default_rng(0).integers(0, 5, one.m.size) for one in tables]
    held: list[list[np.ndarray]] = [[] for _ in tables]
    for fold in range(5):
        fit = fit_products([t.where(f != fold) for t, f in zip(tables, folds, strict=True)], dtype)
        for at, ratio in enumerate((1.0, *fit.ratios)):
            held[at].append(errors_of(fit.fit, tables[at].where(folds[at] == fold), dtype, ratio))
    click.echo(f"{architecture} {dtype}: {[size(np.concatenate(errors)) for errors in held]}")


@click.command()
@click.argument("architectures", nargs=-1, type=click.Choice(list(GROUPS)))
@click.option("--pooled", is_flag=True, help="One fit per dtype over all architectures.")
@click.option("--folds", is_flag=True, help="Hold out a fifth of the shapes five times.")
def main(architectures: tuple[str, ...], pooled: bool, folds: bool) -> None:
    """Print the parameters, ratios and errors of ARCHITECTURES, or of all."""
    if pooled:
        for dtype in DTYPES:
            fit_pooled(dtype)
        return
    for architecture in architectures or GROUPS:
        if folds:
            for dtype in GROUPS[architecture][1]:
                fit_folds(architecture, dtype)
        else:
            fit_architecture(architecture)


if __name__ == "__main__":
    main()
