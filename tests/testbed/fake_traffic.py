"""What a fabricated machine has sent, as the kernel counts it: RDMA ports and network devices."""

from __future__ import annotations

from pathlib import Path

from fake_sysfs import write

NET_DEV = """\
Inter-|   Receive                            |  Transmit
 face |bytes packets errs and five more        |bytes packets errs and five more
"""


def net_dev(top: Path, **sent: int) -> None:
    """`/proc/self/net/dev` with the bytes that each device has sent."""
    rows = "".join(f"{name:>6}: 5 1 0 0 0 0 0 0 {count} 1 0 0 0 0 0 0\n" for name, count in sent.items())
    write(top / "proc/self/net/dev", NET_DEV + rows)


def port(top: Path, device: str, *, state: str = "4: ACTIVE", **files: int | str) -> None:
    """Port 1 of an RDMA device; `counters__port_xmit_data=1` writes that file below it."""
    folder = top / "sys/class/infiniband" / device / "ports/1"
    write(folder / "state", state)
    for name, value in files.items():
        write(folder / name.replace("__", "/"), str(value))
