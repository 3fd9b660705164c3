"""The optional packages that pictures and the page need, imported when one is made."""

from __future__ import annotations

import importlib
from types import ModuleType

from assay.errors import EnvironmentLackError

_PACKAGE = {"altair": "altair", "vl_convert": "vl-convert-python", "jinja2": "jinja2"}


def load(module: str) -> ModuleType:
    """An optional module; `EnvironmentLackError` with the install command where it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError as fault:
        raise EnvironmentLackError(
            f"the HTML report needs {_PACKAGE[module]}, which cannot be imported: {fault}",
            fix="pip install 'assay[report]'",
        ) from fault
