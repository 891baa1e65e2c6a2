"""Kernels in words: "repeats every 1 year, its shape changing over about 60 years".

A kernel here has one value of every hyperparameter for each draw, along a first axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import jax
import numpy as np

from bayeskern.core.formatting import number, three_digits
from bayeskern.kernels import base
from bayeskern.kernels.families import coregion, dot_product, periodic, stationary, trend

# Units of time in years, the longest first.
YEARS = {"year": 1.0, "month": 1.0 / 12.0, "day": 1.0 / 365.25, "hour": 1.0 / 8766.0}
# A spread below this share of the value is not worth an interval.
NEGLIGIBLE = 0.01


@dataclass(frozen=True)
class InputAxis:
    """The inputs of a kernel.

    unit: what they are measured in: "years", "steps", or "" if unknown. extent: how far the data
    reach along each column. names: of the columns.
    """

    unit: str
    extent: tuple[float, ...]
    names: tuple[str, ...] = ()

    def name(self, i: int) -> str:
        return self.names[i] if i < len(self.names) else f"column {i}"

    def span(self, values) -> str:
        """A length along the axis: its median, and its 90 % interval where that is wide."""
        values = np.asarray(values, float)
        if values.ndim > 2:
            return "a metric of its own"
        if values.ndim == 2:
            texts = [f"{self._length(v)} in {self.name(i)}" for i, v in enumerate(values.T)]
            return ", ".join(texts[:6]) + (", ..." if len(texts) > 6 else "")
        return self._length(values)

    def _length(self, values) -> str:
        median, low, high = np.quantile(values, (0.5, 0.05, 0.95))
        size, unit = self._unit(median)
        text = number(median / size)
        if high - low > NEGLIGIBLE * median:
            text += f" ({number(low / size)} to {number(high / size)})"
        plural = "s" if unit in YEARS and text != "1" else ""
        return f"{text} {unit}{plural}".rstrip()

    def _unit(self, length: float) -> tuple[float, str]:
        """The unit to measure a length in: its size along the axis, and its name."""
        if self.unit != "years":
            return 1.0, self.unit
        shortest = min(YEARS.values())
        return next(
            (size, unit)
            for unit, size in YEARS.items()
            if length >= 0.999 * size or size == shortest
        )

    def beyond(self, values, wave: bool = False) -> str:
        """A remark where a lengthscale, or the period of a wave, is longer than the data."""
        values = np.asarray(values, float)
        if len(self.extent) != 1 or values.ndim != 1 or np.median(values) < self.extent[0]:
            return ""
        if wave:
            return ", longer than the data, so they do not show one whole turn of it"
        return ", longer than the data, so nearly a straight line or a parabola there"


@singledispatch
def describe(kernel, axis: InputAxis) -> str:
    """What a function under this kernel does, as the end of a sentence on it."""
    return f"follows the kernel {type(kernel).__name__}"


def _varies(manner: str):
    def describe_stationary(kernel, axis: InputAxis) -> str:
        lengthscale = kernel.lengthscale
        return f"{manner} over about {axis.span(lengthscale)}{axis.beyond(lengthscale)}"

    return describe_stationary


for kernel_class, manner in {
    stationary.RBF: "varies very smoothly",
    stationary.Matern52: "varies smoothly",
    stationary.Matern32: "varies with some roughness",
    stationary.Matern12: "varies roughly, like a random walk pulled back to its mean,",
    stationary.RationalQuadratic: "varies smoothly, on short and long scales at once,",
    stationary.InverseMultiquadric: "varies smoothly, with a long memory,",
}.items():
    describe.register(kernel_class)(_varies(manner))


@describe.register
def _(kernel: stationary.White, axis: InputAxis) -> str:
    return "is noise without memory"


@describe.register
def _(kernel: periodic.Periodic, axis: InputAxis) -> str:
    lengthscale = float(np.median(kernel.lengthscale))
    shape = "close to a sine wave" if lengthscale > 1.5 else "with a shape of its own"
    shape = "with a detailed shape" if lengthscale < 0.4 else shape
    period = axis.span(kernel.period)
    return f"repeats every {period}, {shape}{axis.beyond(kernel.period, wave=True)}"


@describe.register
def _(kernel: periodic.Cosine, axis: InputAxis) -> str:
    period = f"{axis.span(kernel.period)}{axis.beyond(kernel.period, wave=True)}"
    return f"swings as a pure wave with a period of {period}"


@describe.register
def _(kernel: dot_product.Linear, axis: InputAxis) -> str:
    return "follows a straight line"


@describe.register
def _(kernel: base.Constant, axis: InputAxis) -> str:
    return "sets the level"


@describe.register
def _(kernel: trend.Brownian, axis: InputAxis) -> str:
    return "wanders like a random walk"


@describe.register
def _(kernel: trend.IntegratedBrownian, axis: InputAxis) -> str:
    return "has a slope that wanders like a random walk"


@describe.register
def _(kernel: trend.IntegratedOrnsteinUhlenbeck, axis: InputAxis) -> str:
    return f"has a slope that it forgets over about {axis.span(kernel.lengthscale)}"


@describe.register
def _(kernel: trend.ChangePoint, axis: InputAxis) -> str:
    sides = describe(kernel.before, axis), describe(kernel.after, axis)
    return f"{sides[0]} until about {axis.span(kernel.location)}, and {sides[1]} from then on"


@describe.register
def _(kernel: coregion.Coregion, axis: InputAxis) -> str:
    return f"ties {kernel.outputs} outputs together"


@describe.register
def _(kernel: dot_product.Polynomial, axis: InputAxis) -> str:
    return f"follows a polynomial of degree {kernel.degree}"


@describe.register
def _(kernel: base.Sum, axis: InputAxis) -> str:
    return ", and ".join(dict.fromkeys(describe(k, axis) for k in kernel.terms))


@describe.register
def _(kernel: base.Product, axis: InputAxis) -> str:
    terms = [_bare(k) for k in kernel.terms]
    waves = [k for k in terms if isinstance(k, periodic.Periodic | periodic.Cosine)]
    decays = [k for k in terms if isinstance(k, stationary.Stationary)]
    if waves and len(waves) + len(decays) == len(terms) and decays:
        # What multiplies a wave says how long it stays the same.
        memory = axis.span(decays[0].lengthscale)
        if _forgets(decays[0].lengthscale, waves):
            return f"wanders, with a memory of about {memory}"
        shapes = " and ".join(describe(k, axis) for k in waves)
        return f"{shapes}; it changes over about {memory}"
    return ", times one that ".join(describe(k, axis) for k in kernel.terms)


def _forgets(lengthscale, waves) -> bool:
    """Whether the memory is shorter than half a period: then nothing is there to come back."""
    lengthscale = np.asarray(lengthscale, float)
    shortest = min(float(np.median(k.period)) for k in waves)
    return lengthscale.ndim == 1 and float(np.median(lengthscale)) < 0.5 * shortest


@describe.register
def _(kernel: base.Select, axis: InputAxis) -> str:
    return f"{describe(kernel.inner, axis)} (in {', '.join(map(axis.name, kernel.columns))})"


@describe.register(base.Named)
@describe.register(base.Scaled)
def _(kernel, axis: InputAxis) -> str:
    return describe(kernel.inner, axis)


@describe.register(base.Power)
@describe.register(base.Exp)
@describe.register(base.Warped)
def _(kernel, axis: InputAxis) -> str:
    return f"{describe(kernel.inner, axis)}, transformed"


@describe.register
def _(kernel: base.Modulated, axis: InputAxis) -> str:
    return f"{describe(kernel.inner, axis)}, times a given function"


def _bare(kernel):
    """The kernel without its name and scale."""
    while isinstance(kernel, base.Named | base.Scaled):
        kernel = kernel.inner
    return kernel


def rounded(kernel):
    """The kernel at the median of its draws, with three digits, to be read as one typed it."""
    return jax.tree.map(lambda leaf: three_digits(np.median(leaf, axis=0)), kernel)


def direction(changes, unit: str = "", factor: bool = False) -> str:
    """Whether a component rose or fell over the data, by how much, and with what probability.

    changes: draws of its change, or of the factor by which it changed.
    """
    none = 1.0 if factor else 0.0
    median, low, high = np.quantile(changes, (0.5, 0.05, 0.95))
    chance_of_rise = float(np.mean(changes > none))
    if low <= none <= high:
        chance = _chance(chance_of_rise)
        return f"whether it rises or falls over the data is open (chance of a rise {chance})"
    rises = median > none
    chance = _chance(chance_of_rise if rises else 1.0 - chance_of_rise)
    amounts = [number(abs(v)) for v in (median, *sorted((low, high), key=abs))]
    by = "by a factor of" if factor else "by"
    of_unit = f" {unit}" if unit else ""
    return (
        f"over the data it {'rises' if rises else 'falls'} {by} {amounts[0]}{of_unit} "
        f"({amounts[1]} to {amounts[2]}; chance of a {'rise' if rises else 'fall'} {chance})"
    )


def _chance(p: float) -> str:
    if p > 0.99:
        return "above 99 %"
    return "below 1 %" if p < 0.01 else f"{100 * p:.0f} %"
