"""One rank of a ring over TCP: `ring_wait.py RANK PORT STEPS RUNS HOST…` prints when runs began and ended.

In each step a rank sends 64 bytes to the next and waits for those of the one before. Before every run a
token goes round with the time at which all begin. Times are of the machine's monotonic clock, one line a run.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

#: From the first token to the common start: longer than two rounds on the slowest wire.
LEAD_S = 0.12


def main(rank: int, port: int, steps: int, runs: int, hosts: list[str]) -> None:
    """Join the ring, run, print."""
    with socket.create_server(("", port)) as listener:
        print("ready", flush=True)
        sys.stdin.readline()
        onward = socket.create_connection((hosts[(rank + 1) % len(hosts)], port), timeout=30)
        before, _ = listener.accept()
    before.settimeout(60)
    for end in (onward, before):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    message = bytes(64)

    def receive(size: int = 64) -> bytes:
        got = b""
        while len(got) < size:
            more = before.recv(size - len(got))
            if not more:
                raise ConnectionError("the rank before has gone")
            got += more
        return got

    for _ in range(runs):
        # Once round to know that all are here, once to say when to begin.
        start_s = time.monotonic() + LEAD_S
        for _ in range(2):
            if rank == 0:
                onward.sendall(struct.pack("d", start_s))
                receive(8)
            else:
                (start_s,) = struct.unpack("d", receive(8))
                onward.sendall(struct.pack("d", start_s))
        time.sleep(max(0.0, start_s - time.monotonic()))
        began = time.monotonic()
        for _ in range(steps):
            onward.sendall(message)
            receive()
        print(f"{began:.9f} {time.monotonic():.9f}", flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:5]), sys.argv[5:])
