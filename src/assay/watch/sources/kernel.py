"""The kernel's messages as they come, from /dev/kmsg; none where it may not be read."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

#: One read gives one message, of at most this size.
_MESSAGE_BYTES = 8192


class KernelMessages:
    """Messages from now on. Not being allowed to read them is told once, by `obstacle`."""

    def __init__(self, path: str = "/dev/kmsg") -> None:
        self.path, self.obstacle = path, ""
        self._fd: int | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            # Where it is no device that can be wound on, as in tests, all of it is read.
            with contextlib.suppress(OSError):
                os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as fault:
            self.obstacle = f"cannot read {path}: {fault.strerror}"

    def lines(self) -> Iterator[tuple[int, str]]:
        """(sequence number, text) of each message since the last call."""
        while self._fd is not None:
            try:
                message = os.read(self._fd, _MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue  # EPIPE: messages were overwritten before they were read; the next read goes on
            if not message:
                return
            head, _, text = message.decode("utf-8", "replace").partition(";")
            fields = head.split(",")
            number = int(fields[1]) if len(fields) > 1 and fields[1].isdigit() else 0
            yield number, text.partition("\n")[0]

    def close(self) -> None:
        """Let go of the device."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
