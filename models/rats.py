"""Young rats weighed once a week: thirty short series, forecast together.

Gelfand, Hills, Racine-Poon and Smith (1990), "Illustration of Bayesian inference in normal data
models using Gibbs sampling", Journal of the American Statistical Association 85, 972-985, section
6. Each rat has its own line, and lines vary about a common one, so that a rat weighed once is
forecast from its weight and the growth of the others. Here 44 of the 150 weights are held back, as
in the paper: the last four of rat 26, three of rats 21 to 25, two of rats 11 to 20, and one of rats
6 to 10.
"""

import numpy as np
import numpyro
import numpyro.distributions as dist

import bayeskern as bk

DAYS = np.array([8.0, 15.0, 22.0, 29.0, 36.0])
# fmt: off
WEIGHTS = np.array([
    [151, 199, 246, 283, 320], [145, 199, 249, 293, 354], [147, 214, 263, 312, 328],
    [155, 200, 237, 272, 297], [135, 188, 230, 280, 323], [159, 210, 252, 298, 331],
    [141, 189, 231, 275, 305], [159, 201, 248, 297, 338], [177, 236, 285, 350, 376],
    [134, 182, 220, 260, 296], [160, 208, 261, 313, 352], [143, 188, 220, 273, 314],
    [154, 200, 244, 289, 325], [171, 221, 270, 326, 358], [163, 216, 242, 281, 312],
    [160, 207, 248, 288, 324], [142, 187, 234, 280, 316], [156, 203, 243, 283, 317],
    [157, 212, 259, 307, 336], [152, 203, 246, 286, 321], [154, 205, 253, 298, 334],
    [139, 190, 225, 267, 302], [146, 191, 229, 272, 302], [157, 211, 250, 285, 323],
    [132, 185, 237, 286, 331], [160, 207, 257, 303, 345], [169, 216, 261, 295, 333],
    [157, 205, 248, 289, 316], [137, 180, 219, 258, 291], [153, 200, 244, 286, 324],
], float)
# fmt: on
# Weights of each rat that the model sees.
WEIGHED = np.array([5] * 5 + [4] * 5 + [3] * 10 + [2] * 5 + [1] + [5] * 4)
IS_SEEN = np.arange(5) < WEIGHED[:, None]


def data():
    """Number of the rat, day, and weight in grams (106,)."""
    rat, week = np.nonzero(IS_SEEN)
    return rat, DAYS[week], WEIGHTS[IS_SEEN]


def model(rat, day, weight=None):
    growth = numpyro.sample("growth", dist.Normal(5.0, 5.0))
    level = numpyro.sample("level", dist.Normal(250.0, 100.0))
    growth_sd = numpyro.sample("growth_sd", dist.HalfNormal(5.0))
    level_sd = numpyro.sample("level_sd", dist.HalfNormal(50.0))
    noise_sd = numpyro.sample("noise_sd", dist.HalfNormal(20.0))
    with numpyro.plate("rat", len(WEIGHTS)):
        # Weight on day 22, and grams a day.
        own_level = numpyro.sample("own_level", dist.Normal(level, level_sd))
        own_growth = numpyro.sample("own_growth", dist.Normal(growth, growth_sd))
    with numpyro.plate("weighing", len(rat)):
        mean = own_level[rat] + own_growth[rat] * (day - DAYS[2])
        numpyro.sample("weight", dist.Normal(mean, noise_sd), obs=weight)


def problem():
    """To predict: the weights held back (44,)."""
    rat, week = np.nonzero(~IS_SEEN)
    coords = {"rat": list(range(1, len(WEIGHTS) + 1))}
    return bk.Problem(model, data(), coords, predict=(rat, DAYS[week]))
