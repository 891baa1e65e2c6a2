"""Yields of a dyestuff from six batches: the variation between and within them.

Davies and Goldsmith (1972), Statistical Methods in Research and Production, section 6.4: the yield
of dyestuff, in grams of standard colour, of five preparations from each of six batches of an
intermediate product. The analysis of variance has a mean square of 11271.5 between batches and of
2451.25 within them, so that the sds are 42.0 between batches and 49.5 within. Six batches say
little about an sd: the posterior shows how little. A regression by formula.
"""

import numpy as np

import bayeskern as bk

# fmt: off
YIELDS = np.array([
    [1545, 1440, 1440, 1520, 1580], [1540, 1555, 1490, 1560, 1495], [1595, 1550, 1605, 1510, 1560],
    [1445, 1440, 1595, 1465, 1545], [1595, 1630, 1515, 1635, 1625], [1520, 1455, 1450, 1480, 1445],
], float)
# fmt: on
FORMULA = "grams ~ 1 + (1 | batch)"


def table():
    """Columns batch and grams, each (30,)."""
    return {"batch": np.repeat(list("ABCDEF"), 5), "grams": YIELDS.ravel()}


def problem():
    """To predict: one more preparation from each batch, and one from a new batch G."""
    return bk.Problem(bk.regression(FORMULA, table()), predict=({"batch": list("ABCDEFG")},))
