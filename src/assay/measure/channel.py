"""Messages between the lead of a run and its agents: JSON objects, one a line, over a socket or two pipes."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

Message = dict[str, Any]
#: How often each side says that it is there, and after which silence it is taken for stopped.
BEAT_S = 1.0
SILENCE_S = 15.0
#: The same while the lead judges and draws the report, which may leave its other threads no time.
JUDGING_S = 300.0


class Channel:
    """One end. What arrives goes into `inbox` as (channel, message); None says that the other end is gone."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes], close: Callable[[], None]) -> None:
        self._reader, self._writer, self._close = reader, writer, close
        self._lock = threading.Lock()
        self.heard_at = time.monotonic()

    @classmethod
    def over(cls, connection: socket.socket) -> Channel:
        """A channel over a connected socket."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def close() -> None:
            with contextlib.suppress(OSError):  # the other end may have been faster
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

        return cls(connection.makefile("rb"), connection.makefile("wb"), close)

    def send(self, message: Mapping[str, Any]) -> bool:
        """Send one message; false when the other end is gone."""
        line = json.dumps(message).encode() + b"\n"
        try:
            with self._lock:
                self._writer.write(line)
                self._writer.flush()
        except (OSError, ValueError):
            return False
        return True

    def receive(self) -> Message | None:
        """The next message; None when the other end is gone or sends something else."""
        try:
            line = self._reader.readline()
            message = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            return None
        if not isinstance(message, dict):
            return None
        self.heard_at = time.monotonic()
        return message

    def listen(self, inbox: queue.SimpleQueue[tuple[Channel, Message | None]]) -> None:
        """Receive in a thread of its own."""
        threading.Thread(target=self._pump, args=(inbox,), daemon=True).start()

    def _pump(self, inbox: queue.SimpleQueue[tuple[Channel, Message | None]]) -> None:
        message: Message | None = {}
        while message is not None:
            message = self.receive()
            inbox.put((self, message))

    @property
    def silent_s(self) -> float:
        """Seconds since the last message arrived."""
        return time.monotonic() - self.heard_at

    def close(self) -> None:
        """Hang up."""
        self._close()


#: Where messages arrive. A signal handler may put into it, which `queue.Queue` does not allow.
Inbox = queue.SimpleQueue[tuple[Channel, Message | None]]
