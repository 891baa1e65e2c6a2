"""Regressions of published data against published figures, StatsModels and NUTS by hand."""

import warnings
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpyro import handlers
from numpyro.infer import MCMC, NUTS
from scipy.optimize import minimize

import bayeskern as bk
from bayeskern.formula import regression
from tests.formula.dense import posterior_draws

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "regression"
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="no shared/regression beside the project"
)
FLAT = dist.Normal(0.0, 1e5)
# Formula; and lme4's estimates by REML (Bates et al. 2015, and lme4's manual): sds and
# correlations; common effects with their standard errors.
REML = {
    "sleepstudy": (
        "Reaction ~ Days + (Days | Subject)",
        {
            "sd(Intercept | Subject)": 24.741,
            "sd(Days | Subject)": 5.922,
            "cor(Intercept, Days | Subject)": 0.066,
            "sigma": 25.592,
        },
        {"Intercept": (251.405, 6.825), "Days": (10.467, 1.546)},
    ),
    "Penicillin": (
        "diameter ~ 1 + (1 | plate) + (1 | sample)",
        {"sd(Intercept | plate)": 0.8467, "sd(Intercept | sample)": 1.9316, "sigma": 0.5499},
        {"Intercept": (22.972, 0.8086)},
    ),
}


@cache
def table(name):
    return pd.read_csv(FOLDER / f"{name}.csv.gz")


@cache
def reml(name):
    """The model under flat priors of the common effects, and its mode of the scales."""
    formula, scales, common = REML[name]
    model = regression(formula, table(name), priors=dict.fromkeys(common, FLAT))
    marginal = model.marginal(model.y)
    names = list(scales)

    def draw_of(theta):
        values = zip(names, theta, strict=True)
        return {n: jnp.tanh(t) if n.startswith("cor") else jnp.exp(t) for n, t in values}

    @jax.jit
    @jax.value_and_grad
    def loss(theta):
        seeded = handlers.substitute(handlers.seed(marginal.model, 0), data=draw_of(theta))
        trace = handlers.trace(seeded).get_trace(*marginal.args)
        return -trace["log_marginal_likelihood"]["fn"].log_factor

    start = [0.0 if n.startswith("cor") else np.log(model.y.std()) for n in names]
    best = minimize(loss, np.array(start), jac=True, method="BFGS")
    return model, {n: float(v) for n, v in draw_of(best.x).items()}


@pytest.mark.parametrize("name", REML)
def test_mode_under_flat_priors_is_the_published_one(name):
    _, published, common = REML[name]
    model, scales = reml(name)
    for site, value in published.items():
        assert_allclose(scales[site], value, rtol=1e-3, atol=1e-3, err_msg=site)
    draws = posterior_draws(model, scales, 4000)
    for site, (mean, error) in common.items():
        assert_allclose(draws[site].mean(), mean, atol=4.0 * error / 4000**0.5, err_msg=site)
        assert_allclose(draws[site].std(), error, rtol=0.05, err_msg=site)


