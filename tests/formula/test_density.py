"""Effects are integrated out exactly: the same numbers as by dense Gaussians."""

from functools import partial

import jax
import jax.flatten_util
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from numpyro.infer.util import log_density
from scipy.stats import multivariate_normal

from bayeskern import kernels
from bayeskern.formula import field, regression
from bayeskern.formula.field import effects_of
from bayeskern.formula.integral import _forward, log_integral
from bayeskern.formula.terms import Process, Smooth
from bayeskern.formula.walk import Walk
from tests.formula.dense import dense_of, log_marginal, prior_draw, root_of, table
from tests.marks import few

FRAME = table()
# Formula and priors, one for each part of the algebra.
STRUCTURES = {
    "common": ("y ~ x * f", {}),
    "no columns": ("y ~ 0 + (1 | g)", {}),
    "slopes": ("y ~ x + (x | g)", {}),
    "three slopes": ("y ~ x + (x + z | g)", {}),
    "independent slopes": ("y ~ (x || g)", {}),
    "crossed": ("y ~ x + (1 | g) + (1 | h)", {}),
    "crossed slopes": ("y ~ z + (0 + x | h) + (z | g) + (1 | f)", {}),
    "nested": ("y ~ x + (x | g / h)", {}),
    "one factor twice": ("y ~ (x | g) + (0 + z | g) + (1 | h)", {}),
    "factor by group": ("y ~ 0 + f + (0 + f | h)", {}),
    "smooth": ("y ~ s(z, k=6) + (1 | g)", {}),
    "process": ("y ~ gp(z) + x", {}),
    "monotone": ("y ~ mo(o) + (1 | g)", {}),
    "walk": ("y ~ x + rw(o) + (1 | g)", {}),
    "autoregression": ("y ~ ar(o) + (1 | g)", {}),
    "by group": ("y ~ x + s(z, k=4, by=g) + (1 | g) + mo(o, by=h)", {}),
    "offset and weights": ("y | weights(w) ~ x + offset(log(e)) + (x | g)", {}),
    "distributional": (("y ~ x + (1 | g)", "sigma ~ x"), {}),
    "distributional with weights": (("y | weights(w) ~ x + (1 | g) + (1 | h)", "sigma ~ f"), {}),
    "other priors": (
        "y ~ x * f + (x | g)",
        {
            "x": dist.StudentT(4.0, 0.0, 2.0),
            "Intercept": dist.Laplace(0.0, 5.0),
            "f": dist.Normal(1.0, 0.5),
            "sd(x | g)": dist.HalfCauchy(1.0),
        },
    ),
}
# Those that every run takes.
KEPT = (
    "no columns",
    "one factor twice",
    "by group",
    "offset and weights",
    "distributional with weights",
    "other priors",
)


def built(name):
    formula, priors = STRUCTURES[name]
    model = regression(formula, FRAME, priors=priors)
    return model, model.marginal(model.y)


@pytest.mark.parametrize("name", few(STRUCTURES, *KEPT))
def test_integrated_density_is_that_of_a_dense_gaussian(name):
    model, marginal = built(name)
    draw = prior_draw(marginal, 3)
    dense = dense_of(model, draw)
    value, total = log_marginal(marginal, draw)
    assert_allclose(value, dense.log_marginal, rtol=1e-9)
    # The posterior mean of the effects, by the names of the sites.
    mean, cov = dense.posterior
    sites = marginal.model.recover(marginal.args, draw, np.zeros(marginal.model.size))
    scale = np.sqrt(np.diag(dense.cov).max())
    assert_allclose(dense.vector(sites), mean, rtol=1e-7, atol=1e-8 * scale)
    # p(y, v, scales) = p(v | y, scales) p(y, scales) at a draw of v.
    white = np.random.default_rng(1).normal(size=marginal.model.size)
    sites |= marginal.model.recover(marginal.args, draw, white)
    v = dense.vector(sites)
    joint, _ = log_density(model, (model.y,), {}, draw | sites)
    conditional = multivariate_normal.logpdf(v, mean, cov, allow_singular=True)
    assert_allclose(joint - conditional, total, rtol=1e-7)


