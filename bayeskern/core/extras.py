"""Optional packages, which the extras of the distribution install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed_for(feature: str, *, package: str, extra: str) -> Iterator[None]:
    """Tell how to install an optional package where an import in the block fails.

    Args:
        feature: What needs the package, as the subject of the message.
        package: The package that is imported.
        extra: The extra of bayeskern that installs it.

    Raises:
        ImportError: If an import in the block fails.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{feature} needs the package {package}: pip install 'bayeskern[{extra}]'."
        ) from error
