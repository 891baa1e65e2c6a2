"""Damage to cargo ships by waves: counts, with the time in service as exposure.

McCullagh and Nelder (1989), Generalized Linear Models, section 6.3.2: 356 incidents in 34 groups of
ships, by type, years of construction and period of operation. The months in service, from 45 to
44,882, are the exposure: the expected count is the exposure times a rate. By maximum likelihood
types B and C have fewer incidents a month than type A (factors 0.58 and 0.50), ships of 1965 to
1974 twice as many as those built before. The deviance of 38.7 on 25 degrees of freedom says that
counts vary somewhat more than Poisson counts.
"""

import itertools

import numpy as np

import bayeskern as bk

TYPES, BUILT, PERIODS = "ABCDE", (1960, 1965, 1970, 1975), (1960, 1975)
# By type; within a type by years of construction, each with its two periods of operation.
# fmt: off
MONTHS = np.array([
    127, 63, 1095, 1095, 1512, 3353, 0, 2244,
    44882, 17176, 28609, 20370, 7064, 13099, 0, 7117,
    1179, 552, 781, 676, 783, 1948, 0, 274,
    251, 105, 288, 192, 349, 1208, 0, 2051,
    45, 0, 789, 437, 1157, 2161, 0, 542,
])
INCIDENTS = np.array([
    0, 0, 3, 4, 6, 18, 0, 11,
    39, 29, 58, 53, 12, 44, 0, 18,
    1, 1, 0, 1, 6, 2, 0, 1,
    0, 0, 0, 0, 2, 11, 0, 4,
    0, 0, 7, 7, 5, 12, 0, 1,
])
# fmt: on
FEATURES = [
    *(f"type {kind}" for kind in TYPES[1:]),
    *(f"built {year} to {year + 4}" for year in BUILT[1:]),
    "operated 1975 to 1979",
]


def design(kinds, built, periods):
    """Indicators of all but the first type, years of construction and period: (n, 8)."""
    columns = [np.asarray(kinds) == kind for kind in TYPES[1:]]
    columns += [np.asarray(built) == year for year in BUILT[1:]]
    return np.column_stack([*columns, np.asarray(periods) == PERIODS[1]]).astype(float)


def data():
    """Indicators (34, 8), incidents (34,), and exposure in thousands of months (34,)."""
    groups = np.array(list(itertools.product(TYPES, BUILT, PERIODS)), dtype=object)
    served = MONTHS > 0
    X = design(*groups[served].T)
    return {"X": X, "y": INCIDENTS[served], "exposure": MONTHS[served] / 1000.0}


model = bk.BayesianGLM(bk.likelihoods.Poisson())


def problem():
    """To predict: incidents of the newest ships in a thousand months, by type."""
    count = len(TYPES)
    newest = design(list(TYPES), [BUILT[-1]] * count, [PERIODS[-1]] * count)
    return bk.Problem(model, data(), {"feature": FEATURES}, predict=(newest,))
