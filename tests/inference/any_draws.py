"""A method that returns standard normal draws, for tests of what follows a fit."""

import numpy as np

from bayeskern.inference import Method
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust


class AnyDraws(Method):
    """Standard normal draws in unconstrained space, without a look at the data."""

    name = "any draws"

    def __init__(self, draws):
        self.draws = draws

    def run(self, target, seed, progress):
        z = np.random.default_rng(seed).normal(size=(1, self.draws, target.size))
        return Fit(z=z, assess=lambda _: Trust("not assessable", "These are any draws."))
