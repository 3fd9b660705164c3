"""What NCCL logs of single calls: the algorithm and protocol that it took, and registered buffers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

#: One line per call with the subsystem TUNING: by names from 2.23 on, by numbers before.
_CHOICE = re.compile(
    r"NCCL INFO (?:(?P<op>\w+): )?(?P<bytes>\d+) Bytes -> Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)"
)
#: From 2.27 on: a kernel over symmetric memory, which has no algorithm and protocol.
_SYMMETRIC = re.compile(
    r"NCCL INFO (?P<op>\w+) \[Symmetric\]: (?P<bytes>\d+) Bytes -> Kernel (?P<kernel>\w+)"
)
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
#: The user's own buffers, by the subsystems NVLS (2.19 to 2.23) and REG: `rank 3 - NET register userbuff`,
#: `rank 3 successfully registered NVLS sendbuff`, `rank 3 reuse local-registered sendbuff`.
_REGISTERED = (
    re.compile(
        r"rank \d+ - (?P<kind>NET|IPC|COLLNET) (?:(?:local|graph) )?(?:reuse register|register|reuse) "
    ),
    re.compile(
        r"rank \d+ (?:successfully|reuse) (?:local-|graph-)?registered (?:(?P<kind>NVLS|collNet) )?sendbuff"
    ),
)
_REFUSED = (
    re.compile(r"rank \d+ failed to (?P<kind>NET|IPC|NVLS) register"),
    re.compile(r"rank \d+ - (?P<kind>COLLNET) failed to register"),
)
#: What stands where no buffer of the user was registered.
NONE_REGISTERED = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Algorithm and protocol that NCCL took for a call of `bytes`; `op` is empty before 2.23.

    A kernel over symmetric memory has the algorithm SYMMETRIC and its name for a protocol.
    """

    op: str
    bytes: int
    algorithm: str
    protocol: str


def read_choice(line: str) -> Choice | None:
    """What a line of the subsystem TUNING says of one call, or None when it is none."""
    if found := _CHOICE.search(line):
        algorithm, protocol = (
            _named(found["algorithm"], _ALGORITHMS),
            _named(found["protocol"], _PROTOCOLS),
        )
        return Choice(op=found["op"] or "", bytes=int(found["bytes"]), algorithm=algorithm, protocol=protocol)
    if found := _SYMMETRIC.search(line):
        return Choice(
            op=found["op"], bytes=int(found["bytes"]), algorithm="SYMMETRIC", protocol=found["kernel"]
        )
    return None


def chosen_in(lines: Iterable[str]) -> str | None:
    """`RING/SIMPLE` where the lines tell of one choice, `RING/LL + RING/SIMPLE` of two; None of none."""
    found = {f"{c.algorithm}/{c.protocol}" for c in map(read_choice, lines) if c}
    return " + ".join(sorted(found)) or None


def registered_in(lines: Iterable[str]) -> str:
    """`NET + NVLS`: for what the buffers of the calls were registered; `NET refused` where that failed."""
    found = set()
    for line in lines:
        if kind := _kind(line, _REGISTERED):
            found.add(kind)
        elif kind := _kind(line, _REFUSED):
            found.add(f"{kind} refused")
    return " + ".join(sorted(found)) or NONE_REGISTERED


def _kind(line: str, patterns: Iterable[re.Pattern[str]]) -> str | None:
    found = next((match for pattern in patterns if (match := pattern.search(line))), None)
    return (found["kind"] or "NVLS").upper() if found else None


def _named(said: str, names: tuple[str, ...]) -> str:
    return names[int(said)] if said.isdigit() and int(said) < len(names) else said
