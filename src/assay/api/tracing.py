"""`assay predict --from-trace` and `assay validate traces`: a job's own trace in place of formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.api.clusters import FoundCluster, find_cluster
from assay.codec.plain import read_object
from assay.codec.text_file import read_text
from assay.domain.cluster import Cluster
from assay.domain.score import ScoredRow, Validation, group_scores
from assay.errors import InputError
from assay.formats.kineto_steps import TracedSteps, read_steps
from assay.predict.calibration import network_of
from assay.predict.from_trace import TracePrediction, predict_from_trace

#: Groups of traces: the job at the size that was traced, and at another one that was traced too.
SAME, LARGER = "from trace, same size", "from trace, larger job"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromTrace:
    """A traced job on a cluster; `tokens` of one step of the whole job, None where they were not given."""

    cluster: Cluster
    traced: TracedSteps
    prediction: TracePrediction
    tokens: int | None
    assumed: tuple[str, ...]

    @property
    def tokens_per_s_per_gpu(self) -> float | None:
        """Training tokens over time and GPUs."""
        if self.tokens is None:
            return None
        return self.tokens / self.prediction.step_time_s.value / self.prediction.ranks

    @property
    def speedup_frac(self) -> float:
        """The traced step over the predicted one: the part of linear speed-up that is kept."""
        return self.prediction.measured_s / self.prediction.step_time_s.value


def predict_trace(
    file: Path,
    *,
    cluster: str,
    nodes: int | None,
    base: str | None = None,
    shard_ranks: int = 0,
    global_batch: int | None = None,
    seq_len: int | None = None,
) -> FromTrace:
    """The job of a Kineto trace on `nodes` of a cluster; `InputError` says what the trace lacks."""
    traced = read_trace(file)
    found = find_cluster(cluster, nodes=nodes, base=base)
    tokens = global_batch * seq_len if global_batch and seq_len else None
    return FromTrace(
        cluster=found.cluster,
        traced=traced,
        prediction=_predicted(traced, found, found.cluster.count, shard_ranks),
        tokens=tokens,
        assumed=found.assumed,
    )


def shard_ranks_of(layout: str) -> int:
    """The one thing of a layout that a trace leaves open: how many ranks share the weights (HSDP)."""
    if not layout.strip():
        return 0
    key, _, value = (side.strip() for side in layout.partition("="))
    if key != "shard_ranks" or not value.isdecimal():
        raise InputError(
            f"layout {layout!r}: a trace keeps its own degrees",
            fix="leave --layout out, or say --layout shard_ranks=8 to keep shards inside groups of 8",
        )
    return int(value)


def validate_traces(files: Sequence[Path], *, cluster: str, base: str | None = None) -> Validation:
    """Each trace replayed with predicted collectives at its own size, and larger jobs from the smallest."""
    found = find_cluster(cluster, nodes=1, base=base)
    traces = sorted((read_trace(file) for file in files), key=lambda traced: traced.world)
    rows = [_scored(traced, traced, found, SAME) for traced in traces]
    rows += [
        _scored(traces[0], traced, found, LARGER) for traced in traces[1:] if traced.world > traces[0].world
    ]
    return Validation(rows=tuple(rows), groups=group_scores(rows, (SAME, LARGER)))


def read_trace(file: Path) -> TracedSteps:
    """The steps of a trace file, also of one packed with gzip."""
    try:
        document = read_object(read_text(file, undecodable="replace"))
    except InputError as fault:
        raise InputError(
            fault.what, where=str(file), fix="give a trace that torch.profiler exported"
        ) from None
    return read_steps(document, str(file))


def _predicted(traced: TracedSteps, found: FoundCluster, nodes: int, shard_ranks: int) -> TracePrediction:
    width = len(found.cluster.node.gpus)
    return predict_from_trace(
        traced, network_of(found.cluster), node_ranks=width, nodes=nodes, shard_ranks=shard_ranks
    )


def _scored(traced: TracedSteps, goal: TracedSteps, found: FoundCluster, group: str) -> ScoredRow:
    """`goal` predicted from `traced`, rank for rank."""
    measured, value, reason = goal.step_s, None, None
    low = high = None
    try:
        # A node of one rank counts ranks, so that any two sizes can be compared.
        result = predict_from_trace(traced, network_of(found.cluster), node_ranks=1, nodes=goal.world)
        value, low, high = (getattr(result.step_time_s, name) for name in ("value", "low", "high"))
    except InputError as fault:
        reason = fault.what
    return ScoredRow(
        id=f"{Path(goal.file).name}:{traced.world}>{goal.world}",
        file=goal.file,
        line=1,
        groups=(group,),
        unit="s",
        measured=measured,
        predicted=value,
        low=low,
        high=high,
        skipped=reason,
        assumed=(f"from {traced.file}",) if goal is not traced else (),
    )
