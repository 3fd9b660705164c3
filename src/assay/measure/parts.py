"""The parts of a training step, each by itself: linear layers, attention, pointwise, head, embedding, update.

Each runs `transformer.py`'s own code forward and backward through autograd, in as many layers as the model
has, each with weights and inputs of its own. Imports torch, so it is itself imported inside the function that
needs it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as functional

from assay.measure.benchmarks.kernels import ADAMW, adamw, adamw_is_right
from assay.measure.transformer import Block, Shape, Transformer, attend

#: How far a result may be from double precision, over its deviation: the rounding of a few steps.
_TOLERANCE = {"fp32": 2.0**-14, "bf16": 2.0**-4}
#: Tokens of the first sequence that are compared with the reference; none of them looks at later ones.
_CHECKED = 16


@dataclass(frozen=True)
class Batch:
    """What goes through the model on one rank: `count` sequences, where, and the dtype of its products."""

    shape: Shape
    count: int
    device: str
    dtype: str

    def input(self, width: int) -> Any:
        """Activations, batch × sequence × width, whose gradient is wanted."""
        return torch.randn(self.count, self.shape.sequence, width, device=self.device, requires_grad=True)

    def words(self) -> Any:
        """Token numbers, batch × sequence."""
        sides = (self.count, self.shape.sequence)
        return torch.randint(self.shape.vocabulary, sides, device=self.device)

    def multiplying(self) -> Any:
        """The context in which products are done in the batch's dtype."""
        kind = self.device.partition(":")[0]
        return torch.autocast(kind, torch.bfloat16, enabled=self.dtype != "fp32")


@dataclass(frozen=True)
class Part:
    """One part: what to run, and whether its last run was right."""

    name: str
    run: Callable[[], object]
    is_right: Callable[[], bool]


def parts(batch: Batch) -> Iterable[Part]:
    """Every part, made when its turn comes, so that only one holds memory at a time."""
    for make in (_linear, _attention, _pointwise, _head, _embedding, _update):
        yield make(batch)


def parameters(shape: Shape) -> int:
    """How many parameters the model has."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Transformer(shape).parameters())


@dataclass(frozen=True)
class _Layer:
    """A module and what goes into it; `forward` gives the results of both."""

    module: Any
    inputs: tuple[Any, ...]
    forward: Callable[..., tuple[Any, ...]]

    def results(self) -> tuple[Any, ...]:
        """Forward, as part of a run."""
        return self.forward(self.module, *self.inputs)

    def leaves(self) -> list[Any]:
        """All whose gradients are wanted."""
        return [*self.module.parameters(), *(x for x in self.inputs if x.requires_grad)]


def _layered(batch: Batch, name: str, layers: list[_Layer], *, gradient: int | None = None) -> Part:
    """All layers forward and then backward. `gradient` limits the columns of the gradients compared."""
    leaves = [leaf for layer in layers for leaf in layer.leaves()]
    last: list[Any] = []

    def forward() -> None:
        with batch.multiplying():
            last[:] = [result for layer in layers for result in layer.results()]

    forward()
    seeds = [torch.randn_like(result) for result in last]

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        forward()
        torch.autograd.backward(last, seeds)

    def is_right() -> bool:
        """The first tokens of the first layer, and of the gradients of its inputs, in double precision."""
        first, some = layers[0], (slice(0, 1), slice(0, _CHECKED))
        module = copy.deepcopy(first.module).double()
        inputs = [x.detach()[some].double().requires_grad_() for x in first.inputs]
        results = first.forward(module, *inputs)
        torch.autograd.backward(results, [seed[some].double() for seed in seeds[: len(results)]])
        pairs = [(last[i][some], results[i]) for i in range(len(results))]
        pairs += [
            (x.grad[some][..., :gradient], y.grad[..., :gradient])
            for x, y in zip(first.inputs, inputs, strict=True)
        ]
        return all(_close(found, wanted.detach(), batch.dtype) for found, wanted in pairs)

    return Part(name, run, is_right)


def _linear(batch: Batch) -> Part:
    """The four linear layers of every block, with their biases."""
    width, heads = batch.shape.hidden, batch.shape.heads

    def forward(block: Any, x: Any) -> tuple[Any, ...]:
        return block.qkv(x), block.down(block.up(block.out(x)))

    layers = [
        _Layer(Block(width, heads).to(batch.device), (batch.input(width),), forward)
        for _ in range(batch.shape.layers)
    ]
    return _layered(batch, "linear", layers)


def _attention(batch: Batch) -> Part:
    """Attention of every block, with the layouts that it needs."""
    width, heads = batch.shape.hidden, batch.shape.heads

    def forward(_: Any, qkv: Any) -> tuple[Any, ...]:
        return (attend(qkv, heads),)

    layers = [
        _Layer(torch.nn.Module(), (batch.input(3 * width),), forward) for _ in range(batch.shape.layers)
    ]
    # Later tokens look at the keys and values of the first ones, so only the gradient of q is theirs alone.
    return _layered(batch, "attention", layers, gradient=width)


def _pointwise(batch: Batch) -> Part:
    """Norms, residuals and GELU of every block."""
    width, heads = batch.shape.hidden, batch.shape.heads

    def forward(block: Any, x: Any, wide: Any) -> tuple[Any, ...]:
        x = x + block.attention_norm(x)
        return x + block.mlp_norm(x), functional.gelu(wide)

    layers = [
        _Layer(
            Block(width, heads).to(batch.device),
            (batch.input(width), batch.input(4 * width)),
            forward,
        )
        for _ in range(batch.shape.layers)
    ]
    return _layered(batch, "pointwise", layers)


def _without_blocks(batch: Batch) -> Any:
    """The model's embeddings, last norm and head."""
    return Transformer(dataclasses.replace(batch.shape, layers=0)).to(batch.device)


