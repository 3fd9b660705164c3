"""Shapes from files as people have them: config.json of many families, and Megatron-LM launch scripts.

Parameter counts are those of the published checkpoints.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.catalog.model_arguments import model_from_megatron
from assay.catalog.model_config import model_from_config
from assay.errors import InputError


def dense(
    kind: str, layers: int, hidden: int, ffn: int, heads: int, vocab: int, **more: Any
) -> dict[str, Any]:
    return {
        "model_type": kind, "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": ffn,
        "num_attention_heads": heads, "vocab_size": vocab,
    } | more  # fmt: skip


def llama4(experts: int, every: int) -> dict[str, Any]:
    inner = dense("llama4_text", 48, 5120, 8192, 40, 202048, num_key_value_heads=8, head_dim=128)
    inner |= {"intermediate_size_mlp": 16384, "num_local_experts": experts, "num_experts_per_tok": 1}
    return {"model_type": "llama4", "text_config": inner | {"interleave_moe_layer_step": every}}


HALF = ["sliding_attention", "full_attention"] * 12
GPT_OSS = dense(
    "gpt_oss", 24, 2880, 2880, 64, 201088, num_key_value_heads=8, head_dim=64, num_local_experts=32,
    num_experts_per_tok=4, sliding_window=128, layer_types=HALF, tie_word_embeddings=False,
)  # fmt: skip
FALCON = {
    "model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71,
    "num_kv_heads": 71, "multi_query": True, "new_decoder_architecture": False, "vocab_size": 65024,
}  # fmt: skip
DBRX = {
    "model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "vocab_size": 100352,
    "attn_config": {"kv_n_heads": 8},
    "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
}  # fmt: skip
STARCODER = {
    "model_type": "gpt_bigcode", "n_layer": 40, "n_embd": 6144, "n_head": 48, "n_inner": 24576,
    "n_positions": 8192, "multi_query": True, "vocab_size": 49152,
}  # fmt: skip
CHATGLM = {
    "model_type": "chatglm", "num_layers": 28, "hidden_size": 4096, "ffn_hidden_size": 13696,
    "kv_channels": 128, "multi_query_group_num": 2, "num_attention_heads": 32, "padded_vocab_size": 65024,
}  # fmt: skip
HUNYUAN = dense(
    "hunyuan_v1_moe", 32, 4096, 3072, 32, 128167, num_key_value_heads=8, attention_head_dim=128,
    moe_intermediate_size=[3072] * 32, num_experts=64, moe_topk=[8] * 32, num_shared_expert=[1] * 32,
    use_qk_norm=True, tie_word_embeddings=True,
)  # fmt: skip
CONFIGS: list[tuple[str, dict[str, Any], float]] = [
    ("llama 3.2 1B", dense("llama", 16, 2048, 8192, 32, 128256, num_key_value_heads=8, head_dim=64,
                           tie_word_embeddings=True), 1_235_814_400),
    ("qwen 2 7B", dense("qwen2", 28, 3584, 18944, 28, 152064, num_key_value_heads=4), 7_615_616_512),
    ("mixtral 8x7B", dense("mixtral", 32, 4096, 14336, 32, 32000, num_key_value_heads=8, num_local_experts=8,
                           num_experts_per_tok=2), 46_702_792_704),
    ("gemma 2 9B", dense("gemma2", 42, 3584, 14336, 16, 256000, num_key_value_heads=8, head_dim=256,
                         sliding_window=4096), 9_241_705_984),
    ("gpt-neox 20B", dense("gpt_neox", 44, 6144, 24576, 64, 50432), 20_554_567_680),
    ("phi 4", dense("phi3", 40, 5120, 17920, 40, 100352, num_key_value_heads=10, sliding_window=None),
     14_659_507_200),
    ("gpt-oss 20B", GPT_OSS, 20_914_757_184),
    ("falcon 7B", FALCON, 6_921_720_704),
    ("bloom", {"model_type": "bloom", "n_layer": 70, "n_embed": 14336, "num_attention_heads": 112,
               "vocab_size": 250880}, 176_247_271_424),
    ("starcoder", STARCODER, 15_517_456_384),
    ("command r", dense("cohere", 40, 8192, 22528, 64, 256000), 34_980_831_232),
    ("chatglm 3 6B", CHATGLM, 6_243_584_000),
    ("dbrx", DBRX, 131_596_523_520),
    ("llama 4 scout", llama4(16, 1), 107_769_861_120),
    ("llama 4 maverick", llama4(128, 2), 400_711_848_960),
    ("hunyuan a13b", HUNYUAN, 80_393_183_232),
]  # fmt: skip


@pytest.mark.parametrize(("config", "published"), [c[1:] for c in CONFIGS], ids=[c[0] for c in CONFIGS])
def test_a_config_has_the_checkpoints_parameters(config: dict[str, Any], published: float) -> None:
    read = model_from_config(json.dumps(config), where="config.json")
    assert read.parameters == pytest.approx(published, rel=4e-4)


def test_a_window_holds_in_the_layers_that_have_one() -> None:
    half = model_from_config(json.dumps(GPT_OSS), where="config.json")
    assert (half.window, half.window_layers) == (128, 12)
    none = model_from_config(json.dumps(GPT_OSS | {"sliding_window": None}), where="config.json")
    seen = [shape.attention_flop_per_token(4096) for shape in (half, none)]
    assert seen[0] / seen[1] == pytest.approx((2048.5 + 128) / 2 / 2048.5)


def test_what_a_config_leaves_open_is_said() -> None:
    config = dense("surprise", 2, 64, 128, 4, 100, layer_types=["linear_attention", "full_attention"])
    read = model_from_config(
        json.dumps({"model_type": "both", "text_config": config, "vision_config": {}}), where="c"
    )
    assert [text.split()[0] for text in read.assumed] == ["model_type", "only", "1"]


def test_unlike_layers_are_refused() -> None:
    config = HUNYUAN | {"moe_topk": [8] * 31 + [4]}
    with pytest.raises(InputError, match="'moe_topk' differs from layer to layer"):
        model_from_config(json.dumps(config), where="config.json")


SCRIPT = """#!/bin/bash
NUM_LAYERS=${NUM_LAYERS:-96}
HIDDEN=12288
#  --num-layers 12
GPT_MODEL_ARGS=(
    --num-layers $NUM_LAYERS
    --hidden-size ${HIDDEN}
    --num-attention-heads "96"
    --seq-length 2048
    --max-position-embeddings 2048
)
MODEL_PARALLEL_ARGS=( --tensor-model-parallel-size 8 )
DATA_ARGS=(
    --tokenizer-type GPT2BPETokenizer
    --vocab-file $2
)
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${GPT_MODEL_ARGS[@]}
"""
DEEPSEEK = (
    "--num-layers 61 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
    "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 "
    "--qk-pos-emb-head-dim 64 --v-head-dim 128 --num-experts 256 --moe-layer-freq '([0]*3+[1]*58)' "
    "--moe-ffn-hidden-size 2048 --moe-shared-expert-intermediate-size 2048 --moe-router-topk 8 --swiglu "
    "--normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights "
    "--position-embedding-type rope --vocab-size 129280 --make-vocab-size-divisible-by 3232 --qk-layernorm"
)


def test_a_scripts_variables_and_comments_are_read_and_the_vocabulary_is_padded() -> None:
    read = model_from_megatron(SCRIPT, where="run.sh")
    assert (read.layers, read.hidden, read.heads, read.vocab) == (96, 12288, 96, 51200)


def test_a_pattern_of_expert_layers_is_counted() -> None:
    assert model_from_megatron(DEEPSEEK, where="run.sh").parameters == pytest.approx(671.03e9, rel=1e-4)
    with pytest.raises(InputError, match="marks 60 of 61 layers"):
        model_from_megatron(DEEPSEEK.replace("[1]*58", "[1]*57"), where="run.sh")


def test_a_variable_that_nothing_sets_is_named() -> None:
    with pytest.raises(InputError, match=r"'\$L', not by a whole number") as caught:
        model_from_megatron("--num-layers $L --hidden-size 8 --num-attention-heads 2", where="run.sh")
    assert "set the variable" in str(caught.value)


def test_a_vocabulary_in_a_tokenizers_file_is_asked_for() -> None:
    text = SCRIPT.replace("GPT2BPETokenizer", "Llama2Tokenizer")
    with pytest.raises(InputError, match="Llama2Tokenizer has it in a file of its own"):
        model_from_megatron(text, where="run.sh")
