"""What makes NCCL write down how it was set up, into a file per rank that the rank reads when it has done.

Nothing here changes what NCCL does: the subsystems that are logged speak while communicators are made. The
choice per call, and the registration of a call's buffers, are logged only in the one benchmark that times
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LOG_FILE = "NCCL_DEBUG_FILE"
#: The benchmark that reads what NCCL chooses for each call.
CHOICES = "choices"


def log_environment(env: Mapping[str, str], file: Path, *, every_call: bool) -> dict[str, str]:
    """What to add to a worker's environment; what the user has set in `env` stays."""
    subsystems = "INIT,NET,ENV,TUNING,REG,NVLS" if every_call else "INIT,NET,ENV"
    wanted = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": subsystems, LOG_FILE: str(file)}
    return {name: value for name, value in wanted.items() if name not in env}


def logs_registration(env: Mapping[str, str]) -> bool:
    """Whether the log tells of registered buffers: the subsystem REG does."""
    told = env.get("NCCL_DEBUG_SUBSYS", "").upper().split(",")
    return bool({"REG", "ALL"} & set(told)) and env.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE")


def nccl_log(env: Mapping[str, str]) -> list[str] | None:
    """The lines that NCCL has logged in this process; None where it has no file that can be read."""
    try:
        return Path(env[LOG_FILE]).read_text(encoding="utf-8", errors="replace").splitlines()
    except (KeyError, OSError):
        return None