def test_mode_under_flat_priors_is_that_of_statsmodels():
    from statsmodels.regression.mixed_linear_model import MixedLM

    frame = table("sleepstudy")
    X = np.column_stack([np.ones(len(frame)), frame["Days"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = MixedLM(frame["Reaction"], X, frame["Subject"], exog_re=X).fit(reml=True)
    model, scales = reml("sleepstudy")
    sds = np.array([scales["sd(Intercept | Subject)"], scales["sd(Days | Subject)"]])
    correlation = np.array([[1.0, scales["cor(Intercept, Days | Subject)"]]] * 2)
    correlation[1] = correlation[0, ::-1]
    cov = sds[:, None] * correlation * sds
    assert_allclose(cov, other.cov_re, rtol=2e-3)
    assert_allclose(scales["sigma"] ** 2, other.scale, rtol=1e-3)
    marginal = model.marginal(model.y)
    means = marginal.model.recover(marginal.args, scales, np.zeros(marginal.model.size))
    assert_allclose([means["Intercept"], means["Days"]], other.fe_params, rtol=1e-5)
    effects = np.array([other.random_effects[s] for s in model.groups[0].levels.value])
    assert_allclose(means["Intercept | Subject"], effects[:, 0], rtol=0.01, atol=0.05)
    assert_allclose(means["Days | Subject"], effects[:, 1], rtol=0.01, atol=0.02)


# -- against NUTS ----------------------------------------------------------------------------------


def sleepstudy(days, subject, y):
    intercept = numpyro.sample("Intercept", dist.Normal(250.0, 100.0))
    slope = numpyro.sample("Days", dist.Normal(0.0, 20.0))
    sd = numpyro.sample("sd", dist.HalfNormal(jnp.array([50.0, 10.0])).to_event(1))
    L = numpyro.sample("L", dist.LKJCholesky(2, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(50.0))
    with numpyro.plate("subjects", 18):
        u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    b = u @ (sd[:, None] * L).T
    mean = intercept + b[subject, 0] + (slope + b[subject, 1]) * days
    numpyro.sample("y", dist.Normal(mean, sigma), obs=y)
    numpyro.deterministic("sd(Intercept | Subject)", sd[0])
    numpyro.deterministic("sd(Days | Subject)", sd[1])
    numpyro.deterministic("cor(Intercept, Days | Subject)", L[1, 0])
    numpyro.deterministic("Intercept | Subject", b[:, 0])
    numpyro.deterministic("Days | Subject", b[:, 1])


def cbpp(X, herd, n, y):
    intercept = numpyro.sample("Intercept", dist.Normal(0.0, 5.0))
    period = numpyro.sample("C(period)", dist.Normal(0.0, 2.0).expand([3]).to_event(1))
    sd = numpyro.sample("sd(Intercept | herd)", dist.HalfNormal(2.0))
    with numpyro.plate("herds", 15):
        u = numpyro.sample("u", dist.Normal(0.0, 1.0))
    b = numpyro.deterministic("Intercept | herd", sd * u)
    eta = intercept + X @ period + b[herd]
    numpyro.sample("y", dist.Binomial(total_count=n, logits=eta), obs=y)


def penicillin(plate, sample, y):
    intercept = numpyro.sample("Intercept", dist.Normal(20.0, 10.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    eta = intercept
    for name, codes, count in (("plate", plate, 24), ("sample", sample, 6)):
        sd = numpyro.sample(f"sd(Intercept | {name})", dist.HalfNormal(5.0))
        with numpyro.plate(name, count):
            u = numpyro.sample(f"u_{name}", dist.Normal(0.0, 1.0))
        b = numpyro.deterministic(f"Intercept | {name}", sd * u)
        eta = eta + b[codes]
    numpyro.sample("y", dist.Normal(eta, sigma), obs=y)


def by_hand(name):
    """The model by hand with its data."""
    frame = table(name)

    def codes(column):
        return pd.factorize(frame[column], sort=True)[0]

    if name == "sleepstudy":
        return sleepstudy, (
            frame["Days"].to_numpy(),
            codes("Subject"),
            frame["Reaction"].to_numpy(),
        )
    if name == "cbpp":
        X = (frame["period"].to_numpy()[:, None] == [2, 3, 4]).astype(float)
        counts = (frame[column].to_numpy() for column in ("size", "incidence"))
        return cbpp, (X, codes("herd"), *counts)
    return penicillin, (codes("plate"), codes("sample"), frame["diameter"].to_numpy())


# The same priors in the formula's words.
SAME = {
    "sleepstudy": (
        "Reaction ~ Days + (Days | Subject)",
        "gaussian",
        {
            "Intercept": dist.Normal(250.0, 100.0),
            "Days": dist.Normal(0.0, 20.0),
            "sd(Intercept | Subject)": dist.HalfNormal(50.0),
            "sd(Days | Subject)": dist.HalfNormal(10.0),
            "sigma": dist.HalfNormal(50.0),
        },
    ),
    "cbpp": (
        "incidence | trials(size) ~ C(period) + (1 | herd)",
        "binomial",
        {
            "Intercept": dist.Normal(0.0, 5.0),
            "C(period)": dist.Normal(0.0, 2.0),
            "sd(Intercept | herd)": dist.HalfNormal(2.0),
        },
    ),
    "Penicillin": (
        "diameter ~ 1 + (1 | plate) + (1 | sample)",
        "gaussian",
        {
            "Intercept": dist.Normal(20.0, 10.0),
            "sd(Intercept | plate)": dist.HalfNormal(5.0),
            "sd(Intercept | sample)": dist.HalfNormal(5.0),
            "sigma": dist.HalfNormal(2.0),
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAME)
def test_posterior_is_that_of_nuts_by_hand(name):
    formula, family, priors = SAME[name]
    model = regression(formula, table(name), family=family, priors=priors)
    ours = bk.infer(model, seed=0, progress=False)
    program, data = by_hand(name)
    numpyro.set_host_device_count(1)
    sampler = MCMC(
        NUTS(program, target_accept_prob=0.9),
        num_warmup=1000,
        num_samples=30_000,
        num_chains=1,
        progress_bar=False,
    )
    sampler.run(jax.random.key(0), *data)
    nuts = sampler.get_samples()
    compared = {site for site in nuts if site in ours.flat}
    assert compared >= priors.keys()
    for site in sorted(compared):
        draws, expected = np.asarray(ours.flat[site]), np.asarray(nuts[site])
        sd = expected.std(axis=0)
        off = np.abs(draws.mean(axis=0) - expected.mean(axis=0)) / sd
        ratio = np.abs(draws.std(axis=0) / sd - 1.0)
        assert (off < 0.1).all(), f"{site}: means off by {off} sds"
        assert (ratio < 0.05).all(), f"{site}: sds off by {ratio}"
