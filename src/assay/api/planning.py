"""`assay plan`: what is to run, and the questions about it that need no prices: growth and risk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from assay.api.clusters import read_cluster
from assay.api.predicting import read_model
from assay.api.predicting_jobs import is_job, read_job
from assay.api.predicting_jobs import network_of as job_network
from assay.catalog.faults import LEAF_FAULTS_PER_S, FailureRate, failure_rate
from assay.domain.layout import said_degrees
from assay.domain.workload import Workload
from assay.errors import InputError, unknown_name
from assay.plan.answers import Growth, RiskAnswer
from assay.plan.growth import fabric_of, grow, stages
from assay.plan.job import Job, job
from assay.plan.reliability import Restart
from assay.plan.risk import assess
from assay.plan.storage import (
    CLASSES,
    TOKEN_BYTES,
    InputNeed,
    Storage,
    input_need,
    scaled,
)
from assay.plan.work import AnyJob, PhasedJob, work_on
from assay.predict.stack import DEFAULT_STACK, stack

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What is to run; the same for every question. `steps` and `settings` are of a job of phases."""

    workload: str
    global_batch: int | None = None
    seq_len: int | None = None
    task: str = "pretrain"
    stack: str | None = None
    tokens: float | None = None
    layout: str = ""
    precision: str | None = None
    steps: float | None = None
    settings: Sequence[str] = ()


def find_work(options: JobOptions, *, tokens_a_weight: float | None = None) -> AnyJob:
    """The job that the options describe: a training, or a job of phases where the workload is one."""
    if not is_job(options.workload):
        for name in ("steps", "settings"):
            if getattr(options, name):
                raise InputError(f"--{name.removesuffix('tings')} is for jobs of phases, not for models")
        return find_job(options, tokens_a_weight=tokens_a_weight)
    phases, values = read_job(options.workload, options.settings)
    if options.steps is None:
        raise InputError(f"how many steps of {phases.id}?", fix="say --steps, for example 1e6")
    return PhasedJob(phases=phases, values=values, steps=options.steps, network_of=job_network)


def find_job(options: JobOptions, *, tokens_a_weight: float | None = None) -> Job:
    """The training that the options describe; `InputError` where the workload is a job of phases."""
    if is_job(options.workload):
        raise InputError(
            f"{options.workload} is a job of phases, which has one layout: a rank on each GPU",
            fix="ask plan compare, size, growth or risk",
        )
    shape = read_model(options.workload)
    workload = Workload(model=shape, seq_len=options.seq_len or shape.seq_len, task=options.task)
    tokens = options.tokens
    if tokens is None and tokens_a_weight is not None:
        found = job(
            workload,
            stack(options.stack or DEFAULT_STACK),
            tokens=tokens_a_weight * workload.model.active_parameters,
            global_batch=options.global_batch,
        )
        return found
    return job(
        workload, stack(options.stack or DEFAULT_STACK), tokens=tokens, global_batch=options.global_batch
    )


def fixed_axes(options: JobOptions) -> dict[str, object]:
    """The degrees that the user fixed, as the space wants them."""
    said = said_degrees(options.layout or "")
    if options.precision and options.precision != "any":
        said["precision"] = options.precision
    return said


def find_storage(name: str) -> Storage:
    """A class of storage by name; raises `UnknownNameError`."""
    if name not in CLASSES:
        raise unknown_name("storage class", name, CLASSES)
    return CLASSES[name]


def stage_sizes(first: int, last: int, said: str = "") -> tuple[int, ...]:
    """Numbers of nodes as "4,16,64", else doublings from the first to the last."""
    if not said:
        return stages(first, last)
    words = [word.strip() for word in said.split(",") if word.strip()]
    if not all(word.isdecimal() and int(word) > 0 for word in words):
        raise InputError(f"--stages {said!r} is no list of numbers of nodes", fix="write it as 4,16,64")
    sizes = tuple(int(word) for word in words)
    if sorted(set(sizes)) != list(sizes):
        raise InputError(f"--stages {said} does not grow", fix="write each number once, smallest first")
    return sizes


def plan_growth(
    cluster: str, sizes: Sequence[int], options: JobOptions, *, progress: Progress | None = None
) -> Growth:
    """The stages of a growing cluster; its job keeps one precision throughout."""
    built, plan = read_cluster(cluster), find_work(options)
    axes = fixed_axes(replace(options, precision=options.precision or "bf16"))
    return Growth(cluster=built, job=plan, stages=grow(built, sizes, plan, fixed=axes, progress=progress))


def _input(plan: Job, tokens_per_s: float, store: Storage, nodes: int) -> InputNeed:
    """What reading the data asks of storage; a job of phases has its input in its phases."""
    return input_need(
        store,
        samples_per_s=tokens_per_s / plan.workload.seq_len,
        sample_bytes=plan.workload.seq_len * TOKEN_BYTES,
        nodes=nodes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskOptions:
    """What is said of failures and saves; None where the model's own answer is taken."""

    fleet: str | None = None
    save_s: float | None = None
    interval_s: float | None = None
    days: float | None = None
    repair_s: float = 86400.0
    restart: Restart = field(default_factory=Restart)
    storage: str = "better"
    asynchronous: bool = True
    runs: int = 40
    seed: int = 1


def plan_risk(
    cluster: str,
    nodes: int | None,
    options: JobOptions,
    said: RiskOptions,
    *,
    progress: Progress | None = None,
) -> RiskAnswer:
    """Failures, the checkpoint interval and what they leave of the time, for the best layout of the job."""
    built = read_cluster(cluster)
    here = built.of(nodes) if nodes else built
    plan = find_work(options)
    axes = fixed_axes(replace(options, precision=options.precision or "bf16"))
    work = work_on(plan, here, fixed=axes)
    store = scaled(find_storage(said.storage), here.count)
    save = work.save(store, nodes=here.count, asynchronous=said.asynchronous)
    fabric = fabric_of(here, here.count)
    rails = max(len(here.node.nics), 1)
    leaves = fabric.leaf if fabric else 1
    rate: FailureRate = failure_rate(len(here.node.gpus), fleet=said.fleet)
    days = said.days if said.days is not None else work.ideal_h / 24
    blocking_s = said.save_s if said.save_s is not None else max(save.blocking_s, 1.0)
    return RiskAnswer(
        cluster=here,
        job=plan,
        work=work,
        storage=store,
        save=save,
        input=None if isinstance(plan, PhasedJob) else _input(plan, work.rate_per_s, store, here.count),
        risk=assess(
            nodes=here.count,
            rate=rate,
            save_s=blocking_s,
            restart=replace(said.restart, load_s=said.restart.load_s + save.load_s),
            duration_s=days * 86400,
            leaves=leaves,
            # On rails each leaf serves one NIC of its nodes: losing it stops them all.
            leaf_nodes=max(1, min(here.count, -(-here.count * rails // leaves))),
            leaf_faults_per_s=LEAF_FAULTS_PER_S,
            interval_s=said.interval_s,
            repair_s=said.repair_s,
            runs=said.runs,
            seed=said.seed,
            progress=progress,
        ),
    )
