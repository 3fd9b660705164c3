"""How this machine keeps time: the kernel's own estimate, chrony, PTP, and the clock source."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from collections.abc import Callable, Mapping

from assay.probe.command import run
from assay.probe.fact import Fact, known, missing
from assay.probe.files import Roots, Text, file_fact, number, short, text_fact, whole

#: Columns of `chronyc -c tracking`. Source: chrony 4 client.c, process_cmd_tracking.
_TRACKING = (
    "refid",
    "name",
    "stratum",
    "ref_time_s",
    "system_time_s",
    "last_offset_s",
    "rms_offset_s",
    "freq_ppm",
    "residual_freq_ppm",
    "skew_ppm",
    "root_delay_s",
    "root_dispersion_s",
    "update_interval_s",
    "leap",
)

_STA_UNSYNC = 0x0040


def read_clocks(node: str, roots: Roots, environ: Mapping[str, str]) -> tuple[Fact, ...]:
    """All that this machine tells of its clock; the programs are only run where they are installed."""
    source = roots.sys / "devices/system/clocksource/clocksource0/current_clocksource"
    return (
        file_fact(node, "clock.source", source),
        *kernel_clock_facts(node),
        *chrony_facts(node, _chronyc(roots, environ)),
        *ptp_facts(node, _pmc(roots, environ)),
    )


def chrony_facts(node: str, tracking: Text) -> tuple[Fact, ...]:
    """From the line that `chronyc -c tracking` prints.

    `clock.chrony_offset` is this clock minus true time, seconds: chrony prints the correction that is still
    due, so the sign is turned. `clock.chrony_error_bound` is |offset| + root dispersion + root delay / 2.
    """

    def column(name: str) -> Callable[[str], str]:
        return lambda text: _columns(text)[name]

    def seconds(name: str, factor: float = 1.0) -> Callable[[str], float]:
        return lambda text: number(_columns(text)[name]) * factor

    return (
        text_fact(node, "clock.chrony_leap", tracking, parse=column("leap")),
        text_fact(node, "clock.chrony_reference", tracking, parse=_reference),
        text_fact(
            node,
            "clock.chrony_stratum",
            tracking,
            unit="count",
            parse=lambda t: whole(_columns(t)["stratum"]),
        ),
        text_fact(node, "clock.chrony_offset", tracking, unit="s", parse=seconds("system_time_s", -1.0)),
        text_fact(node, "clock.chrony_rms_offset", tracking, unit="s", parse=seconds("rms_offset_s")),
        text_fact(node, "clock.chrony_frequency_error", tracking, unit="1", parse=seconds("freq_ppm", 1e-6)),
        text_fact(node, "clock.chrony_error_bound", tracking, unit="s", parse=_error_bound_s),
    )


def ptp_facts(node: str, answer: Text) -> tuple[Fact, ...]:
    """From what `pmc` prints for TIME_STATUS_NP and PORT_DATA_SET; offsets there are nanoseconds."""

    def field(name: str) -> Callable[[str], str]:
        return lambda text: _field(text, name)

    return (
        text_fact(node, "clock.ptp_port_state", answer, parse=field("portState")),
        text_fact(
            node, "clock.ptp_grandmaster_present", answer, parse=lambda t: _field(t, "gmPresent") == "true"
        ),
        text_fact(node, "clock.ptp_grandmaster", answer, parse=field("gmIdentity")),
        text_fact(
            node,
            "clock.ptp_offset",
            answer,
            unit="s",
            parse=lambda t: number(_field(t, "master_offset")) * 1e-9,
        ),
    )


def kernel_clock_facts(node: str) -> tuple[Fact, ...]:
    """Whether a daemon disciplines the kernel's clock, and the error that it admits (adjtimex, read only)."""
    source = "adjtimex"
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError):
        state = -1
    if state < 0:
        reason = f"adjtimex: {os.strerror(ctypes.get_errno())}"
        return (
            missing(node, "clock.kernel_synchronized", "text", reason, source),
            missing(node, "clock.kernel_max_error", "s", reason, source),
        )
    synchronized = not timex.status & _STA_UNSYNC
    return (
        known(node, "clock.kernel_synchronized", synchronized, "text", source),
        known(node, "clock.kernel_max_error", timex.maxerror * 1e-6, "s", source),
    )


class _Timex(ctypes.Structure):
    """struct timex of Linux; `modes` stays 0, which only reads. The tail leaves room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("tail", ctypes.c_long * 32),
    )


def _columns(tracking: str) -> dict[str, str]:
    words = tracking.splitlines()[-1].split(",")
    if len(words) != len(_TRACKING):
        raise ValueError(f"chronyc prints {len(words)} columns ({short(tracking)!r}), want {len(_TRACKING)}")
    return dict(zip(_TRACKING, words, strict=True))


def _reference(tracking: str) -> str:
    columns = _columns(tracking)
    return columns["name"] or columns["refid"]


def _error_bound_s(tracking: str) -> float:
    columns = _columns(tracking)
    offset, delay, dispersion = (
        number(columns[name]) for name in ("system_time_s", "root_delay_s", "root_dispersion_s")
    )
    return abs(offset) + dispersion + delay / 2


def _field(answer: str, name: str) -> str:
    match = re.search(rf"^\s*{name}\s+(\S+)", answer, re.MULTILINE)
    if match is None:
        raise ValueError(f"pmc prints no {name}")
    return match[1]


def _chronyc(roots: Roots, environ: Mapping[str, str]) -> Text:
    return _ask(["chronyc", "-n", "-c", "tracking"], roots, environ)


def _pmc(roots: Roots, environ: Mapping[str, str]) -> Text:
    """pmc waits in vain where no ptp4l listens, so the daemon's socket is looked for first."""
    for directory in ("run", "var/run"):
        socket = roots.top / directory / "ptp4l"
        if os.path.exists(socket):
            command = ["pmc", "-u", "-b", "0", "-s", str(socket), "GET TIME_STATUS_NP", "GET PORT_DATA_SET"]
            return _ask(command, roots, environ)
    path = roots.top / "run/ptp4l"
    return Text(path=path, text=None, reason=f"no {path} on this host: ptp4l does not run here")


def _ask(command: list[str], roots: Roots, environ: Mapping[str, str]) -> Text:
    """Run one of the clock programs, if it is there and the machine that it would ask is the one we read."""
    program = shutil.which(command[0], path=environ.get("PATH", "") + ":/usr/sbin:/usr/bin")
    if program is None or str(roots.top) != "/":
        reason = (
            f"no {command[0]} on this host" if program is None else f"{roots.top} is not this machine's root"
        )
        return Text(path=roots.top / "usr/bin" / command[0], text=None, reason=reason)
    return run([program, *command[1:]])
