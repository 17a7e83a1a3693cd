"""Optional libraries, loaded when first needed, with a helpful message if missing. Zone: PUBLIC."""

from __future__ import annotations

import importlib
from typing import Any

from privcube.errors import MissingExtraError


def load(module: str, *, extra: str, purpose: str) -> Any:
    """Import an optional library, or raise an error that says how to install it.

    >>> load("no_such_library", extra="linear", purpose="linear programs")
    Traceback (most recent call last):
    ...
    privcube.errors.MissingExtraError: linear programs: expected no_such_library to be installed: pip ...
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MissingExtraError(
            purpose, expected=f"{package} to be installed: pip install 'privcube[{extra}]'"
        ) from None
