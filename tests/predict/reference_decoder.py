"""A plain PyTorch decoder of a `Transformer`'s shape, to count its parameters, FLOPs and memory."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from assay.domain.workload import Transformer


class Attention(nn.Module):
    def __init__(self, m: Transformer) -> None:
        super().__init__()
        self.m = m
        rope = m.rope_dim if m.latent_rank else 0
        q_width = m.heads * (m.head_dim + rope)
        if m.query_rank:
            self.q_down = nn.Linear(m.hidden, m.query_rank, bias=False)
            self.q_norm = nn.RMSNorm(m.query_rank)
        self.q = nn.Linear(m.query_rank or m.hidden, q_width, bias=m.biases)
        if m.latent_rank:
            self.kv_down = nn.Linear(m.hidden, m.latent_rank + m.rope_dim, bias=False)
            self.kv_norm = nn.RMSNorm(m.latent_rank)
            self.kv_up = nn.Linear(m.latent_rank, m.heads * (m.head_dim + m.value_dim), bias=False)
        else:
            self.k = nn.Linear(m.hidden, m.kv_heads * m.head_dim, bias=m.biases)
            self.v = nn.Linear(m.hidden, m.kv_heads * m.value_dim, bias=m.biases)
        self.o = nn.Linear(m.heads * m.value_dim, m.hidden, bias=m.biases)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        m = self.m
        b, t, _ = x.shape
        if m.query_rank:
            q = self.q(self.q_norm(self.q_down(x)))
        else:
            q = self.q(x)
        q = q.view(b, t, m.heads, -1).transpose(1, 2)
        if m.latent_rank:
            latent, rope = self.kv_down(x).split([m.latent_rank, m.rope_dim], -1)
            up = self.kv_up(self.kv_norm(latent)).view(b, t, m.heads, -1).transpose(1, 2)
            k, v = up.split([m.head_dim, m.value_dim], -1)
            k = torch.cat([k, rope[:, None].expand(-1, m.heads, -1, -1)], -1)
        else:
            k = self.k(x).view(b, t, m.kv_heads, -1).transpose(1, 2)
            v = self.v(x).view(b, t, m.kv_heads, -1).transpose(1, 2)
        out = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=m.kv_heads != m.heads
        )
        return self.o(out.transpose(1, 2).reshape(b, t, -1))


class FeedForward(nn.Module):
    def __init__(self, m: Transformer, width: int) -> None:
        super().__init__()
        self.gated = m.gated
        self.up = nn.Linear(m.hidden, width, bias=m.biases)
        if m.gated:
            self.gate = nn.Linear(m.hidden, width, bias=m.biases)
        self.down = nn.Linear(width, m.hidden, bias=m.biases)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.gated:
            return self.down(functional.silu(self.gate(x)) * self.up(x))
        return self.down(functional.gelu(self.up(x)))


class Experts(nn.Module):
    """Experts with forced balance: token i of a copy goes to expert i modulo their number."""

    def __init__(self, m: Transformer) -> None:
        super().__init__()
        self.m = m
        self.router = nn.Linear(m.hidden, m.experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(m, m.expert_ffn) for _ in range(m.experts))
        self.shared = FeedForward(m, m.shared_ffn) if m.shared_ffn else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, x.shape[-1])
        weights = self.router(flat).softmax(-1)
        parts = flat.repeat(self.m.topk, 1).chunk(self.m.experts)
        mixed = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        mixed = mixed.view(self.m.topk, *flat.shape).sum(0) * weights[:, :1]
        if self.shared is not None:
            mixed = mixed + self.shared(flat)
        return mixed.view_as(x)


class Block(nn.Module):
    def __init__(self, m: Transformer, *, experts: bool) -> None:
        super().__init__()
        norm = nn.LayerNorm if m.norm_biases else nn.RMSNorm
        self.attention_norm, self.ffn_norm = norm(m.hidden), norm(m.hidden)
        self.attention = Attention(m)
        self.ffn = Experts(m) if experts else FeedForward(m, m.ffn)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class Decoder(nn.Module):
    def __init__(self, m: Transformer) -> None:
        super().__init__()
        self.embedding = nn.Embedding(m.vocab, m.hidden)
        if m.learned_positions:
            self.positions = nn.Parameter(torch.zeros(m.learned_positions, m.hidden))
        self.blocks = nn.ModuleList(Block(m, experts=i >= m.dense_layers) for i in range(m.layers))
        self.norm = (nn.LayerNorm if m.norm_biases else nn.RMSNorm)(m.hidden)
        self.head = nn.Linear(m.hidden, m.vocab, bias=False)
        if m.tied_embeddings:
            self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
