"""The model of a published run: what the row states, the catalogue's model of that name, or several."""

from __future__ import annotations

import re
from dataclasses import replace

from assay.catalog.models import models
from assay.domain.workload import Transformer
from assay.errors import InputError
from assay.predict.cells import Row, number, whole

#: What `shapes_of` notes where a row states neither a known model nor a shape.
SHAPE_GUESSED = "shape marginalised over widths of the stated size"

#: Families whose feed-forward is gated.
_GATED = ("llama", "mistral", "mixtral", "qwen", "intern", "aurora", "yi", "glm", "deepseek")

#: Words in a model's name → the vocabulary of its family; the first that is found.
_VOCABULARIES = (
    ("bloom", 250880),
    ("llama 3", 128256),
    ("llama3", 128256),
    ("qwen", 151936),
    ("glm", 150528),
)


def shapes_of(row: Row, assumed: list[str]) -> list[tuple[Transformer, float]]:
    """The shape a row states, its gaps filled from the catalogue's model of that name, or several."""
    named = _named(row.get("model_name", ""))
    layers = whole(row, "layers")
    hidden, ffn, heads = (whole(row, key) for key in ("hidden", "ffn_hidden", "heads"))
    if named is not None:
        return [(_adjusted(named, row, layers), 1.0)]
    vocab = whole(row, "vocab") or _usual_vocab(row)
    sized = re.search(r"(\d+(?:\.\d+)?)\s*B\b", row.get("model_name", ""))
    params = number(row, "params_b") or (float(sized[1]) if sized else None)
    if hidden is None or layers is None:
        return _guessed(row, params, hidden, layers, heads, vocab, assumed)
    options = [heads] if heads else _head_counts(hidden, whole(row, "tp") or 1)
    if not heads:
        assumed.append("head count marginalised")
    return [
        (_plain(row, layers, hidden, ffn, count, vocab), 1.0 / len(set(options)))
        for count in dict.fromkeys(options)
    ]


def _guessed(
    row: Row,
    params: float | None,
    hidden: int | None,
    layers: int | None,
    heads: int | None,
    vocab: int,
    assumed: list[str],
) -> list[tuple[Transformer, float]]:
    """Shapes of the stated size: 12·L·h² + V·h parameters at a few widths."""
    if params is None:
        raise InputError("neither layers and hidden size nor parameters are given, and the model is unknown")
    assumed.append(SHAPE_GUESSED)
    total = params * 1e9
    noted = re.search(r"about (\d{4,5}) wide", row.get("notes", ""))
    if hidden is None and noted:
        # Where the head count is stated, the width that cuts into aligned heads nearest to the note.
        lot = 8 * (heads or 1) if heads else 1
        hidden = max(1, round(int(noted[1]) / lot)) * lot
    if hidden:
        widths = [hidden]
    else:
        middle = (total / 12 / 80) ** 0.5 if total > 5e10 else (total / 12 / 32) ** 0.5
        widths = [max(128, round(middle * f / 512) * 512) for f in (0.93, 1.0, 1.07)]
    found = []
    for width in widths:
        count = layers or max(1, round((total - vocab * width) / (12 * width**2)))
        options = [heads] if heads and width % heads == 0 else _head_counts(width, whole(row, "tp") or 1)
        share = 1.0 / len(widths) / len(options)
        found += [(_plain(row, count, width, None, option, vocab), share) for option in options]
    return found


def _head_counts(hidden: int, tp: int) -> list[int]:
    """Head counts that cut a width evenly into heads of 96 to 192, at most four of them."""
    fits = [n for n in range(tp, hidden // 96 + 1, tp) if hidden % n == 0 and 96 <= hidden // n <= 192]
    fits = sorted(fits, key=lambda n: abs(hidden / n - 128))[:4]
    return fits or [max(1, hidden // 128)]


def _plain(row: Row, layers: int, hidden: int, ffn: int | None, heads: int, vocab: int) -> Transformer:
    name = row.get("model_name", "model")
    gated = any(word in name.lower() for word in _GATED)
    experts = whole(row, "experts") or 0
    topk = whole(row, "topk") or min(experts, 2 if experts <= 16 else 8)
    width = ffn or (round(8 * hidden / 3 / 256) * 256 if gated else 4 * hidden)
    return Transformer(
        id=re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") or "model",
        name=name,
        source=row.get("source", "a table"),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=whole(row, "kv_heads") or heads,
        head_dim=hidden // heads,
        ffn=width,
        vocab=vocab,
        gated=gated,
        tied_embeddings=not gated,
        biases=not gated,
        norm_biases=not gated,
        learned_positions=2048 if name.lower().startswith("gpt") else 0,
        experts=experts,
        topk=topk,
        expert_ffn=width if experts else 0,
        moe_layers=layers if experts else 0,
    )


def _usual_vocab(row: Row) -> int:
    """The vocabulary that models of the named family have; GPT's, padded, where the name says nothing."""
    name = row.get("model_name", "").lower()
    found = [size for word, size in _VOCABULARIES if word in name]
    return found[0] if found else 32000 if any(word in name for word in _GATED) else 51200


def _named(name: str) -> Transformer | None:
    """The catalogue's model whose name is in a row's model name; the longest match wins."""
    said = re.sub(r"[^a-z0-9]", "", name.lower().replace("llama 3.", "llama3").replace("llama3.1", "llama31"))
    best: tuple[int, Transformer] | None = None
    for one in models():
        for word in (one.id, *one.aliases):
            key = re.sub(r"[^a-z0-9]", "", word)
            if len(key) > 5 and key in said and (best is None or len(key) > best[0]):
                best = (len(key), one)
    return best[1] if best else None


def _adjusted(named: Transformer, row: Row, layers: int | None) -> Transformer:
    """A catalogue model with what the row says otherwise: fewer layers, other groups, another vocabulary."""
    shape = named.with_layers(layers) if layers and layers < named.layers else named
    changes: dict[str, int] = {}
    kv_heads, vocab = whole(row, "kv_heads"), whole(row, "vocab")
    if kv_heads and not named.latent_rank and kv_heads != named.kv_heads and named.heads % kv_heads == 0:
        changes["kv_heads"] = kv_heads
    if vocab and vocab != named.vocab:
        changes["vocab"] = vocab
    hidden = whole(row, "hidden")
    heads = whole(row, "heads")
    if hidden and hidden != named.hidden and heads:
        changes |= {
            "hidden": hidden,
            "heads": heads,
            "head_dim": hidden // heads,
            "value_dim": hidden // heads,
            "kv_heads": kv_heads or heads,
            "ffn": whole(row, "ffn_hidden") or named.ffn,
        }
    return replace(shape, **changes) if changes else shape  # type: ignore[arg-type]
