"""A coin thrown twenty times: the simplest posterior with a closed form.

heads ~ Binomial(throws, p), p ~ Beta(a, b), so p | heads ~ Beta(a + heads, b + throws - heads).
Gelman et al. (2013), Bayesian Data Analysis, section 2.4.
"""

import numpy as np

import bayeskern as bk

HEADS, TAILS = 14, 6


def data():
    """The arguments of the model: 1 for each head, 0 for each tail."""
    return (np.repeat([1, 0], [HEADS, TAILS]),)


# As if two heads and two tails had been seen before.
model = bk.BetaBernoulli(a=2.0, b=2.0)


def problem():
    """To predict: ten more throws."""
    return bk.Problem(model, data(), predict=(10,))
