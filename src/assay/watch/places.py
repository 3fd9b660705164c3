"""Where things stand: rank → node ← GPU, port → switch. Two findings that touch the same place may be one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from assay.domain.event import Event
from assay.domain.subject import Subject


@dataclass(slots=True)
class Places:
    """Learns from events `rank_placed` (details: node) and `cabled` (details: peer, a port)."""

    node_of_rank: dict[str, str] = field(default_factory=dict)
    peer_of_port: dict[Subject, Subject] = field(default_factory=dict)

    @classmethod
    def of(cls, ranks: Mapping[str, str], cables: Iterable[tuple[str, str]] = ()) -> Places:
        """From ranks with their nodes, and cables as pairs of ports."""
        places = cls(node_of_rank=dict(ranks))
        for a, b in cables:
            places.cable(Subject("port", a), Subject("port", b))
        return places

    def cable(self, a: Subject, b: Subject) -> None:
        """Both ends of a cable."""
        self.peer_of_port[a], self.peer_of_port[b] = b, a

    def learn(self, event: Event) -> None:
        """Take what an event tells of a place."""
        if event.kind == "rank_placed":
            self.node_of_rank[event.subject.name] = str(event.details.get("node", ""))
        elif event.kind == "cabled":
            self.cable(event.subject, Subject.parse(str(event.details.get("peer"))))

    def touched(self, subject: Subject) -> frozenset[str]:
        """Nodes and switches that a subject is part of; none for a job or the cluster."""
        if subject.kind == "rank":
            node = self.node_of_rank.get(subject.name)
            return frozenset({node}) if node else frozenset({str(subject)})
        if subject.kind in ("pair", "link"):
            return frozenset(end.partition("/")[0] for end in subject.ends if end != "*")
        if subject.kind == "port":
            ends = [subject, self.peer_of_port.get(subject)]
            return frozenset(_holder(end) for end in ends if end is not None)
        return frozenset({subject.name.partition("/")[0]}) if subject.kind in ("node", "gpu") else frozenset()


def _holder(port: Subject) -> str:
    """`h1/mlx5_0[1]` belongs to h1, `leaf003[9]` to leaf003."""
    return port.name.partition("/")[0].partition("[")[0]