def at_a_draw(name, monkeypatch):
    """Model, marginal, draw of the scales, sums over rows, and their arguments at the draw."""
    if name == "sparse":
        monkeypatch.setattr(field, "SPARSE_GAIN", 1)
        model = regression("y ~ x + (1 | a) + (1 | b) + (1 | c)", crossed())
        marginal = model.marginal(model.y)
        assert model.rows.design.cross is not None
    else:
        model, marginal = built(name)
        assert model.rows.design.cross is None
    draw = prior_draw(marginal, 5)
    likelihood, (loc, roots, groups) = marginal.model.at(draw)
    roots = roots, tuple(model.roots_by_factor(groups))
    rows, noise, _ = marginal.model._gaussian(marginal.args, likelihood)
    return model, marginal, draw, rows, (loc, roots, noise)


@pytest.mark.parametrize("name", few(["crossed slopes", "by group", "sparse"], "sparse"))
def test_draws_of_effects_have_the_covariance_of_a_dense_gaussian(name, monkeypatch):
    model, marginal, draw, rows, arguments = at_a_draw(name, monkeypatch)
    dense = dense_of(model, draw)
    value, _ = log_marginal(marginal, draw)
    assert_allclose(value, dense.log_marginal, rtol=1e-9)
    # Effects are linear in the standard normal values of a draw: their covariance is J J'.
    precision, mean = rows.posterior(*arguments)

    def eta(parts):
        u = precision.unwhiten(parts)
        return model.rows.design @ effects_of(u, arguments[1], model.rows.design.sizes)

    shapes = precision.whiten(mean)
    J = np.hstack([np.reshape(j, (len(model.y), -1)) for j in jax.jacfwd(eta)(shapes)])
    _, cov = dense.posterior
    assert_allclose(J @ J.T, dense.A @ cov @ dense.A.T, rtol=1e-7, atol=1e-8 * cov.max())


@pytest.mark.parametrize(
    "name", few(["crossed slopes", "by group", "no columns", "sparse"], "sparse")
)
def test_derivatives_of_the_integral_are_those_through_the_factor(name, monkeypatch):
    *_, rows, (loc, roots, noise) = at_a_draw(name, monkeypatch)
    leaves, structure = jax.tree.flatten((roots, noise))
    flat, unravel = jax.flatten_util.ravel_pytree(leaves)

    def value(flat, integral):
        blocks, h, _ = rows._blocks(loc, *jax.tree.unflatten(structure, unravel(flat)))
        return integral(blocks, h)

    directions = jax.random.normal(jax.random.key(0), (3, len(flat)))
    results = []
    for integral in (log_integral, lambda blocks, h: _forward(blocks, h)[0]):
        gradient = jax.grad(partial(value, integral=integral))
        curvatures = [jax.jvp(gradient, (flat,), (v,))[1] for v in directions]
        results.append((value(flat, integral), gradient(flat), *curvatures))
    for by_formula, by_factor in zip(*results, strict=True):
        assert_allclose(by_formula, by_factor, rtol=1e-7, atol=1e-7 * np.abs(by_factor).max())


def crossed(n=90, seed=1):
    """A table with many crossed groups, most pairs of which do not occur."""
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, size, n) for name, size in (("a", 40), ("b", 30), ("c", 3))}
    return {"x": rng.normal(size=n), "y": rng.normal(size=n)} | codes


TIMES = np.array([0.0, 1.0, 2.0, 4.0, 5.0])


