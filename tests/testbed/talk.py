"""Talks over TCP with one other host: `talk.py serve PORT`, or `talk.py HOST PORT` for a JSON line.

The line has the lowest of 40 round trips, and the rate at which 8 MiB arrive at the other end and here.
"""

from __future__ import annotations

import json
import socket
import sys
import time

SIZE = 8 << 20


def serve(port: int) -> None:
    with socket.create_server(("", port)) as listener:
        print("ready", flush=True)
        talker, _ = listener.accept()
        with talker:
            talker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(40):
                talker.sendall(receive(talker, 1))
            receive(talker, SIZE)
            talker.sendall(b"x")
            talker.sendall(bytes(SIZE))
            receive(talker, 1)


def talk(host: str, port: int) -> dict[str, float]:
    with socket.create_connection((host, port), timeout=30) as talker:
        talker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = [timed(lambda: (talker.sendall(b"x"), receive(talker, 1))) for _ in range(40)]
        out_s = timed(lambda: (talker.sendall(bytes(SIZE)), receive(talker, 1)))
        in_s = timed(lambda: receive(talker, SIZE))
        talker.sendall(b"x")
        return {"round_trip_s": min(trips), "out_Bps": SIZE / out_s, "in_Bps": SIZE / in_s}


def receive(talker: socket.socket, count: int) -> bytes:
    got = b""
    chunks = []
    while count > 0 and (got := talker.recv(min(count, 1 << 18))):
        chunks.append(got)
        count -= len(got)
    return b"".join(chunks)


def timed(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        print(json.dumps(talk(sys.argv[1], int(sys.argv[2]))))
