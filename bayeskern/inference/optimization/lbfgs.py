"""Minimise from several starts by SciPy's L-BFGS-B: only value and gradient are compiled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from bayeskern.inference.optimization.objective import compiled

# How many differences of gradients the curvature is known by.
MEMORY = 20
# The most evaluations of a line search: some are lost where the objective is infinite.
LINE_SEARCH = 40
# Values closer than this, relative to them, differ by rounding.
ROUNDING = 1e-10


def minimise(
    objective: Callable,
    starts,
    steps: int,
    tolerance: float,
    report: Callable = lambda n, value: None,
):
    """Minimise `objective` (a pytree that is called with z) from each of the starts (k, d).

    Returns the best z seen, its value and its gradient, batched over the starts; the value is
    infinite where none was finite. report(steps done, value): of all starts, n out of `steps`.
    """
    evaluate, ends, count = compiled(objective), [], len(starts)
    for i, start in enumerate(starts):
        search = _Search(evaluate, np.asarray(start, float))
        search.run(steps, tolerance, lambda n, value, i=i: report((i * steps + n) // count, value))
        ends.append((search.z, search.value, search.gradient))
        report((i + 1) * steps // count, min(value for _, value, _ in ends))
    return tuple(np.array(part) for part in zip(*ends, strict=True))


class _Search:
    """The search from one start, and the best that it has seen.

    Of values that differ by rounding only, the one with the smaller gradient is the better.
    """

    def __init__(self, evaluate, start):
        self.evaluate, self.z, self.taken = evaluate, start, 0
        self.value, self.gradient = evaluate(start)
        self.highest = self.value

    def run(self, steps: int, tolerance: float, report: Callable) -> None:
        """Go on for so many steps at most, or until the gradient is within the tolerance."""

        def step(_):
            self.taken += 1
            report(self.taken, self.value)

        last = np.inf
        # Where the line search finds nothing lower, next to where the objective is infinite, the
        # curvature is forgotten and the search goes on, as long as that helps.
        while self.taken < steps and self.value < last - ROUNDING * (1.0 + abs(self.value)):
            last = self.value
            options = {
                "maxiter": steps - self.taken,
                "maxfun": LINE_SEARCH * steps,
                "maxcor": MEMORY,
                "maxls": LINE_SEARCH,
                # It ends where a step changes nothing, or by the gradient.
                "ftol": 0.0,
                "gtol": tolerance,
            }
            minimize(self, self.z, jac=True, method="L-BFGS-B", options=options, callback=step)

    def __call__(self, z):
        value, gradient = self.evaluate(z)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            # A line search steps back from a high value, but is lost at an infinite one.
            return self.highest + abs(self.highest) + 1e3, np.zeros(len(z))
        self.highest = max(self.highest, value)
        slack = ROUNDING * (1.0 + abs(self.value))
        flatter = np.abs(gradient).max() < np.abs(self.gradient).max()
        if value < self.value - slack or (value < self.value + slack and flatter):
            self.z, self.value, self.gradient = z.copy(), value, gradient
        return value, gradient
