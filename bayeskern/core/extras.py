"""Optional packages, which the extras of the distribution install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed_for(feature: str, *, package: str, extra: str) -> Iterator[None]:
    """If an import in the block fails, raise an error that says what to install.

    Args:
        feature: Feature that needs the package, such as "A report".
        package: Name of the package.
        extra: Extra of bayeskern that installs the package.

    Raises:
        ImportError: If an import in the block fails.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{feature} needs the package {package}: pip install 'bayeskern[{extra}]'."
        ) from error
