"""Keeping secrets out of reports: settings are shown, credentials among them are not."""

from __future__ import annotations

import re

MASK = "(masked)"

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|AUTH(?!OR)", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"\b(?:sk-|hf_|gh[opsu]_|github_pat_|glpat-|xox[abp]-|AKIA|eyJ)[\w-]{8,}"  # keys with a known prefix
    r"|://[^/\s:@]+:[^/\s@]+@"  # a password inside a URL
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?=\w*\d)(?=\w*[A-Za-z])\w{32,}\b"  # a long run of letters and digits
)


def masked(name: str, value: str) -> str:
    """`value`, or `MASK` where its name or its look says that it is a secret."""
    return MASK if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value) else value
