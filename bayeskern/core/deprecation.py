"""Warnings about arguments that have a new name."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

import equinox as eqx

# Files between the user's line and the warning; "<string>" has the constructors of dataclasses,
# which `skip_file_prefixes` of `warnings.warn` does not skip.
_INSIDE = (str(Path(__file__).parents[1]), str(Path(eqx.__file__).parent), "<string>")


def warn_deprecated(old: str, new: str, gone_in: str) -> None:
    """Warn, at the user's line, that an argument has a new name.

    It is a FutureWarning because Python hides a DeprecationWarning from most users.

    Args:
        old: The argument in the old way, such as "a standard deviation as prior=".
        new: Its new name, such as "prior_sd=".
        gone_in: The version in which the old way becomes an error.
    """
    frame, level = inspect.currentframe(), 1
    while frame and frame.f_back and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f"{old} is deprecated, and an error from bayeskern {gone_in} on: write {new}",
        FutureWarning,
        stacklevel=level,
    )
