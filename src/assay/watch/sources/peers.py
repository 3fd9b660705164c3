"""Probes between pairs of nodes: small UDP packets tell round trip, loss and clock offset.

Each node answers and asks. Of many peers a few are asked per second, in turn, with 16 packets of 24 bytes
spread over a third of a second: far less than 0.1 % of a link, and the lowest round trip is that of a moment
without a pause of either process. A packet counts as lost when it has not come back after 3 s. The rate is
probed over TCP, with 256 KiB to one peer a second.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from assay.domain.subject import Subject

PORT = 9467
_PACKET = struct.Struct("!QIId")
_BURST, _APART_S, _LOST_S, _WAIT_S = 16, 0.02, 3.0, 0.8
_RATE_BYTES, RATE_EVERY = 256 * 1024, 1
#: The best of so many rates is told: a pause of a process makes a rate low, and never high.
_BEST_OF = 2
#: So many peers are asked in one second.
_AT_ONCE = 8


@dataclass(slots=True)
class _Told:
    round_trip_s: float = math.nan
    lost_frac: float = math.nan
    offset_s: float = math.nan
    rates_Bps: deque[float] = field(default_factory=lambda: deque(maxlen=_BEST_OF))


@dataclass(slots=True)
class _Turn:
    """Packets of one turn that have not come back: (peer, number) -> when they left, by both clocks."""

    at_s: float
    names: dict[int, str]
    open: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)


def _proven(offset_s: float, trip_s: float) -> float:
    """The least offset that an exchange proves: it is known to half the round trip."""
    return math.copysign(max(abs(offset_s) - trip_s / 2, 0.0), offset_s)


class Peers:
    """Answers probes on `port`, and probes the peers, given by name with their addresses."""

    def __init__(
        self,
        host: str,
        peers: Mapping[str, str],
        *,
        bind: str,
        port: int = PORT,
        every_s: float = 1.0,
        rate_every: int = RATE_EVERY,
    ) -> None:
        self._peers = {name: address for name, address in peers.items() if name != host}
        self._subjects = {name: Subject("link", f"{host}>{name}") for name in self._peers}
        self._told = {name: _Told() for name in self._peers}
        self._port, self._every_s, self._rate_every = port, every_s, rate_every
        self._turns: dict[int, _Turn] = {}
        self._stop = threading.Event()
        self._answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._answers.bind((bind, port))
        self._listener = socket.create_server((bind, port), backlog=16)
        for run in (self._answer, self._ask):
            threading.Thread(target=run, name=f"peers {run.__name__}", daemon=True).start()

    def values(self) -> Iterator[tuple[str, Subject, float]]:
        """What the last burst to each peer told; a peer that answers no longer has lost all."""
        for name, told in self._told.items():
            subject = self._subjects[name]
            for metric, value in (
                ("pair_round_trip_s", told.round_trip_s),
                ("pair_lost_frac", told.lost_frac),
                ("pair_clock_offset_s", told.offset_s),
                ("pair_rate_Bps", max(told.rates_Bps, default=math.nan)),
            ):
                if not math.isnan(value):
                    yield metric, subject, value

    def close(self) -> None:
        """Stop answering and asking."""
        self._stop.set()
        self._answers.close()
        self._listener.close()

    def _answer(self) -> None:
        """Send each packet back with this clock's time in it; take in and count bytes over TCP."""
        while not self._stop.is_set():
            try:
                ready, _, _ = select.select([self._answers, self._listener], [], [], 0.5)
                if self._answers in ready:
                    data, asker = self._answers.recvfrom(64)
                    if len(data) == _PACKET.size:
                        turn, number, peer, _ = _PACKET.unpack(data)
                        self._answers.sendto(_PACKET.pack(turn, number, peer, time.time()), asker)
                if self._listener in ready:
                    self._drain()
            except (OSError, ValueError):
                if self._stop.is_set():
                    return

    def _drain(self) -> None:
        talker, _ = self._listener.accept()
        with talker:
            talker.settimeout(_WAIT_S)
            left = _RATE_BYTES
            with contextlib.suppress(OSError):
                while left > 0 and (piece := talker.recv(min(left, 65536))):
                    left -= len(piece)
                talker.sendall(b".")

    def _ask(self) -> None:
        names, turn = list(self._peers), 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.setblocking(False)
            while names and not self._stop.wait(self._every_s):
                turn += 1
                first = turn * _AT_ONCE if len(names) > _AT_ONCE else 0
                now = [(first + i) % len(names) for i in range(min(_AT_ONCE, len(names)))]
                self._turn(asker, turn, [(peer, names[peer]) for peer in now])
                if turn % self._rate_every == 0:
                    self._rate(names[turn // self._rate_every % len(names)])

    def _turn(self, asker: socket.socket, turn: int, peers: Sequence[tuple[int, str]]) -> None:
        """Probe some peers: round trip and offset from this turn, losses from the turn that is old enough."""
        trips: dict[int, list[tuple[float, float]]] = {peer: [] for peer, _ in peers}
        sent = _Turn(at_s=time.perf_counter(), names=dict(peers))
        self._turns[turn] = sent
        for number in range(_BURST):
            for peer, name in peers:
                sent.open[peer, number] = time.perf_counter(), time.time()
                # Where it cannot be sent, it will not come back.
                with contextlib.suppress(OSError):
                    asker.sendto(_PACKET.pack(turn, number, peer, 0.0), (self._peers[name], self._port))
            self._collect(asker, trips, turn, _APART_S)
        self._collect(asker, trips, turn, 10 * _APART_S)
        for peer, name in peers:
            told = self._told[name]
            told.round_trip_s, told.offset_s = min(trips[peer], default=(math.nan, math.nan))
        self._settle()

    def _collect(
        self, asker: socket.socket, trips: dict[int, list[tuple[float, float]]], now: int, wait_s: float
    ) -> None:
        """Take in the answers that come within `wait_s`, also those of earlier turns."""
        end_s = time.perf_counter() + wait_s
        while (left_s := end_s - time.perf_counter()) > 0 and select.select([asker], [], [], left_s)[0]:
            with contextlib.suppress(OSError):
                data = asker.recv(64)
                back_s = time.perf_counter()
                turn, number, peer, stamp_s = _PACKET.unpack(data)
                sent = self._turns.get(turn)
                begin = sent.open.pop((peer, number), None) if sent else None
                if begin and turn == now:
                    trip_s = back_s - begin[0]
                    trips[peer].append((trip_s, _proven(stamp_s - (begin[1] + trip_s / 2), trip_s)))

    def _settle(self) -> None:
        """What has not come back by now is lost."""
        for turn, sent in list(self._turns.items()):
            if time.perf_counter() - sent.at_s > _LOST_S:
                del self._turns[turn]
                for peer, name in sent.names.items():
                    lost, told = sum(1 for of, _ in sent.open if of == peer), self._told[name]
                    # A peer that has never answered is not there yet, which is no loss on the way to it.
                    if lost < _BURST or not math.isnan(told.lost_frac):
                        told.lost_frac = lost / _BURST

    def _rate(self, name: str) -> None:
        told = self._told[name]
        try:
            with socket.create_connection((self._peers[name], self._port), timeout=2.0) as talker:
                begin_s = time.perf_counter()
                talker.sendall(bytes(_RATE_BYTES))
                talker.recv(1)
                told.rates_Bps.append(_RATE_BYTES / (time.perf_counter() - begin_s))
        except OSError:
            told.rates_Bps.clear()
