"""Python functions as parts of pytrees."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx


class StaticFunction(eqx.Module):
    """A Python function as a static part of a pytree, whose leaves then stay arrays."""

    f: Callable = eqx.field(static=True)

    def __call__(self, x):
        return self.f(x)

    def __repr__(self):
        return getattr(self.f, "__qualname__", repr(self.f))
