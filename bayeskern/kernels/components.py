"""Additive components of a kernel: terms of a sum that share a name, and the rest."""

from __future__ import annotations

from bayeskern.core import validation
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.compound import Sum


def components(kernel: Kernel) -> dict[str, Kernel]:
    """Additive components of a kernel.

    Args:
        kernel: A kernel; `named` gives names to its terms.

    Returns:
        The components by their outermost name, in the order of the sum. The unnamed terms form the
        last component, "rest". The components add up to the kernel.

    Examples:
        >>> from bayeskern.kernels import RBF, Linear, components
        >>> kernel = Linear().named("trend") + RBF(lengthscale=2.0) + 0.1
        >>> list(components(kernel))
        ['trend', 'rest']
        >>> components(kernel)["rest"]
        RBF(lengthscale=2.0, variance=1.0) + Constant(variance=0.1)
    """
    return {name: component(kernel, name) for name in component_names(kernel)}


def component_names(kernel: Kernel) -> list[str]:
    """Names of the additive components, in the order of the sum, "rest" last."""
    names = dict.fromkeys(names[0] if names else "rest" for names, _ in kernel.terms_of_sum())
    return [n for n in names if n != "rest"] + ["rest"] * ("rest" in names)


def component(kernel: Kernel, name: str) -> Kernel:
    """One additive component of a kernel.

    Args:
        kernel: A kernel.
        name: Name of the component; a dotted path for a name inside a named sum; "rest" for the
            unnamed terms.

    Returns:
        The component, a kernel.

    Raises:
        ValueError: There is no component with this name.
    """
    return _sum_of(kernel, in_component(kernel, name))


def part_of(kernel: Kernel, name: str | None) -> Kernel:
    """Component of a kernel, or the kernel itself if the name is None."""
    return kernel if name is None else component(kernel, name)


def without(kernel: Kernel, name: str) -> Kernel | None:
    """The kernel without one component; None if nothing remains."""
    others = [not is_in for is_in in in_component(kernel, name)]
    return _sum_of(kernel, others) if any(others) else None


def _sum_of(kernel: Kernel, kept: list[bool]) -> Kernel:
    pairs = zip(kernel.terms_of_sum(), kept, strict=True)
    terms = [term for (_, term), is_in in pairs if is_in]
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def in_component(kernel: Kernel, name: str) -> list[bool]:
    """Mask of the additive terms in a component; raises ValueError if there are none."""
    path = () if name == "rest" else tuple(name.split("."))
    is_in = [
        names == () if name == "rest" else names[: len(path)] == path
        for names, _ in kernel.terms_of_sum()
    ]
    if not any(is_in):
        validation.one_of("component", name, component_names(kernel))
    return is_in
