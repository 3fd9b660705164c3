"""The shipped models, and models from a Hugging Face config.json, Megatron-LM arguments, or YAML."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path

from assay.catalog.tables import read_records, shipped_text
from assay.codec.document import read_document
from assay.codec.plain import KIND_WORDS, kind_word, number_at, read_object, text_at, whole_at
from assay.domain.device import Source
from assay.domain.workload import Transformer
from assay.errors import InputError, did_you_mean, unknown_name

MODEL_FILES = ("gpt.toml", "llama.toml", "moe.toml", "qwen.toml")

#: `model_type` of a config.json that has a plain two-matrix feed-forward, and those with biases throughout.
_UNGATED = ("gpt2", "gpt_neox", "gptj", "opt", "bloom", "mpt", "falcon", "phi", "nemotron", "starcoder2")
_BIASED = ("gpt2", "gpt_neox", "opt", "bloom", "phi", "starcoder2")
_LEARNED = ("gpt2", "opt")

_ALTERNATIVES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size", "padded_vocab_size"),
}


@functools.cache
def models() -> tuple[Transformer, ...]:
    """Every model of the catalogue."""
    found: dict[str, Transformer] = {}
    for file in MODEL_FILES:
        path = f"models/{file}"
        found |= read_records(shipped_text(path), file=path, table="model", kind=Transformer)
    return tuple(found.values())


@functools.cache
def model_sources() -> Mapping[str, Source]:
    """The documents behind the shipped models, by id."""
    path = "models/sources.toml"
    return read_records(shipped_text(path), file=path, table="source", kind=Source)


@functools.cache
def _names() -> Mapping[str, Transformer]:
    return {name: one for one in models() for name in (one.id, *one.aliases)}


def model(name: str) -> Transformer:
    """The model with this id or alias; raises `UnknownNameError` with the nearest names."""
    said = name.strip().lower().replace("_", "-").replace(" ", "-")
    if said not in _names():
        raise unknown_name("model", name, _names())
    return _names()[said]


def model_from_config(text: str, *, where: str, name: str | None = None) -> Transformer:
    """The shape in a Hugging Face config.json; an `InputError` names the field that is missing.

    Keys it knows: those of Llama, Mistral, Mixtral, Qwen 2 and 3 (with experts), DeepSeek V2 and V3,
    GPT-2, GPT-NeoX, OPT, BLOOM, MPT, Falcon and Nemotron. Others are read by the common names.
    """
    try:
        return _from_config(read_object(text), where=where, name=name)
    except InputError as error:
        raise InputError(error.what, where=error.where or where, fix=error.fix) from error


def _from_config(config: Mapping[str, object], *, where: str, name: str | None) -> Transformer:
    kind = text_at(config, "model_type", "")
    layers, hidden, heads, vocab = (_first(config, part, where) for part in _ALTERNATIVES)
    kv_heads = whole_at(config, "num_key_value_heads", least=1) or heads
    latent = whole_at(config, "kv_lora_rank") or 0
    head_dim = whole_at(config, "qk_nope_head_dim" if latent else "head_dim") or hidden // heads
    gated = kind not in _UNGATED
    ffn = whole_at(config, "intermediate_size") or whole_at(config, "ffn_dim") or whole_at(config, "n_inner")
    if ffn is None:
        if gated:
            raise InputError("'intermediate_size' is missing", where=where, fix="add intermediate_size")
        ffn = 4 * hidden
    parts = _experts(config, layers, ffn)
    return Transformer(
        id=name or kind or "model",
        name=text_at(config, "_name_or_path", "") or kind or "model",
        source=where,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads if latent else kv_heads,
        head_dim=head_dim,
        value_dim=(whole_at(config, "v_head_dim") or 0) if latent else 0,
        rope_dim=(whole_at(config, "qk_rope_head_dim") or 0) if latent else 0,
        query_rank=(whole_at(config, "q_lora_rank") or 0) if latent else 0,
        latent_rank=latent,
        ffn=ffn,
        vocab=vocab,
        gated=gated,
        tied_embeddings=_flag(config, "tie_word_embeddings", default=kind in ("gpt2", "bloom", "mpt", "opt")),
        biases=kind in _BIASED,
        norm_biases=kind in (*_BIASED, "falcon", "nemotron"),
        qk_norm=kind.startswith("qwen3"),
        learned_positions=(
            (whole_at(config, "n_positions") or whole_at(config, "max_position_embeddings") or 0)
            if kind in _LEARNED
            else 0
        ),
        seq_len=min(int(number_at(config, "max_position_embeddings") or 4096), 8192),
        window=(whole_at(config, "sliding_window") or 0)
        if _flag(config, "use_sliding_window", default=kind == "mistral")
        else 0,
        **parts,  # type: ignore[arg-type]
    )


def _experts(config: Mapping[str, object], layers: int, ffn: int) -> dict[str, int]:
    """The fields of a Transformer that describe experts; none where the config has none."""
    experts = next(
        (
            count
            for key in ("num_local_experts", "num_experts", "n_routed_experts")
            if (count := whole_at(config, key))
        ),
        0,
    )
    if not experts:
        return {}
    topk = whole_at(config, "num_experts_per_tok", least=1)
    if topk is None:
        raise InputError("'num_experts_per_tok' is missing", fix="add num_experts_per_tok")
    width = whole_at(config, "moe_intermediate_size") or ffn
    shared = whole_at(config, "shared_expert_intermediate_size")
    if shared is None:
        shared = (whole_at(config, "n_shared_experts") or 0) * width
    first = whole_at(config, "first_k_dense_replace") or 0
    every = whole_at(config, "decoder_sparse_step") or whole_at(config, "moe_layer_freq") or 1
    return {
        "experts": experts,
        "topk": topk,
        "expert_ffn": width,
        "shared_ffn": shared,
        "moe_layers": (layers - first) // every,
    }


def _first(config: Mapping[str, object], part: str, where: str) -> int:
    keys = _ALTERNATIVES[part]
    for key in keys:
        value = whole_at(config, key, least=1)
        if value is not None:
            return value
    raise InputError(
        f"{keys[0]!r} is missing", where=where, fix=f"add {keys[0]} (or {' or '.join(keys[1:])})"
    )


def _flag(config: Mapping[str, object], key: str, *, default: bool) -> bool:
    value = config.get(key, default)
    if not isinstance(value, bool):
        raise InputError(f"{key!r} is {value!r}, but true or false is wanted")
    return value


#: Megatron-LM flag → what it says of the shape.
_MEGATRON_NUMBERS = {
    "num-layers": "layers",
    "hidden-size": "hidden",
    "num-attention-heads": "heads",
    "num-query-groups": "kv_heads",
    "kv-channels": "head_dim",
    "ffn-hidden-size": "ffn",
    "seq-length": "seq_len",
    "padded-vocab-size": "vocab",
    "vocab-size": "vocab",
    "num-experts": "experts",
    "moe-router-topk": "topk",
    "moe-ffn-hidden-size": "expert_ffn",
    "moe-shared-expert-intermediate-size": "shared_ffn",
    "q-lora-rank": "query_rank",
    "kv-lora-rank": "latent_rank",
    "qk-head-dim": "head_dim",
    "qk-pos-emb-head-dim": "rope_dim",
    "v-head-dim": "value_dim",
}


def model_from_megatron(text: str, *, where: str) -> Transformer:
    """The shape in Megatron-LM's command-line arguments; an `InputError` names the flag that is missing."""
    words = text.replace("\\\n", " ").replace("=", " ").split()
    flags = [word[2:] for word in words if word.startswith("--")]
    said: dict[str, int] = {}
    for at, word in enumerate(words):
        field = _MEGATRON_NUMBERS.get(word[2:]) if word.startswith("--") else None
        if field is None:
            continue
        value = words[at + 1] if at + 1 < len(words) else ""
        if not value.isdecimal():
            raise InputError(f"{word} is followed by {value!r}, not by a whole number", where=where)
        said[field] = int(value)
    for flag in ("num-layers", "hidden-size", "num-attention-heads"):
        if _MEGATRON_NUMBERS[flag] not in said:
            raise InputError(f"--{flag} is missing", where=where, fix=f"add --{flag}")
    if "vocab" not in said:
        raise InputError("--padded-vocab-size is missing", where=where, fix="add --padded-vocab-size")
    gated = "swiglu" in flags
    hidden, heads = said["hidden"], said["heads"]
    ffn = said.get("ffn", int(8 * hidden / 3) // 64 * 64 if gated else 4 * hidden)
    said |= {
        "kv_heads": heads if "multi-latent-attention" in flags else said.get("kv_heads", heads),
        "head_dim": said.get("head_dim", hidden // heads),
        "ffn": ffn,
    }
    if "experts" in said:
        said |= {
            "topk": said.get("topk", 2),
            "expert_ffn": said.get("expert_ffn", ffn),
            "moe_layers": said["layers"],
        }
    biases = "disable-bias-linear" not in flags
    rotary = "rope" in words or "use-rotary-position-embeddings" in flags
    return Transformer(
        id="megatron-arguments",
        name="model of the given arguments",
        source=where,
        gated=gated,
        tied_embeddings="untie-embeddings-and-output-weights" not in flags,
        biases=biases,
        norm_biases="RMSNorm" not in words,
        learned_positions=0 if rotary else said.get("seq_len", 2048),
        **said,  # type: ignore[arg-type]
    )


def model_from_file(source: Path | str, name: str | None = None) -> Transformer:
    """The shape in a user's YAML or TOML file, whose keys are the fields of `Transformer`.

    `id`, `name` and `source` may be left out. Raises `InputError` with file, line and the nearest key.
    """
    document = read_document(source, name)
    known = {entry.name: entry for entry in fields(Transformer)}
    for key, value in document.data.items():
        if key not in known:
            raise InputError(f"unknown key {key!r}", where=document.where(key), fix=did_you_mean(key, known))
        wanted = _KINDS[str(known[key].type)]
        if type(value) is not wanted:
            said = KIND_WORDS[wanted]
            raise InputError(f"{key} is {kind_word(value)}, but {said} is wanted", where=document.where(key))
    for key, entry in known.items():
        needed = entry.default is MISSING and key not in ("id", "name", "source")
        if needed and key not in document.data:
            raise InputError(f"key {key!r} is missing", where=document.name, fix=f"add {key}: a whole number")
    said_names = {"id": "model", "name": document.name, "source": document.name}
    try:
        return Transformer(**(said_names | document.data))  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(error.what, where=document.name, fix=error.fix) from error


_KINDS: dict[str, type] = {"int": int, "str": str, "bool": bool, "tuple[str, ...]": list}
