"""The Bayesian network of the gallery: symmetries, prior, and predictions."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit, logsumexp

import bayeskern as bk
from bayeskern.inference.model.target import Target
from models import bayesian_network
from models.bayesian_network import HIDDEN, OMEGA, linearised
from tests.marks import slow

FLOWERS, CURVE = bayesian_network.data(), bayesian_network.curve_data()
NEW_CURVE = bayesian_network.curve_data(seed=1)
# Every second flower is held out.
EVEN = np.arange(100) % 2 == 0
METHODS = {
    "laplace": bk.Laplace(hessian="gauss_newton"),
    "svi": bk.SVI(),
    "nuts": bk.NUTS(warmup=500, draws=500),
}


# -- symmetries ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "data"),
    [slow(bayesian_network.model, FLOWERS), (bayesian_network.curve_model, CURVE)],
)
def test_density_is_invariant_to_hidden_unit_symmetries(model, data):
    target, rng = Target.from_model(model, data, {}), np.random.default_rng(0)
    z = jnp.asarray(rng.normal(size=target.size))
    order, sign = rng.permutation(HIDDEN), np.where(np.arange(HIDDEN) % 2, 1.0, -1.0)
    moved = target.unravel(z)
    moved |= {site: (sign * moved[site])[..., order] for site in ("u", "b", "v")}
    density = jax.jit(lambda z: (target.log_density(z), target.constrain(z)["f"]))
    (here, f), (there, f_moved) = density(z), density(target.ravel(moved))
    np.testing.assert_allclose(f_moved, f, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(there, here, rtol=1e-12)
    # Other changes change the density.
    moved["v"] = moved["v"][::-1]
    assert abs(density(target.ravel(moved))[0] - here) > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [2, 50])
def test_prior_on_functions_is_independent_of_width(monkeypatch, hidden):
    monkeypatch.setattr(bayesian_network, "HIDDEN", hidden)
    X = jnp.array([[0.3], [-2.0]])

    @jax.jit
    @jax.vmap
    def draw(key):
        return numpyro.handlers.seed(bayesian_network.network, key)(X)

    f = np.asarray(draw(jax.random.split(jax.random.key(0), 20_000)))
    # The intercept a has variance 1, each product OMEGA^2 / H times that of tanh.
    for x, drawn in zip(X[:, 0], f.T, strict=True):
        inside = stats.norm(0.0, 2.0 * np.sqrt(1.0 + x**2))
        square = quad(lambda t, inside=inside: np.tanh(t) ** 2 * inside.pdf(t), -30.0, 30.0)[0]
        # Five standard errors, for a kurtosis below 6.
        error = 5.0 * np.sqrt(5.0 / 20_000)
        np.testing.assert_allclose(drawn.var(), 1.0 + OMEGA**2 * square, rtol=error)


# -- methods compared by their predictions ---------------------------------------------------------


@cache
def fit(name, method):
    model = getattr(bayesian_network, name)
    data = CURVE if name == "curve_model" else (FLOWERS[0][EVEN], FLOWERS[1][EVEN])
    return bk.infer(model, *data, method=METHODS[method], seed=0, progress=False)


def functions(posterior, X):
    """Draws of f at X: (S, n)."""
    if posterior.method == "laplace":
        return linearised(posterior, X)
    return posterior.deterministics(X)["f"]


def held_out(log_probs):
    """The mean log density of new values, from log_probs (S, n) at draws."""
    return np.mean(logsumexp(log_probs, axis=0) - np.log(len(log_probs)))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "svi", pytest.param("nuts", marks=pytest.mark.long)])
def test_methods_find_the_curve(method):
    posterior, (x, y) = fit("curve_model", method), NEW_CURVE
    f, noise = functions(posterior, x), posterior.flat["noise"][:, None]
    score = held_out(stats.norm.logpdf(y, f, noise))
    # The true curve and noise have the best expected score.
    truth = np.mean(stats.norm.logpdf(y, bayesian_network.curve(x), 0.1))
    assert truth - 0.15 < score < truth + 0.05
    inside = np.abs(x) < 2.0
    np.testing.assert_allclose(f.mean(axis=0)[inside], bayesian_network.curve(x)[inside], atol=0.15)
    np.testing.assert_allclose(noise.mean(), 0.1, rtol=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "svi"])
def test_classification_matches_nuts(method):
    X, y = FLOWERS[0][~EVEN], FLOWERS[1][~EVEN]
    chance, other = (expit(functions(fit("model", m), X)).mean(axis=0) for m in (method, "nuts"))
    assert np.max(np.abs(chance - other)) < 0.2
    scores = [np.mean(np.log(np.where(y, p, 1.0 - p))) for p in (chance, other)]
    assert abs(scores[0] - scores[1]) < 0.05
    # Good classifiers err on 4 to 7 of 100.
    assert np.sum((chance > 0.5) != y) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "svi"])
def test_single_mode_of_many_has_a_bad_verdict(method):
    trust = fit("curve_model", method).trust
    assert trust.verdict == "bad" and "modes that a search found" in trust.advice
