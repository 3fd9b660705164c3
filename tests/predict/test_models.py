"""Models from Hugging Face config.json files and Megatron-LM arguments."""

from __future__ import annotations

import json

import pytest

from assay.catalog.model_arguments import model_from_megatron
from assay.catalog.model_config import model_from_config
from assay.catalog.models import (
    model,
    model_from_file,
    model_sources,
    models,
)
from assay.errors import InputError, UnknownNameError

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
}
QWEN_MOE = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "vocab_size": 151936,
}
GPT2 = {
    "model_type": "gpt2",
    "n_layer": 12,
    "n_embd": 768,
    "n_head": 12,
    "vocab_size": 50257,
    "n_positions": 1024,
}


@pytest.mark.parametrize(
    ("config", "shipped"), [(LLAMA, "llama-3.1-8b"), (DEEPSEEK, "deepseek-v3"), (QWEN_MOE, "qwen3-30b-a3b")]
)
def test_a_config_gives_the_shipped_models_parameters(config: dict[str, object], shipped: str) -> None:
    read = model_from_config(json.dumps(config), where="config.json")
    assert read.parameters == model(shipped).parameters
    assert read.forward_flop_per_token(4096) == model(shipped).forward_flop_per_token(4096)


def test_gpt2_has_its_124_million_parameters() -> None:
    assert model_from_config(json.dumps(GPT2), where="config.json").parameters == 124_439_808


@pytest.mark.parametrize("missing", ["num_hidden_layers", "intermediate_size", "vocab_size"])
def test_a_missing_field_is_named(missing: str) -> None:
    config = {key: value for key, value in LLAMA.items() if key != missing}
    with pytest.raises(InputError, match=missing) as caught:
        model_from_config(json.dumps(config), where="some/config.json")
    assert caught.value.where == "some/config.json"


def test_experts_without_a_count_per_token_name_the_field() -> None:
    config = {key: value for key, value in QWEN_MOE.items() if key != "num_experts_per_tok"}
    with pytest.raises(InputError, match="num_experts_per_tok"):
        model_from_config(json.dumps(config), where="config.json")


def test_megatron_arguments_give_the_shape() -> None:
    text = """torchrun pretrain_gpt.py --num-layers 96 --hidden-size 12288 \\
        --num-attention-heads 96 --seq-length 2048 --padded-vocab-size 51200"""
    read = model_from_megatron(text, where="run.sh")
    assert read.parameters == model("gpt3-175b").parameters
    gated = model_from_megatron(
        "--num-layers=32 --hidden-size=4096 --num-attention-heads=32 --group-query-attention "
        "--num-query-groups=8 --ffn-hidden-size=14336 --swiglu --padded-vocab-size=128256 "
        "--normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
        "--untie-embeddings-and-output-weights",
        where="run.sh",
    )
    assert gated.parameters == model("llama-3.1-8b").parameters


def test_a_missing_megatron_flag_is_named() -> None:
    with pytest.raises(InputError, match="--hidden-size is missing"):
        model_from_megatron("--num-layers 2 --num-attention-heads 4", where="run.sh")


def test_a_near_miss_suggests_the_model() -> None:
    with pytest.raises(UnknownNameError) as caught:
        model("llama-3.1-80b")
    assert "llama-3.1-8b" in str(caught.value)


def test_ids_and_aliases_name_one_model_each() -> None:
    names = [name for one in models() for name in (one.id, *one.aliases)]
    assert len(names) == len(set(names))


YAML = """layers: 32
hidden: 4096
heads: 32
kv_heads: 8
head_dim: 128
ffn: 14336
vocab: 128256
"""


def test_a_yaml_file_gives_the_shape() -> None:
    assert model_from_file(YAML, "m.yaml").parameters == model("llama-3.1-8b").parameters


def test_an_unknown_yaml_key_says_the_line_and_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown key 'hiden'") as caught:
        model_from_file(YAML.replace("hidden", "hiden"), "m.yaml")
    assert caught.value.where == "m.yaml:2"
    assert "hidden" in str(caught.value)


def test_a_missing_yaml_key_is_named() -> None:
    with pytest.raises(InputError, match="key 'vocab' is missing"):
        model_from_file(YAML.replace("vocab: 128256\n", ""), "m.yaml")


def test_every_shipped_model_has_a_document_behind_it() -> None:
    assert {one.source for one in models()} == set(model_sources())
