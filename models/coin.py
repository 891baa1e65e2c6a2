"""A coin thrown twenty times: the simplest posterior with a closed form.

heads ~ Binomial(throws, p), p ~ Beta(a, b), so p | heads ~ Beta(a + heads, b + throws - heads).
Gelman et al. (2013), Bayesian Data Analysis, section 2.4. The model is a small callable class, so
that it can offer more than its density.
"""

import equinox as eqx
import numpy as np
import numpyro
import numpyro.distributions as dist
from scipy.special import betaln

import bayeskern as bk
from bayeskern.protocols import ClosedForm

HEADS, THROWS = 14, 20


def data():
    """The arguments of the model."""
    return THROWS, HEADS


class Coin(eqx.Module):
    """The chance of heads p, with a Beta(a, b) prior."""

    a: float = 2.0
    b: float = 2.0

    def __call__(self, throws, heads=None):
        p = numpyro.sample("p", dist.Beta(self.a, self.b))
        numpyro.sample("heads", dist.Binomial(throws, p), obs=heads)

    def exact(self, throws, heads) -> ClosedForm:
        """p ~ Beta(a + heads, b + throws - heads)."""
        a, b = self.a + heads, self.b + throws - heads
        ways = -betaln(heads + 1, throws - heads + 1) - np.log(throws + 1)
        return ClosedForm(
            draw=lambda key, n: {"p": dist.Beta(a, b).sample(key, (n,))},
            log_evidence=ways + betaln(a, b) - betaln(self.a, self.b),
        )


model = Coin()


def problem():
    """To predict: the heads of ten more throws."""
    return bk.Problem(model, data(), predict=(10,))
