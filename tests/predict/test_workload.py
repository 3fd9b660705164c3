"""Parameter and FLOP counts against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from reference_decoder import Decoder
from torch.utils.flop_counter import FlopCounterMode

from assay.catalog.models import models
from assay.domain.workload import Transformer, Workload
from assay.errors import InputError

SHAPES = {
    "gqa": {"kv_heads": 2},
    "ungated with biases": {"gated": False, "biases": True, "norm_biases": True, "learned_positions": 32},
    "tied": {"tied_embeddings": True},
    "experts": {"experts": 4, "topk": 2, "expert_ffn": 48, "moe_layers": 1},
    "shared expert": {"experts": 4, "topk": 1, "expert_ffn": 48, "shared_ffn": 32, "moe_layers": 2},
    "mla": {"latent_rank": 24, "query_rank": 20, "rope_dim": 8, "value_dim": 12},
    "mla without query rank": {"latent_rank": 24, "rope_dim": 8, "value_dim": 16},
}


def small(**more: object) -> Transformer:
    base = {"id": "small", "name": "small", "source": "test", "layers": 2, "hidden": 64, "heads": 4}
    base |= {"kv_heads": 4, "head_dim": 16, "ffn": 96, "vocab": 128, "seq_len": 32}
    return Transformer(**(base | more))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SHAPES)
def test_parameters_equal_pytorchs_count(name: str) -> None:
    shape = small(**SHAPES[name])
    counted = sum(p.numel() for p in Decoder(shape).parameters())
    assert shape.parameters == counted


@pytest.mark.parametrize("name", SHAPES)
def test_forward_flop_equals_flop_counter_mode(name: str) -> None:
    shape = small(**SHAPES[name])
    tokens = 32
    built = Decoder(shape)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        built(torch.zeros(1, tokens, dtype=torch.long))
    counts = counter.get_flop_counts()["Global"]
    matrices = sum(n for op, n in counts.items() if "mm" in str(op) and "bmm" not in str(op))
    attention = shape.layers * shape.attention_flop_per_token(tokens, causal=False)
    assert shape.forward_flop_per_token(tokens, causal=False) - attention == pytest.approx(matrices / tokens)


def test_attention_flop_equals_flop_counter_modes_full_square() -> None:
    q = torch.zeros(1, 4, 32, 16)
    with FlopCounterMode(display=False) as counter:
        (q @ q.transpose(-1, -2)).softmax(-1) @ q
    assert counter.get_total_flops() == pytest.approx(32 * small().attention_flop_per_token(32, causal=False))


def test_training_counts_three_forwards_and_lora_leaves_frozen_weight_gradients_out() -> None:
    shape = small()
    forward = shape.forward_flop_per_token(32)
    assert Workload(model=shape, seq_len=32).model_flop_per_token() == pytest.approx(3 * forward)
    lora = Workload(model=shape, seq_len=32, task="lora", lora_rank=2)
    assert 2 * forward < lora.model_flop_per_token() < 3 * forward


def test_training_flop_equal_flop_counter_mode_forward_and_backward() -> None:
    shape = small()
    built = Decoder(shape)
    with FlopCounterMode(display=False) as counter:
        built(torch.zeros(2, 32, dtype=torch.long)).sum().backward()
    counts = counter.get_flop_counts()["Global"]
    matrices = sum(n for op, n in counts.items() if str(op).split(".")[-1] in ("mm", "addmm"))
    attention = shape.layers * shape.attention_flop_per_token(32, causal=False)
    expected = 3 * 64 * (shape.forward_flop_per_token(32, causal=False) - attention)
    assert matrices == pytest.approx(expected)


#: Published counts, in billions; checkpoints count them with the same tensors.
PUBLISHED = {
    "llama-3.1-8b": 8.03,
    "llama-3.1-70b": 70.55,
    "llama-3.1-405b": 405.85,
    "llama-2-7b": 6.74,
    "llama-2-70b": 68.98,
    "mixtral-8x7b": 46.70,
    "mixtral-8x22b": 140.63,
    "deepseek-v3": 671.03,
    "qwen3-235b-a22b": 235.09,
    "qwen3-30b-a3b": 30.53,
    "bloom-176b": 176.25,
}


def test_shipped_models_have_their_published_parameter_counts() -> None:
    found = {one.id: one.parameters / 1e9 for one in models()}
    for name, billions in PUBLISHED.items():
        assert found[name] == pytest.approx(billions, rel=1e-3)


def test_cutting_layers_keeps_the_share_of_expert_layers() -> None:
    deep = next(one for one in models() if one.id == "deepseek-v3")
    assert deep.with_layers(4).moe_layers == 4
    assert deep.with_layers(30).moe_layers == 29


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kv_heads": 3}, "4 heads are no multiple of 3 kv_heads"),
        ({"moe_layers": 1, "experts": 4, "topk": 5, "expert_ffn": 8}, "visits 5 of 4 experts"),
        ({"layers": 0}, "layers = 0"),
    ],
)
def test_impossible_shapes_are_refused_with_the_numbers(more: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        small(**more)
