"""Priors that replace built-in priors of the hyperparameters of a forecast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeskern.core.formatting import aligned, counted, number
from bayeskern.engine.prior import LogNormalPrior
from bayeskern.forecast.model.kernels import above
from bayeskern.kernels import Kernel


@dataclass(frozen=True, eq=False)
class Priors:
    """LogNormal priors of hyperparameters by name. Returned by `learn_priors`.

    The priors apply to standardised series. Times are in years, or in steps for numeric times.

    Attributes:
        values: Name of a hyperparameter -> location and scale of its logarithm; for a
            lengthscale of a trend, of the logarithm of what exceeds a step.
        step: Time from one value to the next. Priors for months do not apply to days.
        learned: Number of series that could be fitted and determine the priors.
        count: Number of series passed to `learn_priors`.
    """

    values: Mapping[str, tuple[float, float]]
    step: float
    learned: int = 0
    count: int = 0

    def require_step(self, step: float) -> None:
        """Raise ValueError for a series with another step."""
        if not same_steps(step, self.step):
            raise ValueError(
                f"these priors are for steps of {self.step:.3g}, but the series has steps of "
                f"{step:.3g} (years, or the unit of numeric times); learn priors from series with "
                "the step of this series."
            )

    def of_kernel(self, kernel: Kernel) -> Kernel:
        """The kernel with these priors for the hyperparameters that it has."""
        least = {
            name: prior.least
            for name, value in kernel.hyperparameters().items()
            if (prior := LogNormalPrior.of(value)) is not None
        }
        return kernel.at(
            {name: above(least[name], *v) for name, v in self.values.items() if name in least}
        )

    def __repr__(self) -> str:
        rows = [("hyperparameter", "median", "90 %")]
        for name, (location, scale) in self.values.items():
            low, median, high = np.exp(location + scale * np.array([-1.645, 0.0, 1.645]))
            rows.append((name, number(median), f"{number(low)} to {number(high)}"))
        head = f"priors learned from {self.learned} of {counted(self.count, 'series')}"
        return "\n".join([head, "", *aligned(rows)])


def same_steps(steps: float | np.ndarray, step: float) -> bool:
    """True if all steps are within 10 % of a step: a month has 28 to 31 days."""
    return bool(np.allclose(steps, step, rtol=0.1))
