"""Employment in the United States by six indicators that all grew together.

The data cover the years 1947 to 1962. Longley (1967), "An appraisal of least squares programs for
the electronic computer from the point of view of the user", Journal of the American Statistical
Association 62, 819-841; numbers in the public domain (as stated by statsmodels). The columns are
nearly collinear and far from 0: their condition number of 5e9 defeated many programs of the time.

Under flat priors the posterior means are the least-squares estimates, whatever the noise, and NIST
certifies these to 15 digits (Statistical Reference Datasets, "Longley"). With the noise integrated
out, the weights are close to Student t with 9 degrees of freedom.
"""

import numpy as np

import bayeskern as bk

NAMES = ("price deflator", "gnp", "unemployed", "armed forces", "population", "year")
# Columns: employed (thousands), then NAMES (1954 = 100; million dollars; 3 x thousands; years).
TABLE = np.array(
    [
        [60323, 83.0, 234289, 2356, 1590, 107608, 1947],
        [61122, 88.5, 259426, 2325, 1456, 108632, 1948],
        [60171, 88.2, 258054, 3682, 1616, 109773, 1949],
        [61187, 89.5, 284599, 3351, 1650, 110929, 1950],
        [63221, 96.2, 328975, 2099, 3099, 112075, 1951],
        [63639, 98.1, 346999, 1932, 3594, 113270, 1952],
        [64989, 99.0, 365385, 1870, 3547, 115094, 1953],
        [63761, 100.0, 363112, 3578, 3350, 116219, 1954],
        [66019, 101.2, 397469, 2904, 3048, 117388, 1955],
        [67857, 104.6, 419180, 2822, 2857, 118734, 1956],
        [68169, 108.4, 442769, 2936, 2798, 120445, 1957],
        [66513, 110.8, 444546, 4681, 2637, 121950, 1958],
        [68655, 112.6, 482704, 3813, 2552, 123366, 1959],
        [69564, 114.2, 502601, 3931, 2514, 125368, 1960],
        [69331, 115.7, 518173, 4806, 2572, 127852, 1961],
        [70551, 116.9, 554894, 4007, 2827, 130081, 1962],
    ]
)


def data():
    """The indicators (16, 6), and the number of employed in thousands (16,)."""
    return TABLE[:, 1:], TABLE[:, 0]


model = bk.BayesianLinearRegression(prior=bk.priors.Flat(), intercept=bk.priors.Flat())


def problem():
    """To predict: 1963, if the indicators change as from 1961 to 1962."""
    X, y = data()
    new_X = 2.0 * X[-1] - X[-2]
    return bk.Problem(model, (X, y), {"feature": list(NAMES)}, predict=(new_X[None],))
