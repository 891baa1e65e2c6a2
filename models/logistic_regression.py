"""Damage to the rings of the space shuttle, by temperature, before Challenger.

Dalal, Fowlkes and Hoadley (1989), "Risk analysis of the space shuttle: pre-Challenger prediction of
failure", Journal of the American Statistical Association 84, 945-957. Rings were damaged in 7 of 23
flights, more often the colder it was (degrees Fahrenheit). By maximum likelihood the log odds are
15.043 - 0.232 t (statsmodels finds the same), which gives a probability of 0.9996 at the 31 degrees
of the last launch. Averaged over the posterior it is lower, and still very high.
"""

import numpy as np

import bayeskern as bk

# fmt: off
TEMPERATURE = np.array([
    66.0, 70.0, 69.0, 68.0, 67.0, 72.0, 73.0, 70.0, 57.0, 63.0, 70.0, 78.0, 67.0, 53.0, 67.0, 75.0,
    70.0, 81.0, 76.0, 79.0, 75.0, 58.0, 76.0,
])
DAMAGED = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0])
# fmt: on


def data():
    """The temperature at each flight, and whether rings were damaged (23,)."""
    return TEMPERATURE, DAMAGED


model = bk.BayesianGLM(bk.likelihoods.Bernoulli())


def problem():
    """To predict: the last launch of Challenger, at 31 degrees."""
    return bk.Problem(model, data(), {"feature": ["temperature"]}, predict=(np.array([31.0]),))