@pytest.mark.parametrize("kind", ["rw", "ar"])
def test_walks_have_their_covariance_and_go_on_given_their_neighbours(kind):
    name, sites = f"{kind}(t)", {f"sd({kind}(t))": 1.5, f"rho({kind}(t))": 0.7}
    term, X = Walk.fit(name, kind, ["t"], pd.DataFrame({"t": TIMES}), 1.0)
    root = root_of(term, sites)

    def covariance(s, t):
        lag = np.abs(s[:, None] - t)
        return 2.25 * np.minimum(s[:, None], t) if kind == "rw" else 2.25 * 0.7**lag

    K, center = covariance(TIMES, TIMES), np.eye(5) - (kind == "rw") / 5.0
    assert_allclose(X @ root @ root.T @ X.T, center @ K @ center, atol=1e-12)
    # New values given the values at known times: the conditional distribution of a process, which
    # for a random walk is that of its increments.
    new, b, count = (
        np.array([-1.5, 2.5, 3.0, 7.0, 8.0]),
        np.array([0.3, 1.0, -0.5, 2.0, 1.0]),
        40_000,
    )
    draws = {site: np.full(count, value) for site, value in sites.items()}
    draws |= {name: np.tile(b, (count, 1))}
    frame = pd.DataFrame({"t": new[::-1]})
    values = term.contribution(draws, frame, np.random.default_rng(0))[:, ::-1]
    # A start far in the past with a wide prior, for the level of the random walk.
    start = 1e6 if kind == "rw" else 0.0
    K, C = covariance(TIMES + start, TIMES + start), covariance(new + start, TIMES + start)
    gain = np.linalg.solve(K, C.T).T
    cov = covariance(new + start, new + start) - gain @ C.T
    error = np.sqrt(np.diag(cov) / count)
    assert np.all(np.abs(values.mean(axis=0) - gain @ b) < 4.0 * error + 1e-5)
    assert_allclose(np.cov(values.T), cov, atol=0.05 * np.diag(cov).max())
    with pytest.raises(ValueError, match="in row 0 that the data of"):
        term.columns(frame)


def test_smooth_is_an_integrated_brownian_motion():
    z = np.linspace(2.0, 5.0, 9)
    term, X = Smooth.fit("s(z)", ["z"], pd.DataFrame({"z": z}), 1.0, 20)
    root = root_of(term, {"sd(s(z))": 1.5})
    u = (z - 2.0) / 3.0
    low, high = np.minimum(u[:, None], u), np.maximum(u[:, None], u)
    # Wahba (1978): a line, and a deviation with this covariance.
    K = 12.0 * u[:, None] * u + 1.5**2 * low**2 * (3.0 * high - low) / 6.0
    center = np.eye(9) - 1.0 / 9.0
    # Nystrom features are exact at their landmarks up to the jitter of their Cholesky factor.
    assert_allclose(X @ root @ root.T @ X.T, center @ K @ center, atol=1e-5)


def test_smooth_continues_as_a_line():
    frame = pd.DataFrame({"z": np.linspace(2.0, 5.0, 9)})
    term, _ = Smooth.fit("s(z)", ["z"], frame, 1.0, 20)
    beyond = term.columns(pd.DataFrame({"z": [5.0, 6.0, 7.0, 1.0, 0.0, 2.0]}))
    assert_allclose(beyond[1] - beyond[0], beyond[2] - beyond[1], atol=1e-9)
    assert_allclose(beyond[5] - beyond[3], beyond[3] - beyond[4], atol=1e-9)


@pytest.mark.parametrize("kernel", ["RBF", "Matern32"])
def test_process_has_the_covariance_of_its_kernel(kernel):
    z = np.linspace(-4.0, 6.0, 12)
    frame = pd.DataFrame({"z": z})
    term, X = Process.fit("gp(z)", ["z"], frame, 1.0, getattr(kernels, kernel))
    root = root_of(term, {"sd(gp(z))": 1.5, "lengthscale(gp(z))": 2.0})
    exact = getattr(kernels, kernel)(lengthscale=2.0, variance=1.5**2)
    # Riutort-Mayol et al. (2023): frequencies enough for this length scale in the box.
    assert_allclose(X @ root @ root.T @ X.T, exact(z[:, None]), atol=0.01 * 1.5**2)


def test_scales_beyond_float64_have_no_density():
    model, marginal = built("slopes")
    draw = prior_draw(marginal, 3) | {"sigma": 1e-9, "sd(x | g)": 1e9}
    assert log_marginal(marginal, draw)[1] == -np.inf
    assert model.is_gaussian
