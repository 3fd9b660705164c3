"""A small decoder-only transformer to train: what a language model does, and nothing else.

Imports torch, so it is itself imported inside the function that needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional
from torch import nn


@dataclass(frozen=True)
class Shape:
    """Sizes of the model. `formula` is how `flop_per_token` counts forward and backward."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int

    #: N: weights that multiply, without the embedding tables.
    formula = "6N+12LHS (N without embeddings, causal not halved)"

    @property
    def multiplying_weights(self) -> int:
        """Weights of the projections, the MLPs and the head: 12·H² a layer and H·V."""
        return 12 * self.layers * self.hidden**2 + self.hidden * self.vocabulary

    @property
    def flop_per_token(self) -> float:
        """Model FLOP of one token in one training step (Chowdhery et al., PaLM, 2022, appendix B)."""
        return 6.0 * self.multiplying_weights + 12.0 * self.layers * self.hidden * self.sequence

    def __str__(self) -> str:
        return f"gpt-l{self.layers}-h{self.hidden}-a{self.heads}-v{self.vocabulary}"


class Transformer(nn.Module):  # type: ignore[misc]
    """Token and position embeddings, blocks, an untied head; returns the mean cross-entropy."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.sequence, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape.hidden, shape.heads) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        self.apply(_initialise)

    def forward(self, tokens: Any, targets: Any) -> Any:
        """Loss of `targets` (batch × sequence) after `tokens` (the same shape)."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.loss(x, targets)

    def embed(self, tokens: Any) -> Any:
        """What goes into the first block, batch × sequence × hidden."""
        return self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]

    def loss(self, x: Any, targets: Any) -> Any:
        """The mean cross-entropy of what comes out of the last block."""
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Block(nn.Module):  # type: ignore[misc]
    """Causal self-attention and an MLP four times as wide, each behind a norm and beside a residual."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: Any) -> Any:
        """Shape in and out: batch × sequence × hidden."""
        x = x + self.out(attend(self.qkv(self.attention_norm(x)), self.heads))
        return x + self.down(functional.gelu(self.up(self.mlp_norm(x))))


def attend(qkv: Any, heads: int) -> Any:
    """Causal attention: batch × sequence × 3·hidden in, batch × sequence × hidden out."""
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
    mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return mixed.transpose(1, 2).flatten(2)


def _initialise(module: Any) -> None:
    """GPT-2's initialisation: normal, deviation 0.02, biases zero."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def fingerprint(model: Any) -> float:
    """A number that differs when any bit of any parameter does, but for chance; exact as a float."""
    total = 0
    for number, parameter in enumerate(model.parameters(), 1):
        bits = parameter.detach().contiguous().view(torch.int32)
        total = (total * 31 + number * int(bits.sum(dtype=torch.int64))) % (1 << 52)
    return float(total)