def _head(batch: Batch) -> Part:
    """The last norm, the product with the vocabulary and the cross-entropy."""
    model, x, targets = _without_blocks(batch), batch.input(batch.shape.hidden), batch.words()

    def run() -> None:
        model.zero_grad(set_to_none=True)
        x.grad = None
        with batch.multiplying():
            loss = model.loss(x, targets)
        loss.backward()

    def is_right() -> bool:
        """The gradients of the first tokens' inputs in double precision; the mean over all divides them."""
        some = (slice(0, 1), slice(0, _CHECKED))
        precise = x.detach()[some].double().requires_grad_()
        copy.deepcopy(model).double().loss(precise, targets[some]).backward()
        share = _CHECKED / targets.numel()
        return _close(x.grad[some], precise.grad * share, batch.dtype)

    return Part("head", run, is_right)


def _embedding(batch: Batch) -> Part:
    """Tokens and positions looked up, and the gradients of both tables, which are written whole."""
    model, words = _without_blocks(batch), batch.words()
    seed = torch.randn_like(model.embed(words))

    def run() -> None:
        model.zero_grad(set_to_none=True)
        model.embed(words).backward(seed)

    def is_right() -> bool:
        """The gradient of one word: what came back to each place where it stands."""
        wanted = seed[words == words[0, 0]].double().sum(0)
        return _close(model.tokens.weight.grad[words[0, 0]], wanted, "fp32")

    return Part("embedding", run, is_right)


def _update(batch: Batch) -> Part:
    """The optimizer's step over all parameters of the model."""
    model = Transformer(batch.shape).to(batch.device)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer, _ = adamw(model.parameters(), **ADAMW)
    return Part("update", optimizer.step, lambda: adamw_is_right(optimizer, model.head.weight))


def _close(found: Any, wanted: Any, dtype: str) -> bool:
    """Whether all elements agree over the deviation of those wanted; false for NaN."""
    wanted = wanted.double()
    return bool(((found.double() - wanted).abs() <= _TOLERANCE[dtype] * (wanted.std() + wanted.abs())).all())
