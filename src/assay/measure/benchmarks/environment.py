"""What the ranks run on: each machine's inventory, what torch sees, and what each rank was given."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping

from assay.measure.context import Context, Value
from assay.measure.registry import benchmark
from assay.probe import Fact, Roots, inventory, read, steal_facts
from assay.probe.cpu import read_cpus
from assay.probe.fact import known
from assay.probe.masking import masked

#: Variables that change what a rank measures.
_PREFIXES = ("NCCL_", "RCCL_", "GLOO_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "KMP_", "CUDA_", "UCX_")
#: What the inventory tells of the first rank and is told of every rank instead.
_PER_RANK = ("cpu.affinity", "cpu.quota_cores", "cpu.effective_cores")


@benchmark(
    "environment",
    summary="inventory of every machine and what each rank was given",
    yields=("gpu.name", "gpu.count", "software.<name>.version"),
    once=True,
    wave="inventory",
)
def environment(context: Context) -> None:
    """Facts only: of the node by its first rank, of each rank by itself, so that differences show.

    The hypervisor steals time only from a processor that wants to run, so all ranks are busy for a moment
    while the first of a node watches.
    """
    roots = Roots.under("/", home=os.path.expanduser("~"))
    context.barrier()
    before = read(roots.proc / "stat")
    _keep_busy(context.settings.get("busy_s", 0.5))
    after = read(roots.proc / "stat")
    facts: list[Fact] = []
    if context.local_rank == 0:
        node = f"node:{context.host}"
        stolen = steal_facts(node, before, after)
        replaced = {fact.key for fact in stolen}
        facts = [fact for fact in inventory(host=context.host) if fact.key not in replaced]
        facts += stolen
        if leaf := leaf_of(os.environ):
            facts.append(known(node, "leaf", leaf, "text", "SLURM_TOPOLOGY_ADDR"))
    own = all(_host_of(str(fact.subject)) == context.host for fact in facts)
    context.require_everywhere(
        own and bool(facts) == (context.local_rank == 0), "the inventory is not of this host"
    )
    _record(context, facts)
    for key, value, unit, source in (*_rank_facts(context, roots), *_torch_facts(context)):
        context.fact(key, f"rank:{context.number}", value, unit, source=source)


def leaf_of(env: Mapping[str, str]) -> str | None:
    """The switch right above this node as Slurm's topology/tree tells its jobs: `spine0.leaf3.node07`.

    The pattern beside it, `switch.switch.node`, says how many parts there are: a node's name may have dots.
    """
    kinds = env.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").split(".")
    names = env.get("SLURM_TOPOLOGY_ADDR", "").split(".", len(kinds) - 1)
    told = kinds[-2:] == ["switch", "node"] and len(names) == len(kinds)
    return names[-2] if told else None


def _keep_busy(seconds: float) -> None:
    """Multiply small matrices on all threads of this rank."""
    import torch

    a = torch.ones(512, 512)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        a @ a


def _host_of(subject: str) -> str:
    """`h0` of `node:h0`, `gpu:h0/3` and `port:h0/mlx5_0[1]`."""
    return subject.partition(":")[2].partition("/")[0]


def _record(context: Context, facts: Iterable[Fact]) -> None:
    """The facts of the node, but for what each rank tells of itself; a built-in NCCL is told by torch."""
    for fact in facts:
        if fact.key in _PER_RANK or fact.key.startswith("env."):
            continue
        value, reason, source = fact.value, fact.reason, fact.source
        if fact.key == "software.nccl.version" and value is None and (version := _nccl_version(context)):
            value, reason, source = version, None, "torch.cuda.nccl"
        context.fact(fact.key, str(fact.subject), value, fact.unit, reason=reason, source=source)


def _rank_facts(context: Context, roots: Roots) -> Iterator[tuple[str, Value, str, str]]:
    """Cores that this rank may use, and the variables that it was given."""
    for fact in read_cpus(f"node:{context.host}", roots):
        if fact.key in _PER_RANK and fact.value is not None:
            yield fact.key, fact.value, fact.unit, fact.source
    cores = sorted(os.sched_getaffinity(0))
    yield "cpu.affinity_list", _ranges(cores), "text", "sched_getaffinity"
    yield "process.python", sys.executable, "text", "sys.executable"
    for name in sorted(os.environ):
        if name.startswith(_PREFIXES):
            yield f"env.{name}", masked(name, os.environ[name]), "text", f"${name}"


def _torch_facts(context: Context) -> Iterator[tuple[str, Value, str, str]]:
    """Versions and the device as torch reports them."""
    import torch

    yield "torch.version", str(torch.__version__), "text", "torch.__version__"
    yield "torch.threads", torch.get_num_threads(), "count", "torch.get_num_threads"
    yield "torch.backend", context.backend, "text", "torch.distributed"
    for key, found in (("torch.cuda_version", torch.version.cuda), ("torch.hip_version", torch.version.hip)):
        if found:
            yield key, str(found), "text", "torch.version"
    yield "torch.device", context.device, "text", "the launcher"
    if not context.on_gpu:
        return
    if version := _nccl_version(context):
        yield "torch.nccl_version", version, "text", "torch.cuda.nccl"
    seen = torch.cuda.get_device_properties(context.device)
    source = "torch.cuda.get_device_properties"
    yield "torch.device_name", str(seen.name), "text", source
    yield "torch.device_memory", float(seen.total_memory), "B", source
    yield "torch.device_processors", int(seen.multi_processor_count), "count", source
    if hasattr(seen, "uuid"):
        yield "torch.device_uuid", f"GPU-{seen.uuid}", "text", source


def _nccl_version(context: Context) -> str | None:
    """The NCCL that torch was built with, or None where there is no GPU to use it."""
    if not context.on_gpu:
        return None
    import torch

    version = torch.cuda.nccl.version()
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version)


def _ranges(numbers: list[int]) -> str:
    """`0-3,8` of 0, 1, 2, 3, 8."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
