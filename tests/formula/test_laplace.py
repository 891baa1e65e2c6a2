"""Effects integrated out by Laplace's approximation, against quadrature and finite differences."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpy.testing import assert_allclose
from numpyro import handlers
from numpyro.infer.util import log_density
from scipy.special import expit, logsumexp
from scipy.stats import binom, norm, poisson

import bayeskern as bk
from bayeskern.formula import regression
from tests.formula.dense import log_marginal, prior_draw, table
from tests.marks import few, slow

FRAME = table(n=40)
RNG = np.random.default_rng(2)
ETA = 0.4 + 0.8 * FRAME["x"] + RNG.normal(size=5)[FRAME["g"].map("pqrst".index)]
FRAME["binary"] = RNG.binomial(1, expit(ETA))
FRAME["successes"] = RNG.binomial(6, expit(ETA))
FRAME["six"] = 6
FRAME["count"] = RNG.poisson(np.exp(ETA))
# Left-hand side, family, log p(y | eta) and the curvature -d2/d eta2 with its two derivatives.
FAMILIES = {
    "bernoulli": ("binary", lambda y, eta: binom.logpmf(y, 1, expit(eta)), 1.0),
    "binomial": ("successes | trials(six)", lambda y, eta: binom.logpmf(y, 6, expit(eta)), 6.0),
    "poisson": ("count", lambda y, eta: poisson.logpmf(y, np.exp(eta)), None),
}
SD = 0.8


@cache
def one_factor(family):
    """Independent groups: the model, and log p(y) by quadrature with Laplace's leading error."""
    left, log_p, trials = FAMILIES[family]
    model = regression(f"{left} ~ 0 + offset(x) + (1 | g)", FRAME, family=family)
    nodes = np.linspace(-8.0, 8.0, 4001)
    total = error = 0.0
    for _, rows in FRAME.groupby("g"):
        eta = rows["x"].to_numpy()[:, None] + nodes
        y = rows[left.split()[0]].to_numpy()[:, None]
        log_density = log_p(y, eta).sum(axis=0) + norm.logpdf(nodes, scale=SD)
        total += logsumexp(log_density) + np.log(nodes[1] - nodes[0])
        error += leading_error(eta[:, np.argmax(log_density)], trials)
    return model, total, error


def leading_error(eta, trials):
    """log p(y) - log q(y) to the next order, at the mode (Tierney and Kadane 1986)."""
    if trials is None:
        second, third, fourth = (-np.exp(eta).sum(),) * 3
    else:
        p = expit(eta)
        v = trials * p * (1.0 - p)
        second, third = -v.sum(), -(v * (1.0 - 2.0 * p)).sum()
        fourth = -(v * (1.0 - 6.0 * p * (1.0 - p))).sum()
    second -= 1.0 / SD**2
    return fourth / (8.0 * second**2) - 5.0 * third**2 / (24.0 * second**3)


@pytest.mark.parametrize("family", few(FAMILIES, "binomial"))
def test_marginal_likelihood_of_independent_groups(family):
    model, exact, error = one_factor(family)
    value, _ = log_marginal(model.marginal(model.y), {"sd(Intercept | g)": SD})
    # The known leading term explains Laplace's error.
    assert_allclose(exact - value, error, rtol=0.3)


@pytest.mark.parametrize("family", few(FAMILIES, "binomial"))
def test_importance_weights_correct_the_marginal_likelihood(family):
    model, exact, _ = one_factor(family)
    marginal = model.marginal(model.y)
    draw = {"sd(Intercept | g)": SD}
    value, _ = log_marginal(marginal, draw)
    observed = observations(marginal, draw)
    eta, log_ratio = observed.log_ratio(model.y, jax.random.key(0), 4000)
    weights = np.exp(log_ratio)
    error = weights.std() / weights.mean() / np.sqrt(4000)
    assert error < 0.01
    assert abs(value + np.log(weights.mean()) - exact) < 4.0 * error
    assert eta.shape == (4000, 40)


def observations(marginal, draw):
    """The distribution of y, the effects integrated out."""
    seeded = handlers.substitute(handlers.seed(marginal.model, 0), data=draw)
    return handlers.trace(seeded).get_trace(*marginal.args)["y"]["fn"]


