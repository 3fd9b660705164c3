"""`python -m assay.api.host_agent ADDRESS RANKS`: the agent that ssh starts; RANKS 0 is one per GPU.

It talks to the lead over its standard input and output, and keeps a copy of the run on its own disk.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
import tempfile
from pathlib import Path

from assay import __version__
from assay.api.gathering import run_folder
from assay.api.machine import this_machine
from assay.errors import AssayError, InputError
from assay.measure.attend import attend, hello_of
from assay.measure.channel import Channel, Message


def main(words: list[str]) -> int:
    """Serve until the lead hangs up or says that the run is over."""
    # What anything else prints must not get into the channel.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        address, ranks = _ip(words[0]), int(words[1]) or None
        machine = dataclasses.replace(this_machine(ranks), address=address)
        channel = Channel(sys.stdin.buffer, out, out.close)
        hello = hello_of([], machine, version=__version__, token="")
        channel.send({**hello, "count": machine.ranks})
        attended = attend(channel, machine=machine, folder_for=_folder)
    except AssayError as error:
        print(f"assay: {error}", file=sys.stderr)  # noqa: T201 - a program of its own
        return error.exit_code
    return 0 if attended.refused is None else 2


def _folder(welcome: Message) -> Path:
    """Where the lead writes, if that is seen or can be made here; else among temporary files."""
    wished = Path(welcome["folder"])
    try:
        return run_folder(welcome, wished)
    except AssayError:
        return run_folder(welcome, Path(tempfile.gettempdir()) / "assay" / welcome["run"])


def _ip(name: str) -> str:
    try:
        return socket.gethostbyname(name)
    except OSError as fault:
        raise InputError(
            f"{socket.gethostname()} cannot find the address of {name!r}: {fault.strerror}",
            fix="write it into the hosts file as the second word: name address",
        ) from None


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # A thread may still wait at the standard input; the interpreter's end would wait for it in turn.
    os._exit(code)
