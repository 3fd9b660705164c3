"""How fast layouts are searched: GPT-3 175B on 1,024 GPUs and Llama 3.1 405B on 16,384, over the full space.

With CALCULON=<folder of a checkout of calculon-ai/calculon> its execution search of GPT-3 175B on 1,024 GPUs
runs beside, on as many processes as there are cores, for a time; it needs pandas, and its code is no part of
this project.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.catalog.clusters import cluster
from assay.catalog.models import model
from assay.domain.workload import Workload
from assay.plan.job import job
from assay.plan.search import search
from assay.plan.space import space_of
from assay.predict.calibration import network_of
from assay.predict.stack import stack
from benchmarks.figure import Figure

#: Calculon is asked for so many GPUs, and for so long.
PEER_GPUS, PEER_S = 1024, 20.0


def searched(name: str, gpus: int, batch: int) -> tuple[int, int, float]:
    """Points of the space, layouts evaluated, and seconds; every framework's layouts are in question."""
    shape = model(name)
    plan = job(
        Workload(model=shape, seq_len=shape.seq_len), stack("maxtext"), tokens=1e12, global_batch=batch
    )
    here = cluster("dgx-h100").of(gpus // 8)
    base = plan.on(here)
    start = time.perf_counter()
    found = search(base, space_of(base, gpus), network_of(here))
    return found.space.points, found.evaluated, time.perf_counter() - start


def run() -> Iterator[Figure]:
    """The figures of the search, and Calculon's beside where it is there."""
    points, evaluated, taken_s = searched("gpt3-175b", 1024, 1536)
    rate = evaluated / taken_s
    yield Figure(what=f"GPT-3 175B, 1,024 GPUs: points {points:,}", value=f"{evaluated:,}")
    yield Figure(what="layouts a second", value=f"{rate:,.0f}", reach="20,000")
    points, evaluated, taken_s = searched("llama-3.1-405b", 16384, 2048)
    yield Figure(what=f"Llama 3.1 405B, 16,384 GPUs: points {points:,}", value=f"{evaluated:,}")
    yield Figure(what="whole search", value=f"{taken_s:.1f} s", reach="30 s")
    held_GB = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield Figure(what="memory at most", value=f"{held_GB:.2f} GB", reach="1 GB")
    folder = os.environ.get("CALCULON")
    if folder is None:
        yield Figure(what="Calculon's execution search", value="not run", reach="CALCULON=folder")
        return
    theirs = peer_rate(Path(folder))
    yield Figure(what="Calculon's execution search, layouts a second", value=f"{theirs:,.0f}")
    yield Figure(what="times as many", value=f"{rate / theirs:,.0f}", reach="100")


def peer_rate(folder: Path) -> float:
    """Layouts a second that Calculon's own search gets through, on as many processes as there are cores."""
    cores = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("spawn").Pool(cores) as pool:
        return sum(pool.starmap(_peer_share, [(str(folder), share, cores) for share in range(cores)]))


def _peer_share(folder: str, share: int, shares: int) -> float:
    """The rate of one process over its share of degrees: Calculon's model, point by point as its search does.

    Its search walks whole sets of degrees and so cannot be stopped after a time; this is its innermost step.
    """
    sys.path.insert(0, folder)
    llm: Any = importlib.import_module("calculon.llm.llm").Llm
    machine: Any = importlib.import_module("calculon.system").System
    read = importlib.import_module("calculon.io").read_json_file
    app = llm.Application(read(f"{folder}/models/gpt3-175B.json"))
    system = machine(read(f"{folder}/systems/h100_80g_nvl8.json"))
    degrees = [
        (tp, pp, chunks)
        for tp in llm.get_all_tensor_parallelisms(PEER_GPUS, app.hidden, app.attn_heads)
        for pp in llm.get_all_pipeline_parallelisms(PEER_GPUS, tp, app.num_blocks)
        for chunks in llm.get_valid_pipeline_interleavings(app.num_blocks, pp)
    ]
    random.Random(1).shuffle(degrees)
    start, tried = time.perf_counter(), 0
    for tp, pp, chunks in degrees[share::shares]:
        dp = PEER_GPUS // (tp * pp)
        for micro_batch in llm.get_valid_microbatch_sizes(app.seq_size, tp, dp, 1536, pp):
            if time.perf_counter() - start > PEER_S:
                return tried / (time.perf_counter() - start)
            tried += 1
            try:
                one = llm(app, logging.Logger("peer"))
                one.compile(system, llm.Execution.from_json(_peer_point(tp, pp, dp, chunks, micro_batch)))
                one.run(system)
                one.get_stats_json(False)
            except llm.Error:
                continue
    return tried / (time.perf_counter() - start)


def _peer_point(tp: int, pp: int, dp: int, chunks: int, micro_batch: int) -> dict[str, object]:
    """One layout in Calculon's own keys."""
    return {
        "num_procs": PEER_GPUS,
        "tensor_par": tp,
        "pipeline_par": pp,
        "data_par": dp,
        "tensor_par_net": 0,
        "pipeline_par_net": 1,
        "data_par_net": 1,
        "batch_size": 1536,
        "microbatch_size": micro_batch,
        "datatype": "float16",
        "fused_activation": True,
        "attention_type": "multihead",
        "activation_recompute": "none",
        "pipeline_interleaving": chunks,
        "optimizer_sharding": dp > 1,
        "tensor_par_comm_type": "ar",
        "tensor_par_overlap": "none",
        "seq_par_ag_redo": False,
        "data_par_overlap": False,
        "weight_offload": False,
        "activations_offload": False,
        "optimizer_offload": False,
        "training": True,
    }
