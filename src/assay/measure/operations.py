"""The collective operations: buffers, one call, the exact result, and nccl-tests' definition of bandwidth.

`size_bytes` is what nccl-tests prints as size: the buffer of one rank for all_reduce, broadcast and
send_recv; all that a rank receives for all_gather; all that a rank sends for reduce_scatter and all_to_all.
Tensors are fp32 and hold small whole numbers, so that every sum is exact (up to about 4,000 ranks).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from assay.measure.context import Context

ITEM_BYTES = 4
#: Length of the repeated pattern: a prime, so that no chunk of an operation is a multiple of it.
_PERIOD = 13
_MARKS = 65521


class Operation:
    """One operation with buffers of its own on this rank's device.

    `factor` times algbw is busbw (nccl-tests, PERFORMANCE.md). `splits` says that the message is cut into
    a block per rank. In an operation that `waits_for_all`, no rank can end before every rank has entered.
    """

    name = ""
    splits = False
    waits_for_all = True

    def __init__(self, context: Context, size_bytes: int) -> None:
        self.rank, self.world, self._device = context.rank, context.world, context.device
        self._group = context.group
        items = size_bytes // ITEM_BYTES
        self._block = items // self.world
        self._items = self._block * self.world if self.splits else items
        self.message_bytes = self._items * ITEM_BYTES

    @property
    def factor(self) -> float:
        """busbw over algbw: what each rank's link carries for a byte of the message."""
        return 1.0

    def fill(self) -> None:
        """Put this rank's input into place and wipe the output."""
        raise NotImplementedError

    def run(self) -> None:
        """Call the operation once; on a GPU it is only put on the stream."""
        raise NotImplementedError

    def is_right(self) -> bool:
        """Whether the output is exactly what one `run` after `fill` must give."""
        raise NotImplementedError

    def _pattern(self, items: int, mark: int) -> Any:
        """Whole numbers 0 … 12 over and over, plus `mark`."""
        import torch

        period = torch.arange(_PERIOD, dtype=torch.float32, device=self._device) + float(mark)
        return period.repeat(math.ceil(items / _PERIOD))[:items]

    def _sum_over_ranks(self, items: int, mark: int) -> Any:
        """The sum of each rank's pattern of mark `mark` + rank + 1."""
        n = self.world
        return self._pattern(items, 0).mul_(n).add_(float(n * mark + n * (n + 1) // 2))

    def _empty(self, items: int) -> Any:
        import torch

        return torch.zeros(items, dtype=torch.float32, device=self._device)

    def _block_of(self, tensor: Any, rank: int) -> Any:
        return tensor[rank * self._block : (rank + 1) * self._block]


class AllReduce(Operation):
    """In place, as torch does it; repeated sums grow to infinity, which costs what other sums cost."""

    name = "all_reduce"

    def __init__(self, context: Context, size_bytes: int) -> None:
        super().__init__(context, size_bytes)
        self._buffer = self._empty(self._items)

    @property
    def factor(self) -> float:
        """2(n−1)/n: each byte goes out to be summed and comes back."""
        return 2 * (self.world - 1) / self.world

    def fill(self) -> None:
        """Rank r holds the pattern plus r + 1."""
        self._buffer.copy_(self._pattern(self._items, self.rank + 1))

    def run(self) -> None:
        """Sum over the ranks."""
        import torch.distributed as dist

        dist.all_reduce(self._buffer, group=self._group)

    def is_right(self) -> bool:
        """Every rank holds the sum."""
        import torch

        return bool(torch.equal(self._buffer, self._sum_over_ranks(self._items, 0)))


class _Split(Operation):
    """An operation on a block per rank, out of place; each rank keeps one of n blocks to itself."""

    splits = True

    def __init__(self, context: Context, size_bytes: int) -> None:
        super().__init__(context, size_bytes)
        self._input = self._empty(self._items if self._sends_all() else self._block)
        self._output = self._empty(self._items if self._receives_all() else self._block)

    def _sends_all(self) -> bool:
        return True

    def _receives_all(self) -> bool:
        return True

    @property
    def factor(self) -> float:
        """(n−1)/n: a rank's own block needs no link."""
        return (self.world - 1) / self.world


class AllGather(_Split):
    """Each rank gives a block, all get all of them."""

    name = "all_gather"

    def _sends_all(self) -> bool:
        return False

    def fill(self) -> None:
        """Rank r gives the pattern plus r + 1."""
        self._input.copy_(self._pattern(self._block, self.rank + 1))
        self._output.zero_()

    def run(self) -> None:
        """Gather the blocks in the order of the ranks."""
        _torch_function("all_gather_single", "all_gather_into_tensor")(self._output, self._input)

    def is_right(self) -> bool:
        """Block r is rank r's."""
        import torch

        return all(
            torch.equal(self._block_of(self._output, r), self._pattern(self._block, r + 1))
            for r in range(self.world)
        )


class ReduceScatter(_Split):
    """Each rank gives a block for every rank; rank q gets the sum of those for it."""

    name = "reduce_scatter"

    def _receives_all(self) -> bool:
        return False

    def fill(self) -> None:
        """Rank r gives rank q the pattern plus q + r + 1."""
        for q in range(self.world):
            self._block_of(self._input, q).copy_(self._pattern(self._block, q + self.rank + 1))
        self._output.zero_()

    def run(self) -> None:
        """Sum and scatter."""
        _torch_function("reduce_scatter_single", "reduce_scatter_tensor")(self._output, self._input)

    def is_right(self) -> bool:
        """The output is the sum of the blocks for this rank."""
        import torch

        return bool(torch.equal(self._output, self._sum_over_ranks(self._block, self.rank)))


class AllToAll(_Split):
    """Each rank gives a block to every rank and gets one from each."""

    name = "all_to_all"

    def _mark(self, sender: int, receiver: int) -> int:
        return (sender * self.world + receiver) % _MARKS

    def fill(self) -> None:
        """The block from rank r to rank q has a mark of its own."""
        for q in range(self.world):
            self._block_of(self._input, q).copy_(self._pattern(self._block, self._mark(self.rank, q)))
        self._output.zero_()

    def run(self) -> None:
        """Exchange the blocks."""
        import torch.distributed as dist

        dist.all_to_all_single(self._output, self._input)

    def is_right(self) -> bool:
        """Block r is what rank r had for this rank."""
        import torch

        return all(
            torch.equal(self._block_of(self._output, r), self._pattern(self._block, self._mark(r, self.rank)))
            for r in range(self.world)
        )


class Broadcast(Operation):
    """Rank 0 gives, the others get; a rank can end before others have entered."""

    name = "broadcast"
    waits_for_all = False

    def __init__(self, context: Context, size_bytes: int) -> None:
        super().__init__(context, size_bytes)
        self._buffer = self._empty(self._items)

    def fill(self) -> None:
        """Only rank 0 holds the pattern."""
        if self.rank == 0:
            self._buffer.copy_(self._pattern(self._items, 1))
        else:
            self._buffer.zero_()

    def run(self) -> None:
        """Broadcast from rank 0."""
        import torch.distributed as dist

        dist.broadcast(self._buffer, src=0)

    def is_right(self) -> bool:
        """Every rank holds rank 0's pattern."""
        import torch

        return bool(torch.equal(self._buffer, self._pattern(self._items, 1)))


class SendRecv(Operation):
    """Around the ring: each rank sends to the next and receives from the one before, both at once."""

    name = "send_recv"
    waits_for_all = False

    def __init__(self, context: Context, size_bytes: int) -> None:
        super().__init__(context, size_bytes)
        self._input, self._output = self._empty(self._items), self._empty(self._items)
        self._next, self._before = (self.rank + 1) % self.world, (self.rank - 1) % self.world

    def fill(self) -> None:
        """Rank r sends the pattern plus r + 1."""
        self._input.copy_(self._pattern(self._items, self.rank + 1))
        self._output.zero_()

    def run(self) -> None:
        """Send and receive as one group."""
        exchange(self._input, self._next, self._output, self._before)

    def is_right(self) -> bool:
        """The output is what the rank before sent."""
        import torch

        return bool(torch.equal(self._output, self._pattern(self._items, self._before + 1)))


OPERATIONS: dict[str, type[Operation]] = {
    kind.name: kind for kind in (AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, SendRecv)
}


def exchange(sent: Any, to: int, received: Any, source: int) -> None:
    """Send and receive at once; on a GPU both are put on the stream as one group."""
    import torch.distributed as dist

    both = [dist.P2POp(dist.isend, sent, to), dist.P2POp(dist.irecv, received, source)]
    for work in dist.batch_isend_irecv(both):
        work.wait()


def _torch_function(name: str, name_before: str) -> Callable[[Any, Any], object]:
    """A function of torch.distributed by the name that this torch knows; 2.13 renamed some."""
    import torch.distributed as dist

    function: Callable[[Any, Any], object] = getattr(dist, name, None) or getattr(dist, name_before)
    return function