@pytest.mark.parametrize(
    ("formula", "family", "order"),
    [
        ("count ~ x + (1 | g) + (1 | h)", "poisson", 1),
        slow("count ~ x + (x | g) + (1 | h)", "poisson", 2),
        slow("binary ~ x + (1 | g) + s(z, k=4)", "bernoulli", 2),
    ],
)
def test_derivatives_of_the_marginal_likelihood(formula, family, order):
    model = regression(formula, FRAME, family=family)
    marginal = model.marginal(model.y)
    draw = prior_draw(marginal, 1)
    names = list(draw)
    start = jnp.array([draw[name] for name in names])

    def value(theta):
        return observations(marginal, dict(zip(names, theta, strict=True))).log_prob(model.y)

    derivatives = [value, jax.grad(value), jax.hessian(value)][: order + 1]
    at = jax.jit(lambda theta: [function(theta) for function in derivatives])
    ahead, behind = ([at(start + h) for h in t * np.eye(len(names))] for t in (1e-4, -1e-4))
    for k in range(order):
        pairs = zip(ahead, behind, strict=True)
        differences = [(one[k] - other[k]) / 2e-4 for one, other in pairs]
        assert_allclose(at(start)[k + 1], differences, rtol=1e-5, atol=1e-5)


def test_row_of_weight_two_counts_as_two_rows():
    frame = FRAME.assign(w=1.0 + (np.arange(len(FRAME)) % 2))
    repeated = frame.loc[frame.index.repeat(frame["w"].astype(int))]
    formulas = "count | weights(w) ~ x + (1 | g)", "count ~ x + (1 | g)"
    values = []
    for formula, rows in zip(formulas, (frame, repeated), strict=True):
        priors = {"Intercept": dist.Normal(0.0, 2.0), "x": dist.Normal(0.0, 1.0)}
        priors |= {"sd(Intercept | g)": dist.Exponential(1.0)}
        marginal = regression(formula, rows, "poisson", priors).marginal(
            jnp.array(rows["count"], float)
        )
        values.append(log_marginal(marginal, {"sd(Intercept | g)": 0.7})[0])
    assert_allclose(*values, rtol=1e-10)


def test_effects_without_a_mode_are_nan():
    model = regression("count ~ x + (x | g)", FRAME, family="poisson")
    marginal = model.marginal(jnp.full(len(model.y), jnp.nan))
    draw = prior_draw(model.marginal(model.y), 1)
    recover = jax.jit(lambda draw, white: marginal.model.recover(marginal.args, draw, white))
    assert np.isnan(recover(draw, jnp.zeros(marginal.model.size))["x"])


def test_recovered_effects_are_those_of_the_mode():
    model = regression("count ~ x + (x | g)", FRAME, family="poisson")
    marginal = model.marginal(model.y)
    draw = prior_draw(marginal, 1)
    sites = draw | marginal.model.recover(marginal.args, draw, jnp.zeros(marginal.model.size))

    # The mean of the draws is the mode: no gradient of the joint density of y and the effects.
    def log_joint(effects):
        return log_density(model, (model.y,), {}, draw | effects)[0]

    effects = {name: value for name, value in sites.items() if name not in draw}
    for gradient in jax.tree.leaves(jax.grad(log_joint)(effects)):
        assert_allclose(gradient, 0.0, atol=1e-6)


@pytest.mark.slow
def test_auto_goes_to_nuts_where_only_the_effects_are_off():
    # Weights of the parameters and SVI would share the error of the effects.
    rng = np.random.default_rng(0)
    groups, x = rng.integers(0, 60, 2000), rng.normal(size=2000)
    logits = 0.3 + 0.5 * x + rng.normal(size=60)[groups]
    frame = {"yes": rng.binomial(1, expit(logits)), "x": x, "g": groups}
    posterior = bk.infer(bk.regression("yes ~ x + (1 | g)", frame, "bernoulli"), progress=False)
    first, *others = posterior.attempts
    assert first.reason.startswith("The latent function")
    assert [attempt.method for attempt in others] == ["nuts"]
    assert posterior.trust.verdict == "good"
