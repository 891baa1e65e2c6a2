"""Likelihoods of counts: Poisson, negative binomial, binomial."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpyro.distributions as dist

from bayeskern.likelihoods.base import Likelihood


class Poisson(Likelihood):
    """y ~ Poisson(exposure exp(eta)): counts; exposure is the time, area or population at risk."""

    links: ClassVar = ("log", "identity", "softplus")
    needs: ClassVar = {"exposure": 1.0}
    wanted: ClassVar = "a whole number of at least 0"

    def distribution(self, eta, exposure):
        return dist.Poisson(exposure * self.inverse_link(eta))

    def _fits(self, y, **extra):
        return (y >= 0) & (y == np.round(y))
