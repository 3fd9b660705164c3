"""What the predictor's tests share: a small network, a situation, and the reference transformer."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from assay.catalog.devices import gpu
from assay.catalog.models import model
from assay.domain.layout import Layout
from assay.domain.workload import Workload
from assay.predict.network import LinkNetwork
from assay.predict.situation import Situation
from assay.predict.stack import stack
from assay.predict.tables import TableRow, read_table

VALIDATION = Path(__file__).parents[2] / "validation"


def h100_network() -> LinkNetwork:
    return LinkNetwork(
        domain_ranks=np.array([8]),
        link_Bps=np.array([360e9]),
        nic_Bps=np.array([44e9]),
        link_s=np.array([1.5e-6]),
        nic_s=np.array([8e-6]),
    )


def situation(
    name: str = "gpt3-175b",
    batch: int = 1536,
    gpu_id: str = "h100-sxm",
    stack_id: str = "megatron",
    **layout: object,
) -> Situation:
    shape = model(name)
    degrees = {"tp": 8, "pp": 8, "dp": 16} | layout
    return Situation(
        workload=Workload(model=shape, seq_len=shape.seq_len),
        layout=Layout(**degrees),  # type: ignore[arg-type]
        global_batch=batch,
        gpu=gpu(gpu_id),
        stack=stack(stack_id),
    )


def carried(folder: str, name: str, needs: tuple[str, ...]) -> list[TableRow]:
    text = gzip.decompress((VALIDATION / folder / name).read_bytes()).decode("utf-8")
    return read_table(text.splitlines(), file=name, needs=needs)
