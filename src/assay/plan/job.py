"""What is to be trained and where: one record that every question about a plan begins from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from assay.domain.cluster import Cluster
from assay.domain.layout import Layout
from assay.domain.message import Message
from assay.domain.workload import Workload
from assay.errors import InputError
from assay.predict.calibration import calibrated_gpu
from assay.predict.situation import Situation
from assay.predict.stack import Stack

#: Compute-optimal tokens a weight (Hoffmann et al. 2022), where no budget is said.
TOKENS_A_WEIGHT = 20.0
#: Tokens of a step where no batch is said: between GPT-3's 3.2 million and Llama 3's 4 to 16.
BATCH_TOKENS = 4e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A workload with its batch and token budget; `assumed` says what was not given."""

    workload: Workload
    stack: Stack
    tokens: float
    global_batch: int | None = None
    assumed: tuple[Message, ...] = ()

    @property
    def name(self) -> str:
        """What people call it."""
        return self.workload.model.name

    @property
    def amount(self) -> Message:
        """How much of it is to be done."""
        return Message.of("plan.amount.tokens", count=f"{self.tokens:.3g}")

    def on(self, cluster: Cluster) -> Situation:
        """The job on this cluster; the layout is a stand-in until one is chosen.

        Raises `InputError` where the GPU is not known.
        """
        gpu = cluster.node.gpu
        if gpu is None:
            raise InputError(
                f"the GPU of {cluster.id} is not known", fix="name a shipped system, or gpu in its file"
            )
        batch = self.global_batch or default_batch(self.workload.seq_len, cluster.gpus)
        return Situation(
            workload=self.workload,
            layout=Layout(),
            global_batch=batch,
            gpu=calibrated_gpu(gpu, cluster.calibration),
            stack=self.stack,
        )


def job(
    workload: Workload, stack: Stack, *, tokens: float | None = None, global_batch: int | None = None
) -> Job:
    """A job with what was not said filled in, and said so."""
    if tokens is not None and not tokens > 0:
        raise InputError(f"a budget of {tokens:g} tokens", fix="say how many tokens are to be seen, as 300e9")
    if global_batch is not None and global_batch < 1:
        raise InputError(f"a global batch of {global_batch} sequences")
    assumed = []
    if tokens is None:
        tokens = TOKENS_A_WEIGHT * workload.model.active_parameters
        assumed.append(Message.of("plan.assumed.tokens", tokens=f"{tokens:.3g}"))
    if global_batch is None:
        assumed.append(Message.of("plan.assumed.batch", tokens=f"{BATCH_TOKENS:.0e}"))
    return Job(
        workload=workload, stack=stack, tokens=tokens, global_batch=global_batch, assumed=tuple(assumed)
    )


def default_batch(seq_len: int, gpus: int) -> int:
    """Sequences of about `BATCH_TOKENS` tokens: a power of two times the odd part of the GPUs, so that it
    divides."""
    odd = gpus
    while odd % 2 == 0:
        odd //= 2
    twos = 1
    while odd * twos * 2 * seq_len <= BATCH_TOKENS * 1.5:
        twos *= 2
    return odd * twos


def with_layout(base: Situation, layout: Layout) -> Situation:
    """The job under a chosen layout."""
    return replace(base, layout=layout)
