"""Models from Megatron-LM's command-line arguments, as they stand in a launch script."""

from __future__ import annotations

import re

from assay.domain.workload import Transformer
from assay.errors import InputError

#: Flag → what it says of the shape.
_NUMBERS = {
    "num-layers": "layers",
    "hidden-size": "hidden",
    "num-attention-heads": "heads",
    "num-query-groups": "kv_heads",
    "kv-channels": "head_dim",
    "ffn-hidden-size": "ffn",
    "seq-length": "seq_len",
    "num-experts": "experts",
    "moe-router-topk": "topk",
    "moe-ffn-hidden-size": "expert_ffn",
    "moe-shared-expert-intermediate-size": "shared_ffn",
    "q-lora-rank": "query_rank",
    "kv-lora-rank": "latent_rank",
    "qk-head-dim": "head_dim",
    "qk-pos-emb-head-dim": "rope_dim",
    "v-head-dim": "value_dim",
    "mtp-num-layers": "extra_heads",
}
#: Flags that say how large the vocabulary is, and by what it is padded.
_VOCABULARY = {
    "padded-vocab-size": "padded",
    "vocab-size": "vocab",
    "make-vocab-size-divisible-by": "multiple",
    "tensor-model-parallel-size": "tp",
}
#: Tokens of the one tokenizer whose vocabulary is in no file of the user's choice (GPT-2's, OpenAI 2019).
_GPT2_TOKENS = 50_257
#: Megatron-LM pads a vocabulary to a multiple of this times tp, unless told otherwise.
_MULTIPLE = 128

_ASSIGNED = re.compile(r"^\s*(?:export\s+)?(\w+)=[\"']?([^\s\"'$();]+)[\"']?\s*;?\s*$", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
_PATTERN_PART = re.compile(r"\[([01](?:,[01])*)\](?:\*(\d+))?")


def model_from_megatron(text: str, *, where: str) -> Transformer:
    """The shape in Megatron-LM's arguments; an `InputError` names the flag that is missing.

    Comments are left out and the script's own variables filled in.
    """
    said = _flags(text)
    numbers = {
        field: number for flag, field in _NUMBERS.items() if (number := _whole(said, flag, where)) is not None
    }
    for flag in ("num-layers", "hidden-size", "num-attention-heads"):
        if _NUMBERS[flag] not in numbers:
            raise InputError(f"--{flag} is missing", where=where, fix=f"add --{flag}")
    gated = "swiglu" in said
    hidden, heads = numbers["hidden"], numbers["heads"]
    ffn = numbers.get("ffn", int(8 * hidden / 3) // 64 * 64 if gated else 4 * hidden)
    kv_heads = numbers.get("kv_heads", heads) if "group-query-attention" in said else heads
    numbers |= {
        "kv_heads": heads if "multi-latent-attention" in said else kv_heads,
        "head_dim": numbers.get("head_dim", hidden // heads),
        "ffn": ffn,
    }
    if "experts" in numbers:
        numbers |= {
            "topk": numbers.get("topk", 2),
            "expert_ffn": numbers.get("expert_ffn", ffn),
            "moe_layers": _moe_layers(said.get("moe-layer-freq", "1"), numbers["layers"], where),
        }
    rotary = said.get("position-embedding-type") == "rope" or "use-rotary-position-embeddings" in said
    return Transformer(
        id="megatron-arguments",
        name="model of the given arguments",
        source=where,
        vocab=_vocabulary(said, where),
        gated=gated,
        tied_embeddings="untie-embeddings-and-output-weights" not in said,
        biases="disable-bias-linear" not in said,
        norm_biases=said.get("normalization") != "RMSNorm",
        qk_norm="qk-layernorm" in said and "multi-latent-attention" not in said,
        learned_positions=0 if rotary else numbers.get("seq_len", 2048),
        window=_window(said.get("window-size", "")),
        **numbers,  # type: ignore[arg-type]
    )


def _flags(text: str) -> dict[str, str]:
    """Each flag with the word behind it, empty where another flag follows; the last one said counts."""
    filled = _COMMENT.sub("", text).replace("\\\n", " ")
    known: dict[str, str] = {}

    def value(match: re.Match[str]) -> str:
        return known.get(match[1] or match[2]) or match[3] or match[0]

    # Twice, because a variable may be set from another one or from its own default.
    for _ in range(2):
        known |= {match[1]: match[2] for match in _ASSIGNED.finditer(filled)}
        filled = _VARIABLE.sub(value, filled)
    words = [word.strip("\"'") for word in re.sub(r"(--[\w-]+)=", r"\1 ", filled).split()]
    return {
        word[2:]: "" if after.startswith("--") else after
        for word, after in zip(words, [*words[1:], ""], strict=True)
        if word.startswith("--")
    }


def _whole(said: dict[str, str], flag: str, where: str) -> int | None:
    if flag not in said:
        return None
    value = said[flag].rstrip(")\"'")
    if not value.isdecimal():
        unset = "set the variable in the script, or write the number" if "$" in value else "write the number"
        raise InputError(f"--{flag} is followed by {value!r}, not by a whole number", where=where, fix=unset)
    return int(value)


def _vocabulary(said: dict[str, str], where: str) -> int:
    """The padded vocabulary: as said, or the tokenizer's padded as Megatron-LM does."""
    numbers = {part: _whole(said, flag, where) for flag, part in _VOCABULARY.items()}
    tokens = numbers["vocab"]
    if tokens is None and said.get("tokenizer-type") == "GPT2BPETokenizer":
        tokens = _GPT2_TOKENS
    if numbers["padded"]:
        return numbers["padded"]
    if tokens is None:
        tokenizer = said.get("tokenizer-type")
        of = f"; {tokenizer} has it in a file of its own" if tokenizer else ""
        raise InputError(
            f"--padded-vocab-size is missing{of}", where=where, fix="add --padded-vocab-size or --vocab-size"
        )
    multiple = (numbers["multiple"] or _MULTIPLE) * (numbers["tp"] or 1)
    return -(-tokens // multiple) * multiple


def _moe_layers(freq: str, layers: int, where: str) -> int:
    """Layers with experts: every so many-th, or a pattern as ([0]*3+[1]*58)."""
    if freq.isdecimal() and int(freq):
        return -(-layers // int(freq))
    body, _, times = freq.strip("()").partition(")*")
    marks = [
        int(mark) for part in _PATTERN_PART.finditer(body) for mark in part[1].split(",") * int(part[2] or 1)
    ] * int(times or 1)
    if len(marks) != layers:
        raise InputError(
            f"--moe-layer-freq {freq} marks {len(marks)} of {layers} layers",
            where=where,
            fix="write a whole number, or a pattern such as ([0]*3+[1]*58)",
        )
    return sum(marks)


def _window(said: str) -> int:
    """Positions before a token that it sees, of (4096,0); 0 for none."""
    before = said.strip("()\"'").partition(",")[0]
    return int(before) if before.isdecimal() else 0
