"""`assay validate training` and `kernels`: tables of measured figures joined with the predictor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.codec.text_file import read_lines
from assay.domain.score import Validation
from assay.predict.tables import TableRow, read_table
from assay.predict.validate_kernels import ATTENTION_NEEDS, GEMM_NEEDS, is_attention, validate_kernels
from assay.predict.validate_training import NEEDS, validate_training


def validate_training_files(files: Sequence[Path], *, cross: str | None = None) -> Validation:
    """Score the predictor on tables of training runs."""
    rows: list[TableRow] = []
    for file in files:
        rows += read_table(read_lines(file), file=str(file), needs=NEEDS)
    return validate_training(rows, cross=cross)


def validate_kernel_files(files: Sequence[Path]) -> Validation:
    """Score the kernel models on tables of matrix products and attention."""
    rows: list[TableRow] = []
    for file in files:
        lines = read_lines(file)
        header = lines[0].split(",") if lines else []
        needs = ATTENTION_NEEDS if is_attention(header) else GEMM_NEEDS
        rows += read_table(lines, file=str(file), needs=needs)
    return validate_kernels(rows)
