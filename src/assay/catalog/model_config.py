"""Models from a Hugging Face config.json.

Families name the same thing in several ways, and a family's defaults stand in no file: they are those of the
configuration classes in Hugging Face Transformers 4.57 (2025-10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from assay.codec.plain import read_object, text_at, whole_at
from assay.domain.workload import Transformer
from assay.errors import InputError

#: A field of the shape → the keys that families call it by; the first that is there counts.
_KEYS: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "vocab": ("vocab_size", "padded_vocab_size"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads", "multi_query_group_num"),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels"),
    "ffn": ("intermediate_size_mlp", "intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"),
    "seq_len": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "topk": ("num_experts_per_tok", "experts_per_token", "moe_topk", "moe_top_k", "moe_k"),
    "expert_ffn": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "shared": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "every": ("decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step"),
}

#: Where a model that also sees or hears keeps its language model, and where blocks keep their own keys.
_LANGUAGE = ("text_config", "language_config", "llm_config", "thinker_config")
_NESTED = ("attn_config", "ffn_config")

#: Sequences longer than this are not what is trained on by default.
_LONGEST_DEFAULT = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """What a `model_type` does unless its file says otherwise.

    `windowed` says which layers see only `sliding_window` positions: none, all, or every so many-th not.
    """

    gated: bool = True
    biases: bool = False
    norm_biases: bool = False
    qk_norm: bool = False
    tied: bool = False
    learned: bool = False
    windowed: str = "none"
    full_every: int = 1


_LLAMA = _Family()
_BIASED = _Family(gated=False, biases=True, norm_biases=True)
_GPT2 = replace(_BIASED, tied=True, learned=True)
_FALCON = _Family(gated=False, norm_biases=True, tied=True)
_GEMMA3 = _Family(tied=True, qk_norm=True, windowed="some", full_every=6)
_FAMILIES: dict[str, _Family] = {
    **dict.fromkeys(("gpt2", "opt", "gpt_bigcode"), _GPT2),
    **dict.fromkeys(("gpt_neox", "phi", "codegen"), _BIASED),
    "bloom": replace(_BIASED, tied=True),
    "starcoder2": replace(_BIASED, tied=True, windowed="all"),
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), _FALCON),
    **dict.fromkeys(("nemotron", "persimmon", "gptj"), replace(_FALCON, tied=False)),
    "mpt": _Family(gated=False, tied=True),
    "gemma": _Family(tied=True),
    "gemma2": _Family(tied=True, windowed="some", full_every=2),
    **dict.fromkeys(("gemma3", "gemma3_text"), _GEMMA3),
    "cohere": _Family(tied=True),
    "cohere2": _Family(tied=True, windowed="some", full_every=4),
    **dict.fromkeys(("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text"), _Family(qk_norm=True)),
    **dict.fromkeys(("mistral", "mixtral", "phi3", "phimoe", "ministral"), _Family(windowed="all")),
    "gpt_oss": _Family(windowed="some", full_every=2),
    **dict.fromkeys(
        (
            "llama", "llama4", "llama4_text", "qwen", "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl",
            "qwen2_5_vl_text", "deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm",
            "glm4", "glm4_moe", "chatglm", "dbrx", "olmo", "olmo2", "olmo3", "olmoe", "granite", "granitemoe",
            "internlm2", "internlm3", "baichuan", "stablelm", "smollm3", "exaone", "minicpm", "minicpm3",
            "hunyuan_v1_dense", "hunyuan_v1_moe", "ernie4_5", "ernie4_5_moe", "seed_oss", "arcee", "mistral3"
        ),
        _LLAMA,
    ),
}  # fmt: skip


def model_from_config(text: str, *, where: str, name: str | None = None) -> Transformer:
    """The shape in a config.json; an `InputError` names the field that is missing.

    What the file leaves open, such as a family that is not known, is said in the model's `assumed`.
    """
    try:
        return _from_config(read_object(text), where=where, name=name)
    except InputError as error:
        raise InputError(error.what, where=error.where or where, fix=error.fix) from error


def _from_config(whole: Mapping[str, object], *, where: str, name: str | None) -> Transformer:
    config = _language_model(whole)
    kind = text_at(config, "model_type", "")
    family = _FAMILIES.get(kind, _LLAMA)
    layers, hidden, heads = (_needed(config, part) for part in ("layers", "hidden", "heads"))
    latent = whole_at(config, "kv_lora_rank") or 0
    head_dim = whole_at(config, "qk_nope_head_dim") if latent else _count(config, "head_dim")
    ffn = _feed_forward(config, hidden, gated=family.gated)
    window, window_layers = _window(config, family, layers)
    learned = _count(config, "seq_len") if family.learned else None
    return Transformer(
        id=name or kind or "model",
        name=text_at(config, "_name_or_path", "") or kind or "model",
        source=where,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads if latent else _kv_heads(config, heads),
        head_dim=head_dim or hidden // heads,
        value_dim=(whole_at(config, "v_head_dim") or 0) if latent else 0,
        rope_dim=(whole_at(config, "qk_rope_head_dim") or 0) if latent else 0,
        query_rank=(whole_at(config, "q_lora_rank") or 0) if latent else 0,
        latent_rank=latent,
        ffn=ffn,
        vocab=_needed(config, "vocab"),
        gated=family.gated,
        tied_embeddings=_flag(config, "tie_word_embeddings", default=family.tied),
        biases=family.biases,
        norm_biases=family.norm_biases,
        qk_norm=family.qk_norm or _flag(config, "use_qk_norm", default=False),
        learned_positions=learned or 0,
        seq_len=min(_count(config, "seq_len") or 4096, _LONGEST_DEFAULT),
        window=window,
        window_layers=window_layers,
        assumed=_assumed(whole, config, kind),
        **_experts(config, kind, layers, ffn),  # type: ignore[arg-type]
    )


def _language_model(config: Mapping[str, object]) -> dict[str, object]:
    """The keys of the language model: its own part before the whole's, blocks' own keys after both."""
    merged = dict(config)
    for key in (*_LANGUAGE, *_NESTED):
        part = merged.get(key)
        if isinstance(part, Mapping):
            inner = {name: value for name, value in part.items() if value is not None}
            merged = merged | inner if key in _LANGUAGE else inner | merged
    return merged


def _assumed(whole: Mapping[str, object], config: Mapping[str, object], kind: str) -> tuple[str, ...]:
    """What the file leaves open or what the shape cannot say, for the reader of a prediction."""
    found = []
    if kind not in _FAMILIES:
        found.append(
            f"model_type {kind!r} is not known: gated feed-forward, no biases, untied embeddings as in Llama"
        )
    if any(isinstance(whole.get(key), Mapping) for key in ("vision_config", "audio_config")):
        found.append("only the language model is counted, not what sees or hears")
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        others = sorted({str(k) for k in kinds} - {"full_attention", "sliding_attention"})
        found += [f"{kinds.count(other)} layers of {other} are taken as full attention" for other in others]
    return tuple(found)


def _window(config: Mapping[str, object], family: _Family, layers: int) -> tuple[int, int]:
    """Positions that windowed layers see, and how many layers are windowed."""
    window = whole_at(config, "sliding_window") or 0
    if not window or not _flag(config, "use_sliding_window", default=True):
        return 0, 0
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        windowed = kinds.count("sliding_attention")
    elif family.windowed == "some":
        every = whole_at(config, "sliding_window_pattern") or family.full_every
        windowed = layers - layers // every
    else:
        asked = family.windowed == "all" or config.get("use_sliding_window") is True
        windowed = layers if asked else 0
    return (window, windowed) if windowed else (0, 0)


def _kv_heads(config: Mapping[str, object], heads: int) -> int:
    """Heads of keys and values: one where queries share them all, else as said, else one a query head."""
    shared = _flag(config, "multi_query", default=False)
    if shared and not _flag(config, "new_decoder_architecture", default=False):
        return 1
    return _count(config, "kv_heads") or heads


def _feed_forward(config: Mapping[str, object], hidden: int, *, gated: bool) -> int:
    ffn = _count(config, "ffn")
    if ffn is None and gated:
        raise _missing("ffn")
    return ffn or (whole_at(config, "expansion_ratio") or 4) * hidden


def _experts(config: Mapping[str, object], kind: str, layers: int, ffn: int) -> dict[str, int]:
    """The fields of a Transformer that describe experts; none where the config has none."""
    experts = _count(config, "experts")
    if not experts:
        return {}
    # Llama 4 has intermediate_size for its experts, and another key for its dense layers.
    own = whole_at(config, "intermediate_size") if kind.startswith("llama4") else None
    width = own or _count(config, "expert_ffn") or ffn
    shared = whole_at(config, "shared_expert_intermediate_size")
    if shared is None:
        shared = (1 if own else _count(config, "shared") or 0) * width
    return {
        "experts": experts,
        "topk": _needed(config, "topk"),
        "expert_ffn": width,
        "shared_ffn": shared,
        "moe_layers": _moe_layers(config, layers),
    }


def _moe_layers(config: Mapping[str, object], layers: int) -> int:
    """Layers with experts: marked one by one, or every so many-th after the first few less the named."""
    marked = config.get("moe_layer_freq")
    if isinstance(marked, list):
        return sum(bool(one) for one in marked)
    first = whole_at(config, "first_k_dense_replace") or 0
    dense = config.get("mlp_only_layers")
    named = len(dense) if isinstance(dense, list) else 0
    return (layers - first) // (_count(config, "every") or 1) - named


def _count(config: Mapping[str, object], part: str) -> int | None:
    """The number under the first of a part's keys that is there; a list of equal numbers is that number."""
    for key in _KEYS[part]:
        value = config.get(key)
        if isinstance(value, list) and value:
            if any(one != value[0] for one in value):
                raise InputError(f"{key!r} differs from layer to layer", fix="give one number for all layers")
            value = value[0]
        found = whole_at({key: value}, key, least=1) if value else None
        if found is not None:
            return found
    return None


def _needed(config: Mapping[str, object], part: str) -> int:
    found = _count(config, part)
    if found is None:
        raise _missing(part)
    return found


def _missing(part: str) -> InputError:
    first, *others = _KEYS[part]
    if part == "ffn":
        first, *others = _KEYS[part][1:]
    return InputError(f"{first!r} is missing", fix=f"add {first} (or {' or '.join(others)})")


def _flag(config: Mapping[str, object], key: str, *, default: bool) -> bool:
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InputError(f"{key!r} is {value!r}, but true or false is wanted")
    return value
