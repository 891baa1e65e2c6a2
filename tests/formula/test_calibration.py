"""Posteriors of regressions are calibrated over their priors."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import kstest

import bayeskern as bk
from bayeskern.formula import regression

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.normal(size=36), "g": np.repeat(np.arange(6), 6)})
FRAME["y"] = RNG.poisson(1.5, 36)
# Any observations that a family can have; simulated ones replace them.
OBSERVED = {
    "bernoulli": RNG.integers(0, 2, 36),
    "gamma": RNG.gamma(2.0, size=36),
}
# Priors of the parameters of a family, and the method.
FAMILIES = {
    "gaussian": ({"sigma": dist.HalfNormal(1.0)}, "auto"),
    "poisson": ({}, "importance"),
    "bernoulli": ({}, "importance"),
    "negative_binomial": ({"concentration": dist.Gamma(4.0, 1.0)}, "importance"),
    "gamma": ({"shape": dist.Gamma(4.0, 1.0)}, "importance"),
    "student_t": ({}, "nuts"),
}
PRIORS = {
    "Intercept": dist.Normal(0.0, 1.0),
    "x": dist.Normal(0.0, 1.0),
    "sd(Intercept | g)": dist.HalfNormal(1.0),
}


def built(family):
    frame = FRAME.assign(y=OBSERVED.get(family, FRAME["y"]))
    priors = PRIORS | FAMILIES[family][0]
    return regression("y ~ x + (1 | g)", frame, family=family, priors=priors)


def test_other_observations_replace_those_of_the_data():
    model = built("gaussian")
    y = np.arange(36.0)
    assert_array_equal(model.prepare(y=y)[1][0], y)
    assert_array_equal(model.prepare()[1][0], FRAME["y"])
    classes = np.where(np.arange(36) % 3 > 0, "yes", "no")
    model = regression("c ~ x", FRAME.assign(c=classes), family="bernoulli")
    assert_array_equal(model.prepare(y=classes[::-1])[1][0], (classes == "yes")[::-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    ["gaussian", *(pytest.param(f, marks=pytest.mark.long) for f in FAMILIES if f != "gaussian")],
)
def test_ranks_of_parameters_are_uniform(family):
    method = FAMILIES[family][1]
    result = bk.calibrate(
        built(family), method=method, simulations=60, seed=0, level=0.999, progress=False
    )
    assert not result.failures
    effects = {f"Intercept | g[{i}]" for i in range(6)}
    assert result.uniforms.keys() >= PRIORS.keys() | effects
    for site, uniforms in result.uniforms.items():
        assert kstest(uniforms, "uniform").pvalue > 1e-3, site


@pytest.mark.slow
def test_predictions_of_known_new_and_no_groups_are_calibrated():
    model, rng = built("gaussian"), np.random.default_rng(1)
    rows = {"known": FRAME[:1], "new": FRAME[:1].assign(g=99), "none": FRAME[:1]}
    uniforms = {groups: [] for groups in rows}
    for seed in range(60):
        intercept, slope = rng.normal(size=2)
        sd, sigma = np.abs(rng.normal(size=2))
        effects = sd * rng.normal(size=7)
        eta = intercept + slope * FRAME["x"].to_numpy() + effects[FRAME["g"]]
        y = eta + sigma * rng.normal(size=36)
        posterior = bk.infer(model, y=y, seed=seed, progress=False)
        population = eta[0] - effects[0]
        truths = {"known": eta[0], "new": population + effects[6], "none": population}
        for groups, frame in rows.items():
            draws = posterior.predict(frame, groups=groups, latent=True, seed=seed).draws[:, 0]
            uniforms[groups].append(np.mean(draws < truths[groups]))
    for groups, values in uniforms.items():
        assert kstest(values, "uniform").pvalue > 1e-3, groups
