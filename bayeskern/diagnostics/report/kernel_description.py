"""Kernels in words: "repeats every 1 year; it changes over about 60 years".

Every hyperparameter of the kernels here has a first axis over draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core.formatting import abbreviated, number, three_digits
from bayeskern.diagnostics.report.wording import percent
from bayeskern.kernels import Kernel, base
from bayeskern.kernels.families import (
    categorical,
    coregion,
    dot_product,
    matern,
    periodic,
    stationary,
    trend,
)


@dataclass(frozen=True)
class InputAxis:
    """The inputs of a kernel.

    Attributes:
        unit: "years", "steps", or "" if unknown.
        extent: Range of the data along each column.
        names: Names of the columns.
    """

    unit: str
    extent: tuple[float, ...]
    names: tuple[str, ...] = ()

    def name(self, i: int) -> str:
        """Name of a column."""
        return self.names[i] if i < len(self.names) else f"column {i}"

    def value(self, i: int, x: float) -> str:
        """Value of a column, or its level if the column is text."""
        levels = getattr(self.names[i], "levels", ()) if i < len(self.names) else ()
        return str(levels[int(x)]) if levels else number(x)

    def span(self, draws: ArrayLike) -> str:
        """A length along the axis: its median, and its 90 % interval if that is wide."""
        values = np.asarray(draws, float)
        if values.ndim > 2:
            # The lengthscale is a matrix.
            return "a length that depends on the direction"
        if values.ndim == 2:
            texts = [f"{self._in_units(v)} in {self.name(i)}" for i, v in enumerate(values.T)]
            return abbreviated(texts, 6)
        return self._in_units(values)

    def _in_units(self, values: np.ndarray) -> str:
        median, low, high = np.quantile(values, (0.5, 0.05, 0.95))
        size, unit = self._unit(median)
        text = number(median / size)
        # Intervals narrower than 1 % of the median are left out.
        if high - low > 0.01 * median:
            text += f" ({number(low / size)} to {number(high / size)})"
        plural = "s" if self.unit == "years" and text != "1" else ""
        return f"{text} {unit}{plural}".rstrip()

    def _unit(self, length: float) -> tuple[float, str]:
        """Unit of a length: its size along the axis, and its name."""
        if self.unit != "years":
            return 1.0, self.unit
        sizes = {"year": 1.0, "month": 1.0 / 12.0, "day": 1.0 / 365.25, "hour": 1.0 / 8766.0}
        units = (unit for unit, size in sizes.items() if length >= 0.999 * size)
        unit = next(units, "hour")
        return sizes[unit], unit

    def length(self, draws: ArrayLike) -> str:
        """A lengthscale or period in words, with a remark if it is longer than the data."""
        values = np.asarray(draws, float)
        is_single = len(self.extent) == 1 and values.ndim == 1
        is_longer = is_single and np.median(values) >= self.extent[0]
        return self.span(values) + (", longer than the data" if is_longer else "")


# Behaviour by kernel; `InputAxis.length` gives the texts of {lengthscale} and {period}.
SENTENCES = {
    stationary.RBF: "varies very smoothly over about {lengthscale}",
    matern.Matern52: "varies smoothly over about {lengthscale}",
    matern.Matern32: "varies with some roughness over about {lengthscale}",
    matern.Matern12: "varies roughly, like a random walk pulled back to its mean, over about "
    "{lengthscale}",
    matern.Matern: "varies with smoothness {kernel.nu:g} over about {lengthscale}",
    stationary.RationalQuadratic: "varies smoothly, on short and long scales at once, over about "
    "{lengthscale}",
    stationary.PowerExponential: "varies roughly over about {lengthscale}",
    stationary.InverseMultiquadric: "varies smoothly, with a long memory, over about {lengthscale}",
    stationary.White: "is noise without memory",
    periodic.Periodic: "repeats every {period}",
    periodic.Cosine: "swings as a pure wave with a period of {period}",
    dot_product.Linear: "follows a straight line",
    dot_product.Polynomial: "follows a polynomial of degree {kernel.degree}",
    base.Constant: "sets the level",
    trend.Brownian: "wanders like a random walk",
    trend.IntegratedBrownian: "has a slope that wanders like a random walk",
    trend.IntegratedOrnsteinUhlenbeck: "has a slope that it forgets over about {lengthscale}",
    categorical.Categorical: "differs from category to category",
    categorical.Precomputed: "follows a given covariance matrix",
    coregion.Coregion: "ties {kernel.outputs} outputs together",
}


WAVES = (periodic.Periodic, periodic.Cosine)


@singledispatch
def describe(kernel: Any, axis: InputAxis) -> str:
    """Behaviour of functions with a kernel, as a predicate: "repeats every 1 year".

    Args:
        kernel: A kernel whose hyperparameters have a first axis over draws.
        axis: The inputs of the kernel.
    """
    unknown = f"follows the kernel {type(kernel).__name__}"
    sentence = next((SENTENCES[c] for c in type(kernel).__mro__ if c in SENTENCES), unknown)
    names = [name for name in ("lengthscale", "period") if f"{{{name}}}" in sentence]
    words = {name: axis.length(getattr(kernel, name)) for name in names}
    return sentence.format(kernel=kernel, **words)


@describe.register
def _describe_change_point(kernel: trend.ChangePoint, axis: InputAxis) -> str:
    sides = describe(kernel.before, axis), describe(kernel.after, axis)
    return f"{sides[0]} until about {axis.span(kernel.location)}, and {sides[1]} from then on"


@describe.register
def _describe_sum(kernel: base.Sum, axis: InputAxis) -> str:
    # A constant beside other terms adds nothing to the shape of a function.
    shapes = [k for k in kernel.terms if not isinstance(_bare(k), base.Constant)] or kernel.terms
    return ", and ".join(dict.fromkeys(describe(k, axis) for k in shapes))


@describe.register
def _describe_product(kernel: base.Product, axis: InputAxis) -> str:
    terms = [_bare(k) for k in kernel.terms]
    waves = [k for k in terms if isinstance(k, WAVES)]
    decays = [k for k in terms if isinstance(k, stationary.Stationary)]
    if waves and len(waves) + len(decays) == len(terms) and decays:
        # The lengthscale of the other factor is the time over which the wave keeps its shape.
        lengthscale = np.asarray(decays[0].lengthscale, float)
        memory = axis.span(lengthscale)
        shortest = min(float(np.median(k.period)) for k in waves)
        # With a memory below half a period, nothing repeats.
        if lengthscale.ndim == 1 and float(np.median(lengthscale)) < 0.5 * shortest:
            return f"wanders, with a memory of about {memory}"
        shapes = " and ".join(describe(k, axis) for k in waves)
        return f"{shapes}; it changes over about {memory}"
    shapes = " and ".join(describe(k, axis) for k in waves)
    others = ", times one that ".join(describe(k, axis) for k in terms if not isinstance(k, WAVES))
    return f"{shapes}; its size {others}" if waves and others else shapes or others


@describe.register
def _describe_select(kernel: base.Select, axis: InputAxis) -> str:
    names = [axis.name(column) for column in kernel.columns if isinstance(column, int)]
    return f"{describe(kernel.inner, axis)} (in {', '.join(names)})"


@describe.register(base.Named)
@describe.register(base.Scaled)
def _describe_inner(kernel: Any, axis: InputAxis) -> str:
    return describe(kernel.inner, axis)


@describe.register(base.Power)
@describe.register(base.Exp)
@describe.register(base.Warped)
def _describe_transformed(kernel: Any, axis: InputAxis) -> str:
    return f"{describe(kernel.inner, axis)}, transformed"


@describe.register
def _describe_modulated(kernel: base.Modulated, axis: InputAxis) -> str:
    return f"{describe(kernel.inner, axis)}, times a given function"


def _bare(kernel: Any) -> Any:
    """The kernel without its name and scale."""
    while isinstance(kernel, base.Named | base.Scaled):
        kernel = kernel.inner
    return kernel


def rounded(kernel: Kernel) -> Kernel:
    """The kernel at the median of its draws, rounded to three digits."""
    return jax.tree.map(lambda leaf: three_digits(np.median(leaf, axis=0)), kernel)


def direction(changes: np.ndarray, factor: bool = False) -> str:
    """Direction, size and probability of the change of a component over the data.

    Args:
        changes: Draws of the change.
        factor: True if the change is a factor.
    """
    no_change = 1.0 if factor else 0.0
    median, low, high = np.quantile(changes, (0.5, 0.05, 0.95))
    # Draws cannot show that a probability is 0 or 1.
    chance_of_rise = float(np.clip(np.mean(changes > no_change), 1e-6, 1.0 - 1e-6))
    if low <= no_change <= high:
        chance = percent(chance_of_rise)
        return f"its direction over the data is uncertain (chance of a rise {chance})"
    verb, noun, chance = ("rises", "rise", chance_of_rise)
    if median < no_change:
        verb, noun, chance = ("falls", "fall", 1.0 - chance_of_rise)
    amount, *ends = [number(abs(v)) for v in (median, *sorted((low, high), key=abs))]
    by = "by a factor of" if factor else "by"
    return (
        f"over the data it {verb} {by} {amount} ({ends[0]} to {ends[1]}; chance of a {noun} "
        f"{percent(chance)})"
    )
