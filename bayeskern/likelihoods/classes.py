"""Likelihoods of classes: Bernoulli, categorical, ordered."""

from __future__ import annotations

from typing import ClassVar

import numpyro.distributions as dist

from bayeskern.likelihoods.base import Likelihood


class Bernoulli(Likelihood):
    """y ~ Bernoulli(g^-1(eta)): one of two classes."""

    links: ClassVar = ("logit", "probit", "cloglog")
    classifies: ClassVar = True
    wanted: ClassVar = "0 or 1"

    def distribution(self, eta):
        if self.link in (None, "logit"):
            return dist.BernoulliLogits(eta)
        return dist.BernoulliProbs(self.inverse_link(eta))

    def _fits(self, y, **extra):
        return (y == 0) | (y == 1)
