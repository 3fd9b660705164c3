"""What stands before every line of a file: launchers, log collectors, quotes, indentation."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Forms of a prefix; one that (nearly) all lines have is taken off. Longer ones first.
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"\[\d+,\d+\]<std(?:out|err)>: ?",  # mpirun --tag-output
        r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?",  # kubectl, containerd
        r"\(\w+ pid=\d+(?:, ip=[\d.]+)?\) ?",  # ray
        r"\[[\w./-]+/\d+\]:? ?(?=\S)",  # torchrun --tee
        r"\[(?:rank ?|default)?\d+\]: ?",  # PyTorch, torchrun --tee
        r"\d+: (?!\S+: <|\S+\s+inet)",  # srun --label, but not `ip addr`
        r"<\d+>",  # dmesg -r
        r"(?:> ?)+",  # a quote in a mail or a thread
        r"[A-Za-z][\w.-]*:(?: |$)",  # pdsh
        r"(?: {2,}|\t)(?=.*\S)",  # an indented block
    )
)
#: This share of the lines must have the prefix, and at least so many.
_SHARE, _LEAST = 0.95, 4


def common_prefix(head: Sequence[str]) -> re.Pattern[str] | None:
    """The form of prefix that the first lines of a file have in common, or None.

    A name before a colon and indentation count only where it is the same on every line: they are also
    what ordinary output looks like.
    """
    lines = [line.rstrip("\r\n") for line in head if line.strip()]
    if len(lines) < _LEAST:
        return None
    for form in _FORMS:
        found = [match[0] for line in lines if (match := form.match(line))]
        if len(found) < _SHARE * len(lines):
            continue
        if form in _FORMS[-2:]:
            shortest = min(found, key=len)
            if not all(line.startswith(shortest) for line in lines):
                continue
            return (
                re.compile(re.escape(shortest.rstrip()) + " ?") if shortest.strip() else re.compile(shortest)
            )
        return form
    return None
