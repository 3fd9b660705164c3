"""One rank of one benchmark, in a process of its own: `python -m assay.measure.worker SPEC PLACE`.

PLACE is the rank within the task. The run's own number of that rank, which names its files and its subject,
may be another one: a task goes on without the ranks that are lost.

Needs the standard library and torch alone. It appends what it finds to files of its own as it goes, and
always ends with a barrier and `destroy_process_group`, without which Gloo aborts.
"""

from __future__ import annotations

import ctypes
import datetime
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from assay.errors import AssayError, MeasurementError
from assay.measure.context import Context
from assay.measure.registry import Benchmark, find
from assay.measure.sockets import record_retransmits
from assay.measure.transport import Witness, proof_needed
from assay.store.append import LineFile, SampleFile

_PR_SET_PDEATHSIG = 1
#: Of malloc.h: how much free memory at the heap's end goes back, and how many maps of their own there may be.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def main(argv: list[str] | None = None, *, parent: int | None = None) -> int:
    """Run the benchmark that SPEC names at place PLACE; 0 when it ran to its end.

    `parent` is the process with which this one ends, where it is not the agent itself.
    """
    spec_path, place_text = (argv or sys.argv[1:])[:2]
    spec: dict[str, Any] = json.loads(Path(spec_path).read_text(encoding="utf-8"))
    die_with_parent(parent or spec["agent_pid"])
    context = _context(spec, int(place_text))
    if not context.lines.path.stat().st_size:
        context.lines.append(
            {"type": "header", "schema_version": 1, "run": context.run, "rank": context.number}
        )
    context.event("worker_started", pid=os.getpid(), host=context.host, proof=proof_needed(context))
    benchmark = find(context.benchmark)
    if not context.on_gpu:
        keep_memory()
    try:
        _join(context, spec)
    except (RuntimeError, ImportError, OSError, ValueError) as error:
        return _fail(context, benchmark, f"the ranks did not find each other: {_first_line(error)}")
    witness = Witness(context) if context.world > 1 else None
    code = _run(context, benchmark)
    if witness:
        witness.record()
    if code == 0:
        context.event("worker_done")
    if len(set(context.hosts)) > 1:
        record_retransmits(context, dict(zip(spec["addresses"], context.hosts, strict=True)))
    _leave(context, code)
    context.lines.sync()
    context.samples.sync()
    return code


def _run(context: Context, benchmark: Benchmark) -> int:
    try:
        benchmark.run(context)
    except MeasurementError as error:
        return _fail(context, benchmark, error.what)
    except Exception as error:  # noqa: BLE001 - the per-job boundary: one failed benchmark must not end the run
        traceback.print_exc()
        return _fail(context, benchmark, f"{type(error).__name__}: {_first_line(error)}")
    return 0


def _fail(context: Context, benchmark: Benchmark, reason: str) -> int:
    """Record every quantity of the benchmark as not measured; 1 tells the agent that the rank failed."""
    for quantity in benchmark.yields:
        context.missing(quantity, context.units[quantity], reason)
    context.event("task_failed", reason)
    return 1


def _context(spec: dict[str, Any], rank: int) -> Context:
    folder = Path(spec["folder"])
    number = spec["members"][rank]
    return Context(
        run=spec["run"],
        folder=spec["folder"],
        scratch=spec["scratch"],
        benchmark=spec["benchmark"],
        replicate=spec["replicate"],
        rank=rank,
        numbers=tuple(spec["members"]),
        local_rank=spec["local_ranks"][rank],
        hosts=tuple(spec["hosts"]),
        device=spec["devices"][rank],
        backend=spec["backend"],
        seed=spec["seed"],
        command_time_s=spec["command_time_s"],
        launched_s=spec["launched_s"],
        deadline_s=spec["deadline_s"],
        settings=spec["settings"],
        units=spec["units"],
        crowded=spec["crowded"],
        lines=LineFile(folder / f"rank-{number:04d}.jsonl"),
        samples=SampleFile(folder / f"samples/rank-{number:04d}.f64", f"samples/rank-{number:04d}.f64"),
    )


def _join(context: Context, spec: dict[str, Any]) -> None:
    """Threads, device, and the process group: host tensors over Gloo, device tensors over the backend."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(spec["threads"][context.rank])
    torch.manual_seed(context.seed + context.number)
    backend = "gloo"
    if context.on_gpu:
        torch.cuda.set_device(context.device)
        backend = f"cpu:gloo,cuda:{context.backend}"
    dist.init_process_group(
        backend,
        init_method=spec["rendezvous"],
        rank=context.rank,
        world_size=context.world,
        timeout=datetime.timedelta(seconds=spec["timeout_s"]),
    )


def _leave(context: Context, code: int) -> None:
    """Wait for the others and take the group down; after a failure there is nobody to wait for."""
    import torch.distributed as dist

    if code == 0:
        try:
            context.barrier()
        except RuntimeError as error:
            context.event("barrier_failed", _first_line(error))
    try:
        dist.destroy_process_group()
    except RuntimeError as error:
        context.event("group_not_destroyed", _first_line(error))


def die_with_parent(pid: int) -> None:
    """Ask the kernel to end this process with its parent, so that no load outlives a killed command."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != pid:
            sys.exit(1)


def keep_memory() -> None:
    """Have the C library keep what is freed, as torch keeps a GPU's memory.

    Without it large results are given back and faulted in again page by page, as often as chance has it.
    """
    if sys.platform == "linux":
        tune = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if tune is not None:
            tune(_M_MMAP_MAX, 0)
            tune(_M_TRIM_THRESHOLD, 2**31 - 1)


def _first_line(error: BaseException) -> str:
    text = error.what if isinstance(error, AssayError) else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0][:300]


if __name__ == "__main__":
    sys.exit(main())
