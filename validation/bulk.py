"""A bulk transfer over TCP: `bulk.py serve PORT` prints the rate of `bulk.py HOST PORT SECONDS CONTROL`.

What arrives is counted, after a second in which the window opens.
"""

from __future__ import annotations

import socket
import sys
import time


def serve(port: int) -> None:
    """Take one connection and print the rate at which bytes arrive."""
    with socket.create_server(("", port)) as listener:
        print("ready", flush=True)
        sender, _ = listener.accept()
        seconds = float(sender.recv(16).decode().strip())
        buffer, total = bytearray(1 << 20), 0
        warm = time.monotonic() + 1.0
        while time.monotonic() < warm and sender.recv_into(buffer):
            pass
        began = time.monotonic()
        while time.monotonic() < began + seconds and (got := sender.recv_into(buffer)):
            total += got
        print(total / (time.monotonic() - began), flush=True)


def send(host: str, port: int, seconds: float, control: str) -> None:
    """Send until the receiver has enough."""
    with socket.create_connection((host, port), timeout=30) as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        sender.sendall(f"{seconds:16g}".encode())
        sender.settimeout(60)
        try:
            while True:
                sender.sendall(bytes(1 << 16))
        except OSError:
            return


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        send(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
