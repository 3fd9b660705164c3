"""What is trained: the shape of a transformer, and what one step does with it.

Shapes follow the published checkpoints (config.json of each model). Counts are exact for the weights
listed in `Transformer.parameters`; positions that are not learned cost none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from assay.errors import InputError

TASKS = ("pretrain", "sft", "lora")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A decoder, dense or with experts; a count of 0 says that the model has no such part.

    `head_dim` is the query and key width (MLA: without position part), `value_dim` the value width.
    MLA is described by `query_rank` (0: queries are not compressed), `latent_rank` (0: no MLA) and
    `rope_dim`. Of `layers`, `moe_layers` carry `experts` of width `expert_ffn`, of which each token visits
    `topk`, beside one shared expert of width `shared_ffn`. `extra_heads` are multi-token-prediction layers.
    A token sees `window` positions in `window_layers` of the layers (0: in all). `assumed` is what a file
    left open.

    A hybrid mixes the tokens of `ssm_layers` by a state space (Mamba-2) instead of attention: `ssm_heads` of
    width `ssm_head_dim`, each with `ssm_state` states, whose inputs and outputs `ssm_groups` of heads share.
    `bare_layers` have no feed-forward block behind their mixer.
    """

    id: str
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    source: str
    value_dim: int = 0
    gated: bool = True
    tied_embeddings: bool = False
    biases: bool = False
    norm_biases: bool = False
    qk_norm: bool = False
    learned_positions: int = 0
    seq_len: int = 4096
    window: int = 0
    window_layers: int = 0
    query_rank: int = 0
    latent_rank: int = 0
    rope_dim: int = 0
    experts: int = 0
    topk: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    moe_layers: int = 0
    extra_heads: int = 0
    ssm_layers: int = 0
    ssm_heads: int = 0
    ssm_head_dim: int = 0
    ssm_state: int = 0
    ssm_groups: int = 0
    bare_layers: int = 0
    aliases: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, int) and value < 0:
                raise InputError(f"{self.id}: {entry.name} = {value} is negative")
        for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "vocab", "seq_len"):
            if getattr(self, name) < 1:
                raise InputError(f"{self.id}: {name} = {getattr(self, name)}; at least 1 is wanted")
        if self.heads % self.kv_heads:
            raise InputError(f"{self.id}: {self.heads} heads are no multiple of {self.kv_heads} kv_heads")
        if self.window_layers > (self.layers if self.window else 0):
            raise InputError(
                f"{self.id}: {self.window_layers} of {self.layers} layers have a window of {self.window}"
            )
        if self.moe_layers + self.bare_layers > self.layers:
            raise InputError(
                f"{self.id}: of {self.layers} layers {self.moe_layers} carry experts and {self.bare_layers} "
                "no feed-forward block"
            )
        if self.ssm_layers > self.layers:
            raise InputError(f"{self.id}: {self.ssm_layers} of {self.layers} layers mix by a state space")
        if self.ssm_layers and not min(self.ssm_heads, self.ssm_head_dim, self.ssm_state, self.ssm_groups):
            raise InputError(
                f"{self.id}: state space of {self.ssm_heads} heads of {self.ssm_head_dim}, {self.ssm_state} "
                f"states, {self.ssm_groups} groups; none may be 0"
            )
        if self.moe_layers and not (0 < self.topk <= self.experts and self.expert_ffn > 0):
            raise InputError(
                f"{self.id}: a token visits {self.topk} of {self.experts} experts of width {self.expert_ffn}"
            )
        if self.dense_layers and self.ffn < 1:
            raise InputError(f"{self.id}: {self.dense_layers} dense layers, but ffn = {self.ffn}")
        if self.window and not self.window_layers:
            object.__setattr__(self, "window_layers", self.layers)
        if self.value_dim == 0:
            object.__setattr__(self, "value_dim", self.head_dim)

    @property
    def dense_layers(self) -> int:
        """Layers with one feed-forward block for all tokens."""
        return self.layers - self.moe_layers - self.bare_layers

    @property
    def attention_layers(self) -> int:
        """Layers that mix tokens by attention."""
        return self.layers - self.ssm_layers

    @property
    def ssm_inner(self) -> int:
        """Width inside a state-space block."""
        return self.ssm_heads * self.ssm_head_dim

    @property
    def ssm_projected(self) -> int:
        """Columns of a state-space block's first product: gate, values, states in and out, time steps."""
        return 2 * self.ssm_inner + 2 * self.ssm_groups * self.ssm_state + self.ssm_heads

    @property
    def mixing_weights(self) -> int:
        """Matrix weights of the mixers of all layers, attention or state space."""
        state_space = self.hidden * (self.ssm_projected + self.ssm_inner)
        return self.attention_layers * self.attention_weights + self.ssm_layers * state_space

    @property
    def windowed_frac(self) -> float:
        """Part of the layers that see only `window` positions."""
        return self.window_layers / self.layers

    @property
    def attention_weights(self) -> int:
        """Matrix weights of one attention block."""
        q_width = self.heads * (self.head_dim + (self.rope_dim if self.latent_rank else 0))
        out = self.heads * self.value_dim * self.hidden
        if not self.latent_rank:
            return self.hidden * (q_width + self.kv_heads * (self.head_dim + self.value_dim)) + out
        query = self.query_rank * (self.hidden + q_width) if self.query_rank else self.hidden * q_width
        latent = self.hidden * (self.latent_rank + self.rope_dim)
        return query + latent + self.latent_rank * self.heads * (self.head_dim + self.value_dim) + out

    def ffn_weights(self, width: int) -> int:
        """Matrix weights of a feed-forward block of this width."""
        return (3 if self.gated else 2) * self.hidden * width

    @property
    def expert_weights(self) -> int:
        """Matrix weights of all routed experts of one layer."""
        return self.experts * self.ffn_weights(self.expert_ffn) if self.moe_layers else 0

    @property
    def small_weights(self) -> int:
        """Norms and biases of one layer, and the expert biases left out (no shipped model has them)."""
        norms = 2 * self.hidden * (2 if self.norm_biases else 1)
        if self.latent_rank:
            norms += self.latent_rank + self.query_rank
        if self.qk_norm:
            norms += 2 * self.head_dim
        if not self.biases:
            return norms
        up = self.ffn * (2 if self.gated else 1)
        return norms + self.heads * self.head_dim + 2 * self.kv_heads * self.head_dim + 2 * self.hidden + up

    @property
    def embedding_weights(self) -> int:
        """Token embedding, output head unless tied, and learned positions."""
        return (1 if self.tied_embeddings else 2) * self.vocab * self.hidden + (
            self.learned_positions * self.hidden
        )

    @property
    def parameters(self) -> int:
        """All weights; multi-token-prediction layers, which checkpoints count apart, are left out."""
        block = self.mixing_weights + self.layers * self.small_weights
        dense = self.dense_layers * self.ffn_weights(self.ffn)
        routed = self.moe_layers * (
            self.expert_weights + self.ffn_weights(self.shared_ffn) + self.hidden * self.experts
        )
        final_norm = self.hidden * (2 if self.norm_biases else 1)
        return block + dense + routed + self.embedding_weights + final_norm

    @property
    def active_parameters(self) -> int:
        """Weights that one token meets."""
        idle = self.moe_layers * (self.experts - self.topk) * self.ffn_weights(self.expert_ffn)
        return self.parameters - idle

    def with_layers(self, layers: int) -> Transformer:
        """The same model cut to fewer layers, experts in proportion (a proxy, as benchmarks use)."""
        kinds = ("moe_layers", "window_layers", "ssm_layers", "bare_layers")
        part = {name: round(getattr(self, name) * layers / self.layers) for name in kinds}
        return replace(self, layers=layers, window=self.window if part["window_layers"] else 0, **part)

    def forward_flop_per_token(self, seq_len: int, *, causal: bool = True) -> float:
        """Matrix FLOPs of one token's forward pass: 2 per weight met, and attention over the sequence.

        Scores and values cost 2 FLOP per pair and width; a causal token sees (s+1)/2 positions on average.
        The embedding look-up costs none, the output head 2·h·V.
        """
        per_token = 2.0 * (
            self.mixing_weights
            + self.dense_layers * self.ffn_weights(self.ffn)
            + self.moe_layers
            * (self.ffn_weights(self.topk * self.expert_ffn + self.shared_ffn) + self.hidden * self.experts)
            + self.vocab * self.hidden
        )
        mixed = self.attention_layers * self.attention_flop_per_token(seq_len, causal=causal)
        # Each state takes its input and gives its output: 4 FLOP an element of the state.
        return per_token + mixed + 4.0 * self.ssm_layers * self.ssm_inner * self.ssm_state

    def attention_flop_per_token(self, seq_len: int, *, causal: bool = True) -> float:
        """FLOPs of scores and values for one token, as the mean of layers with and without a window."""
        seen = (seq_len + 1) / 2 if causal else float(seq_len)
        seen += self.windowed_frac * (min(seen, float(self.window)) - seen)
        width = self.head_dim + (self.rope_dim if self.latent_rank else 0) + self.value_dim
        return 2.0 * seen * self.heads * width


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One kind of step: a model, a task, and the sequences it sees.

    `lora_rank` counts for the task lora, on the query, key, value and output projections and, with
    `lora_ffn`, on the feed-forward matrices. `packed_len` is the mean document length where several are
    packed into one sequence and do not see each other (None: one document fills it). `imbalance` is the
    fullest expert's load over the mean (1: forced balance, as public MoE figures have it).
    """

    model: Transformer
    seq_len: int
    task: str = "pretrain"
    lora_rank: int = 16
    lora_ffn: bool = False
    packed_len: float | None = None
    imbalance: float = 1.0

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise InputError(f"task {self.task!r} is none of {', '.join(TASKS)}")
        if self.seq_len < 1:
            raise InputError(f"seq_len = {self.seq_len}; at least 1 is wanted")
        if not (math.isfinite(self.imbalance) and self.imbalance >= 1):
            raise InputError(f"imbalance = {self.imbalance:g}: the fullest expert has at least the mean load")
        if self.packed_len is not None and not 1 <= self.packed_len <= self.seq_len:
            raise InputError(
                f"documents of {self.packed_len:,.0f} tokens do not fit in sequences of {self.seq_len:,}"
            )

    @property
    def trained_parameters(self) -> int:
        """Weights that get a gradient and optimizer state."""
        m = self.model
        if self.task != "lora":
            return m.parameters
        q, kv, v = m.heads * m.head_dim, m.kv_heads * m.head_dim, m.heads * m.value_dim
        pairs = [(m.hidden, q + 2 * kv), (v, m.hidden)]
        if self.lora_ffn:
            pairs += [(m.hidden, m.ffn * (2 if m.gated else 1)), (m.ffn, m.hidden)]
        return m.layers * self.lora_rank * sum(a + b for a, b in pairs)

    def model_flop_per_token(self) -> float:
        """FLOPs of one training token, causal attention counted once per pair, recomputation not counted.

        Forward, and twice that backward; with LoRA the weight gradients of frozen matrices are not taken.
        """
        m = self.model
        forward = m.forward_flop_per_token(self.seq_len)
        if self.task != "lora":
            return 3.0 * forward
        attention = m.layers * m.attention_flop_per_token(self.seq_len)
        return 2.0 * (forward - attention) + 3.0 * attention + 6.0 * self.trained_parameters
