"""The tree of errors that people see, and the exit codes of every command.

An `AssayError` says what is wrong, where, and how to fix it; the command line prints it without a
traceback. Anything else that reaches the top is a bug of ours and ends with `EXIT_BUG`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_OK = 0
EXIT_NO = 1
EXIT_USAGE = 2
EXIT_UNDECIDED = 3
EXIT_BUG = 70
#: Ctrl-C or SIGTERM; the reader of a pipe went away. 128 and the signal's number, as shells have it.
EXIT_STOPPED = 130
EXIT_CUT_OFF = 141


class AssayError(Exception):
    """A fault in what the user gave us: `what`, `where` (file:line), and the `fix`."""

    exit_code = EXIT_USAGE

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n  fix: {self.fix}" if self.fix else head


class InputError(AssayError):
    """A file, flag or value that cannot be understood."""


class UnitError(InputError):
    """A quantity whose unit is missing, unknown or ambiguous."""


class UnknownNameError(InputError):
    """An id that no catalogue, registry or file knows."""


class RecipeMismatchError(AssayError):
    """Two values that were made by different recipes and so must not be compared."""


class RunError(AssayError):
    """A run folder that is incomplete, cut off, or belongs to something else."""


class EnvironmentLackError(AssayError):
    """A program, package or permission that this machine lacks."""


class MeasurementError(AssayError):
    """A benchmark that could not do, or could not prove that it did, its work."""


def did_you_mean(name: str, known: Iterable[str], *, most: int = 3) -> str:
    """A clause that names the closest known spellings, or lists a few when none is close."""
    names = sorted(set(known))
    folded = {known_name.lower(): known_name for known_name in names}
    close = [folded[c] for c in difflib.get_close_matches(name.lower(), folded, n=most, cutoff=0.6)]
    if close:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    shown = ", ".join(names[:12])
    return f"known: {shown}{', …' if len(names) > 12 else ''}" if names else "none is known"


def unknown_name(kind: str, name: str, known: Iterable[str], *, where: str | None = None) -> UnknownNameError:
    """The error for an id that is not among `known`, with a suggestion."""
    return UnknownNameError(f"unknown {kind} {name!r}", where=where, fix=did_you_mean(name, known))
