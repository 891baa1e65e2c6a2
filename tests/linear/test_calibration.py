"""Simulation-based calibration: over draws from the prior, every posterior is right on average.

Talts et al. (2018): where the truth is drawn from the prior and the data given it, the rank of the
truth among draws from the posterior is uniform. The truth is drawn by NumPy, not by the model. The
log likelihood is ranked too: the prior in place of the posterior would pass without it (Modrak et
al. 2023).
"""

from typing import NamedTuple

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import chi2, kstest, norm

import bayeskern as bk
from bayeskern import priors

DRAWS, LEVEL, NEW = 99, 0.9, 5
LOC, SCALES, LEVEL_SD = 0.5, np.array([1.0, 0.3, 2.0]), 1.5
A, B = 3.0, 2.0
#: no p-value of a calibrated posterior is below this, at these seeds
ALPHA = 1e-3


class Fitted(NamedTuple):
    """draws, truth: by site, (simulations, DRAWS, k) and (simulations, k); covered: new values."""

    draws: dict
    truth: dict
    covered: np.ndarray


def inverse_gamma(rng):
    return 1.0 / rng.gamma(A, 1.0 / B)


def known(rng, p=3):
    scale = np.resize(SCALES, p)
    return {
        "weights": LOC + scale * rng.normal(size=p),
        "intercept": LEVEL_SD * rng.normal(),
    }, 0.7


def conjugate(rng, p=3):
    # The weights and the intercept are in units of the sd of the noise.
    noise = inverse_gamma(rng)
    weights = LOC + np.sqrt(noise) * SCALES * rng.normal(size=p)
    level = np.sqrt(noise) * LEVEL_SD * rng.normal()
    return {"weights": weights, "intercept": level, "noise": noise}, noise


def inferred(rng, p=3):
    scale, noise = np.exp(0.5 * rng.normal()), np.square(0.8 * rng.normal())
    truth = {
        "weights": LOC + scale * rng.normal(size=p),
        "intercept": LEVEL_SD * rng.normal(),
        "noise": noise,
        "prior.scale": scale,
    }
    return truth, noise


LINE = dist.Normal(0.0, LEVEL_SD)
KNOWN = bk.BayesianLinearRegression(
    prior=priors.Gaussian(SCALES, loc=LOC), noise_variance=0.7, intercept=LINE
)
WIDE = bk.BayesianLinearRegression(
    prior=priors.Gaussian(np.resize(SCALES, 9), loc=LOC), noise_variance=0.7, intercept=LINE
)
CONJUGATE = bk.BayesianLinearRegression(
    prior=priors.Conjugate(SCALES, loc=LOC), noise_variance=dist.InverseGamma(A, B), intercept=LINE
)
INFERRED = bk.BayesianLinearRegression(
    prior=priors.Gaussian(dist.LogNormal(0.0, 0.5), loc=LOC),
    noise_variance=bk.from_sd(dist.HalfNormal(0.8)),
    intercept=LINE,
)
EXACT = bk.Exact(draws=DRAWS)
WEIGHTED = bk.ImportanceSampling(draws=2000)
#: how the truth is drawn, the model, the method, rows, features
PATHS = {
    "known noise": (known, KNOWN, EXACT, 12, 3),
    "more weights than rows": (lambda rng: known(rng, 9), WIDE, EXACT, 5, 9),
    "conjugate noise": (conjugate, CONJUGATE, EXACT, 12, 3),
    "inferred, weighted": (inferred, INFERRED, WEIGHTED, 12, 3),
    "inferred, nuts": (inferred, INFERRED, bk.NUTS(chains=2, warmup=300, draws=600), 12, 3),
}


def simulate(path: str, count: int):
    """Data sets whose truth is drawn from the prior: X, y, NEW rows of both, truth, noise."""
    from_prior, _, _, n, p = PATHS[path]
    rng = np.random.default_rng(20180418)
    for _ in range(count):
        X = rng.normal(size=(n + NEW, p)) * np.resize([1.0, 3.0, 0.2], p) + rng.normal(size=p)
        truth, noise = from_prior(rng)
        eta = truth["intercept"] + X @ truth["weights"]
        y = eta + np.sqrt(noise) * rng.normal(size=n + NEW)
        yield X[:n], y[:n], X[n:], y[n:], truth, noise


def fitted(path: str, count: int) -> Fitted:
    _, model, method, _, _ = PATHS[path]
    rng = np.random.default_rng(1)
    found, truths, covered = [], [], []
    for seed, (X, y, X_new, y_new, truth, noise) in enumerate(simulate(path, count)):
        posterior = bk.infer(model, X, y, method=method, seed=seed, progress=False)
        size = len(posterior.flat["weights"])
        # Draws of a chain, or of a weighted sample, are all but independent once most are left out.
        rows = np.sort(rng.choice(size, DRAWS, replace=False))
        draws = {name: posterior.flat[name][rows].reshape(DRAWS, -1) for name in truth}
        for values in (draws, truth):
            values["log likelihood"] = log_likelihood(values, noise, X, y)
        found.append(draws)
        truths.append({name: np.ravel(value) for name, value in truth.items()})
        lower, upper = posterior.predict(X_new).interval(LEVEL)
        covered.append((lower < y_new) & (y_new < upper))
    return Fitted(*map(stacked, (found, truths)), np.array(covered))


def stacked(found) -> dict:
    return {name: np.stack([one[name] for one in found]) for name in found[0]}


def log_likelihood(values, noise, X, y):
    """At one value of each site, or at (DRAWS, k) of them: (DRAWS, 1)."""
    weights, level = np.atleast_2d(values["weights"]), np.reshape(values["intercept"], (-1, 1))
    noise = np.reshape(values.get("noise", noise), (-1, 1))
    return norm(level + weights @ X.T, np.sqrt(noise)).logpdf(y).sum(axis=1, keepdims=True)


def p_values(draws, truth, seed=0) -> np.ndarray:
    """Of uniform ranks, for location and for spread: (2, k). draws: (simulations, DRAWS, k).

    A rank spread evenly over its interval is a continuous uniform, so that both are exact:
    Kolmogorov and Smirnov's, and the sum of squared normal scores of Cook, Gelman and Rubin (2006).
    """
    rng = np.random.default_rng(seed)
    below = (draws < truth[:, None]).sum(axis=1) + rng.random(truth.shape) * (
        1 + (draws == truth[:, None]).sum(axis=1)
    )
    uniform = below / (DRAWS + 1)
    location = [kstest(column, "uniform").pvalue for column in uniform.T]
    squares = np.sum(np.square(norm.ppf(uniform)), axis=0)
    tails = chi2(len(truth)).cdf(squares), chi2(len(truth)).sf(squares)
    return np.array([location, 2.0 * np.minimum(*tails)])


# Fits that take longer are fewer.
RUNS = [("inferred, weighted", 100), ("inferred, nuts", 100), ("known noise", 400)]
RUNS += [(path, 200) for path in PATHS if path not in dict(RUNS)]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "count"), RUNS)
def test_ranks_are_uniform_and_intervals_cover(path, count):
    draws, truth, covered = fitted(path, count)
    for name in truth:
        found = p_values(draws[name], truth[name])
        assert np.all(found > ALPHA), (name, found)
    # New values of one data set share its posterior: it is data sets that are independent.
    covered = covered.mean(axis=1)
    error = covered.std() / np.sqrt(count)
    assert abs(covered.mean() - LEVEL) < 3.3 * error
    assert error < 0.02
