"""Satisfaction of tenants with their housing: three ordered answers.

Madsen (1976), "Statistical analysis of multiple contingency tables", Scandinavian Journal of
Statistics 3, 97-106; Venables and Ripley (2002), Modern Applied Statistics with S, section 7.3:
1,681 tenants in Copenhagen said whether their satisfaction was low, medium or high. The model is
cumulative logit regression (proportional odds). By maximum likelihood much influence on the
management multiplies the odds of a better answer by 3.6 (exp 1.289), and a terraced house instead
of a tower block by 0.34 (exp -1.091).
"""

import itertools

import numpy as np

import bayeskern as bk

ANSWERS = ("low", "medium", "high")
CONTACT = ("low", "high")
HOUSES = ("tower", "apartment", "atrium", "terrace")
INFLUENCE = ("low", "medium", "high")
# Tenants by contact with other tenants and type of house (rows), then influence, then answer.
# fmt: off
TENANTS = np.array([
    21, 21, 28, 34, 22, 36, 10, 11, 36,
    61, 23, 17, 43, 35, 40, 26, 18, 54,
    13,  9, 10,  8,  8, 12,  6,  7,  9,
    18,  6,  7, 15, 13, 13,  7,  5, 11,
    14, 19, 37, 17, 23, 40,  3,  5, 23,
    78, 46, 43, 48, 45, 86, 15, 25, 62,
    20, 23, 20, 10, 22, 24,  7, 10, 21,
    57, 23, 13, 31, 21, 13,  5,  6, 13,
])
# fmt: on
FEATURES = [
    "medium influence",
    "high influence",
    "apartment",
    "atrium",
    "terrace",
    "high contact",
]


def row(contact, house, influence):
    """Indicators of all but the first value of each: six numbers."""
    values = (influence, influence, house, house, house, contact)
    ones = (*INFLUENCE[1:], *HOUSES[1:], CONTACT[1])
    return [float(value == one) for value, one in zip(values, ones, strict=True)]


def data():
    """A row (6,) and an answer for each tenant (1681,)."""
    cells = list(itertools.product(CONTACT, HOUSES, INFLUENCE, ANSWERS))
    X = np.array([row(*cell[:3]) for cell in cells])
    answers = np.array([cell[3] for cell in cells])
    return np.repeat(X, TENANTS, axis=0), np.repeat(answers, TENANTS)


model = bk.BayesianGLM(bk.likelihoods.Ordered(classes=ANSWERS))


def problem():
    """To predict: answers of two tenants of a tower block, with little and much influence."""
    new = np.array([row("low", "tower", "low"), row("low", "tower", "high")])
    return bk.Problem(model, data(), {"feature": FEATURES}, predict=(new,))
