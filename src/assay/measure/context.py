"""What a benchmark sees on its rank: who it is, its device, its peers, and where to put what it finds."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.errors import MeasurementError
from assay.measure.timing import no_sync
from assay.store.append import LineFile, SampleFile

Value = float | str | None
RecipeParam = str | int | float | bool


@dataclass
class Context:
    """One rank inside one benchmark.

    `rank` counts the ranks that take part in this task; `numbers` are their numbers in the run, which name
    subjects and files and differ from it where ranks of the run are lost; `hosts` are the hosts of each.

    `device` is `cpu` or `cuda:<i>`; `backend` what carries tensors of that device. `settings` are the
    suite's numbers for this benchmark. `launched_s` is when the agent started this restart's workers,
    `deadline_s` when it kills them. `crowded` says why absolute rates mean nothing here ("4 ranks share
    2 cores"), or is None. `calls` counts what this rank has asked of the network so far, by operation,
    message bytes, ranks, nodes and ranks on this node; benchmarks add to it by `called`. `group` is
    torch's process group of these ranks where they are some of the task's, or None. `subject` is
    `gpu:<host>/<i>`, or `rank:<r>` where there is no GPU.
    """

    run: str
    folder: str
    scratch: str
    benchmark: str
    replicate: int
    rank: int
    numbers: tuple[int, ...]
    local_rank: int
    hosts: tuple[str, ...]
    device: str
    backend: str
    seed: int
    command_time_s: float
    launched_s: float
    deadline_s: float
    settings: Mapping[str, Any]
    units: Mapping[str, str]
    crowded: str | None
    lines: LineFile
    samples: SampleFile
    calls: dict[tuple[str, int, int, int, int], int] = field(default_factory=dict)
    group: Any = None

    @property
    def world(self) -> int:
        """How many ranks take part."""
        return len(self.numbers)

    @property
    def host(self) -> str:
        """The host that this rank is on."""
        return self.hosts[self.rank]

    @property
    def number(self) -> int:
        """This rank's number in the run."""
        return self.numbers[self.rank]

    @property
    def subject(self) -> str:
        """This rank as the subject of a reading."""
        return f"gpu:{self.host}/{self.local_rank}" if self.on_gpu else f"rank:{self.number}"

    @property
    def on_gpu(self) -> bool:
        """Whether this rank has a GPU."""
        return self.device.startswith("cuda")

    @property
    def transport(self) -> str:
        """What carries messages between ranks; part of every recipe that sends one."""
        return self.backend

    def sync_function(self) -> Callable[[], None]:
        """The function that waits for this rank's device."""
        if not self.on_gpu:
            return no_sync
        import torch

        return lambda: torch.cuda.synchronize(self.device)

    def host_threads(self) -> dict[str, RecipeParam]:
        """The CPU threads of this rank as part of a recipe; nothing where a GPU does the work."""
        if self.on_gpu:
            return {}
        import torch

        return {"threads": torch.get_num_threads()}

    def time_left_s(self) -> float:
        """Seconds until the agent kills this worker."""
        return self.deadline_s - time.time()

    def barrier(self) -> None:
        """Wait for every rank, through host memory: no GPU work, no spinning on the device."""
        if self.world > 1:
            import torch
            import torch.distributed as dist

            dist.all_reduce(torch.zeros(1), group=self.group)

    def called(self, op: str, message_bytes: int, *, count: int = 1, hosts: Sequence[str] = ()) -> None:
        """Note `count` calls of an operation over the ranks on `hosts` (default: all), for the attestation.

        A message that this rank alone has sent is the operation `send`, over its own host and the other's.
        """
        where = hosts or self.hosts
        key = (op, message_bytes, len(where), len(set(where)), where.count(self.host))
        if count and len(where) > 1:
            self.calls[key] = self.calls.get(key, 0) + count

    def agree(self, value: float, how: str = "max") -> float:
        """The maximum, minimum or sum of `value` over the ranks, the same on each."""
        if self.world == 1:
            return value
        import torch
        import torch.distributed as dist

        tensor = torch.tensor([value], dtype=torch.float64)
        ops = {"max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN, "sum": dist.ReduceOp.SUM}
        dist.all_reduce(tensor, op=ops[how], group=self.group)
        return float(tensor.item())

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """The equally long `values` of every rank, by rank, on each."""
        if self.world == 1:
            return [list(values)]
        import torch
        import torch.distributed as dist

        mine = torch.tensor(list(values), dtype=torch.float64)
        every = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(every, mine, group=self.group)
        return [t.tolist() for t in every]

    def record(
        self,
        quantity: str,
        value: float | str,
        unit: str,
        *,
        recipe: Mapping[str, RecipeParam] | None = None,
        subject: str | None = None,
        n: int | None = None,
        low: float | None = None,
        high: float | None = None,
        samples: array[float] | None = None,
        samples_unit: str = "s",
        cpu_share_frac: float | None = None,
        absolute: bool = True,
    ) -> None:
        """Append a reading. `absolute` values are not measured where ranks are crowded."""
        if absolute and self.crowded:
            self.missing(quantity, unit, self.crowded, recipe=recipe, subject=subject)
            return
        line: dict[str, Any] = {
            "type": "reading",
            "quantity": quantity,
            "subject": subject or self.subject,
            "value": value,
            "unit": unit,
            "recipe": dict(recipe or {}),
            "replicate": self.replicate,
            "time_s": round(time.time(), 3),
        }
        optional = {"n": n, "low": low, "high": high, "cpu_share_frac": cpu_share_frac}
        line |= {k: v for k, v in optional.items() if v is not None}
        if samples is not None:
            offset, count = self.samples.append(samples)
            line["samples"] = {
                "file": self.samples.name,
                "offset": offset,
                "count": count,
                "unit": samples_unit,
            }
            line.setdefault("n", count)
        self.lines.append(line)

    def missing(
        self,
        quantity: str,
        unit: str,
        reason: str,
        *,
        recipe: Mapping[str, RecipeParam] | None = None,
        subject: str | None = None,
    ) -> None:
        """Append that a quantity was not measured, and why."""
        self.lines.append(
            {
                "type": "reading",
                "quantity": quantity,
                "subject": subject or self.subject,
                "value": None,
                "reason": reason,
                "unit": unit,
                "recipe": dict(recipe or {}),
                "replicate": self.replicate,
                "time_s": round(time.time(), 3),
            }
        )

    def fact(
        self, key: str, subject: str, value: Value, unit: str, *, reason: str | None = None, source: str = ""
    ) -> None:
        """Append one thing read about the machine."""
        line: dict[str, Any] = {"type": "fact", "key": key, "subject": subject, "value": value, "unit": unit}
        line |= {k: v for k, v in (("reason", reason), ("source", source)) if v}
        self.lines.append(line)

    def attest(
        self,
        *,
        told: Mapping[str, Mapping[str, str | None]],
        calls: Sequence[Mapping[str, str | int]],
        counted: Sequence[Mapping[str, Any]],
        rails: Mapping[str, int],
    ) -> None:
        """Append what carried this rank's messages."""
        self.lines.append(
            {
                "type": "attestation",
                "benchmark": self.benchmark,
                "replicate": self.replicate,
                "rank": self.number,
                "host": self.host,
                "transport": self.transport,
                "told": told,
                "calls": calls,
                "counted": counted,
                "rails": rails,
            }
        )

    def event(self, kind: str, text: str = "", **details: str | int | float | None) -> None:
        """Append something that happened."""
        self.lines.append(
            {
                "type": "event",
                "kind": kind,
                "time_s": round(time.time(), 3),
                "subject": f"rank:{self.number}",
                "text": text,
                "details": {"benchmark": self.benchmark, "replicate": self.replicate} | details,
            }
        )

    def require(self, held: bool, what: str) -> None:
        """A benchmark's proof that it did the work; without it nothing is measured."""
        if not held:
            raise MeasurementError(what)

    def require_everywhere(self, held: bool, what: str) -> None:
        """The same, agreed by all ranks, so that none waits in the next step for one that gave up."""
        wrong = [self.numbers[r] for r, (ok,) in enumerate(self.gather([1.0 if held else 0.0])) if not ok]
        if wrong:
            raise MeasurementError(f"{what} (on rank {', '.join(map(str, wrong))})")
