"""Probes between pairs of nodes: a burst of small UDP packets tells round trip, loss and clock offset.

Each node answers and asks. Of many peers a few are asked per second, in turn; a burst is 16 packets of 24
bytes, so that it takes far less than 0.1 % of a link and of a core. The rate is probed over TCP, with 256 KiB
to one peer a second.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from assay.domain.subject import Subject

PORT = 9467
_PACKET = struct.Struct("!QIId")
_BURST, _WAIT_S = 16, 0.8
_RATE_BYTES, RATE_EVERY = 256 * 1024, 1
#: So many peers are asked in one second.
_AT_ONCE = 8


@dataclass(slots=True)
class _Told:
    round_trip_s: float = math.nan
    lost_frac: float = math.nan
    offset_s: float = math.nan
    rate_Bps: float = math.nan


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
        self._stop = threading.Event()
        self._answers = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._answers.bind((bind, port))
        self._listener = socket.create_server((bind, port), backlog=16)
        for run in (self._answer, self._ask):
            threading.Thread(target=run, name=f"peers {run.__name__}", daemon=True).start()

    def values(self) -> Iterator[tuple[str, Subject, float]]:
        """What the last burst to each peer told; a peer that does not answer has lost all, and no more."""
        for name, told in self._told.items():
            subject = self._subjects[name]
            for metric, value in (
                ("pair_round_trip_s", told.round_trip_s),
                ("pair_lost_frac", told.lost_frac),
                ("pair_clock_offset_s", told.offset_s),
                ("pair_rate_Bps", told.rate_Bps),
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
                        burst, number, _, _ = _PACKET.unpack(data)
                        self._answers.sendto(_PACKET.pack(burst, number, 1, time.time()), asker)
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
        names, at, turn = list(self._peers), 0, 0
        while names and not self._stop.wait(self._every_s):
            turn += 1
            for name in [names[(at + i) % len(names)] for i in range(min(_AT_ONCE, len(names)))]:
                self._burst(name)
            at = (at + _AT_ONCE) % len(names)
            if turn % self._rate_every == 0:
                for name in names[turn // self._rate_every % len(names) :][:1]:
                    self._rate(name)

    def _burst(self, name: str) -> None:
        told, trips = self._told[name], list[tuple[float, float]]()
        burst = time.monotonic_ns()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.setblocking(False)
            sent: dict[int, tuple[float, float]] = {}
            for number in range(_BURST):
                sent[number] = time.perf_counter(), time.time()
                try:
                    asker.sendto(_PACKET.pack(burst, number, 0, 0.0), (self._peers[name], self._port))
                except OSError:
                    break
                self._collect(asker, burst, sent, trips, 0.002)
            end_s = time.perf_counter() + _WAIT_S
            while len(trips) < len(sent) and (left_s := end_s - time.perf_counter()) > 0:
                self._collect(asker, burst, sent, trips, left_s)
        told.lost_frac = 1 - len(trips) / _BURST
        if trips:
            told.round_trip_s, told.offset_s = min(trips)

    @staticmethod
    def _collect(
        asker: socket.socket,
        burst: int,
        sent: Mapping[int, tuple[float, float]],
        trips: list[tuple[float, float]],
        wait_s: float,
    ) -> None:
        """Take in an answer that comes within `wait_s`."""
        if not select.select([asker], [], [], wait_s)[0]:
            return
        with contextlib.suppress(OSError):
            data = asker.recv(64)
            back_s = time.perf_counter()
            if len(data) == _PACKET.size:
                of, number, _, stamp_s = _PACKET.unpack(data)
                if of == burst and number in sent:
                    begin_s, wall_s = sent[number]
                    trip_s = back_s - begin_s
                    trips.append((trip_s, stamp_s - (wall_s + trip_s / 2)))

    def _rate(self, name: str) -> None:
        told = self._told[name]
        try:
            with socket.create_connection((self._peers[name], self._port), timeout=2.0) as talker:
                begin_s = time.perf_counter()
                talker.sendall(bytes(_RATE_BYTES))
                talker.recv(1)
                told.rate_Bps = _RATE_BYTES / (time.perf_counter() - begin_s)
        except OSError:
            told.rate_Bps = math.nan
