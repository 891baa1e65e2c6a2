"""Models that integrate latents out, and the recovery of these latents."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import bayeskern as bk
from bayeskern.protocols import ClosedForm, Marginal, NoClosedFormError

rng = np.random.default_rng(0)
Y = rng.normal(1.5, 2.0, 30)


class Level(eqx.Module):
    """y_i ~ N(mu, s^2), mu ~ N(0, 3^2), s ~ HalfNormal(5) or a number; mu can be integrated out."""

    s: float | None = None

    def __call__(self, y):
        s = numpyro.sample("s", dist.HalfNormal(5.0)) if self.s is None else self.s
        mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
        numpyro.sample("y", dist.Normal(mu, s), obs=y)

    def given(self, y, s):
        precision = 1 / 9.0 + len(y) / s**2
        return jnp.sum(y) / s**2 / precision, precision**-0.5

    def marginal(self, y) -> Marginal:
        def integrated(y):
            s = numpyro.sample("s", dist.HalfNormal(5.0)) if self.s is None else self.s
            n, mean = len(y), jnp.mean(y)
            level = dist.Normal(0.0, jnp.sqrt(9.0 + s**2 / n)).log_prob(mean)
            around = -0.5 * jnp.sum((y - mean) ** 2) / s**2 - (n - 1) * jnp.log(s)
            constant = -0.5 * (n - 1) * jnp.log(2 * jnp.pi) - 0.5 * jnp.log(n)
            numpyro.factor("y", level + around + constant)

        def recover(draws, key, mean):
            mu, sd = self.given(y, draws["s"] if self.s is None else jnp.full(1, self.s))
            noise = 0.0 if mean else jax.random.normal(key, mu.shape)
            return {**draws, "mu": mu + sd * noise}

        return Marginal(integrated, (y,), recover)

    def exact(self, y) -> ClosedForm:
        if self.s is None:
            raise NoClosedFormError("s is to be inferred.")
        mu, sd = self.given(y, self.s)
        K = 9.0 * np.ones((len(y), len(y))) + self.s**2 * np.eye(len(y))
        evidence = float(dist.MultivariateNormal(jnp.zeros(len(y)), K).log_prob(y))
        return ClosedForm(lambda key, n: {"mu": mu + sd * jax.random.normal(key, (n,))}, evidence)


def fit(model, method):
    return bk.infer(model, jnp.asarray(Y), method=method, progress=False)


def truth():
    """Mean and sd of mu and the log evidence, by quadrature over s."""

    def weight(s):
        precision = 1 / 9.0 + len(Y) / s**2
        quadratic = np.sum(Y**2) / s**2 - (np.sum(Y) / s**2) ** 2 / precision
        logdet = 2 * len(Y) * np.log(s) + np.log(9.0 * precision)
        log = -0.5 * (quadratic + logdet + len(Y) * np.log(2 * np.pi))
        return np.exp(log + 70.0) * 2.0 * norm(0, 5).pdf(s)

    def average(f):
        return quad(lambda s: f(s) * weight(s), 0.5, 8.0, epsabs=0.0, epsrel=1e-10)[0]

    total = average(lambda s: 1.0)

    def precision(s):
        return 1 / 9.0 + len(Y) / s**2

    mean = average(lambda s: np.sum(Y) / s**2 / precision(s)) / total
    square = average(lambda s: 1 / precision(s) + (np.sum(Y) / s**2 / precision(s)) ** 2) / total
    return mean, np.sqrt(square - mean**2), np.log(total) - 70.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["laplace", "nuts", "svi", "importance", "pathfinder", "smc", "auto"]
)
def test_integrated_latents_are_recovered(method):
    posterior = fit(Level(), method)
    mean, sd, evidence = truth()
    mu = posterior.flat["mu"]
    assert abs(mu.mean() - mean) < 5.0 * sd / np.sqrt(1000)
    np.testing.assert_allclose(mu.std(), sd, rtol=0.1)
    assert list(posterior.draws) == ["s", "mu"]
    # Only s was searched for.
    assert posterior.z.shape[-1] == 1 and posterior.fitted_draws.keys() == {"s"}
    assert posterior.trust.verdict == "good"
    if posterior.log_evidence is not None:
        assert abs(posterior.log_evidence.value - evidence) < 0.05


@pytest.mark.slow
def test_point_estimate_recovers_the_conditional_mean():
    posterior = fit(Level(), "map")
    s = posterior.draws["s"].item()
    np.testing.assert_allclose(posterior.draws["mu"].item(), Level().given(Y, s)[0], rtol=1e-10)


@pytest.mark.slow
def test_weighted_draws_have_every_site():
    posterior = fit(Level(), "importance")
    draws, log_weights = posterior.weighted
    assert draws.keys() == posterior.draws.keys() and len(draws["mu"]) == len(log_weights)
    mean, sd, _ = truth()
    average = np.sum(np.exp(log_weights) * draws["mu"])
    assert abs(average - mean) < 5.0 * sd / np.sqrt(2000)


@pytest.mark.slow
def test_seed_determines_recovered_latents():
    first, again = (fit(Level(), "laplace").flat["mu"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = bk.infer(Level(), jnp.asarray(Y), method="laplace", seed=1, progress=False)
    assert not np.array_equal(first, other.flat["mu"])


@pytest.mark.parametrize("method", ["laplace", "nuts", "exact", "auto", "importance"])
def test_fully_integrated_models_are_exact(method):
    posterior = fit(Level(2.0), method)
    mu, sd = Level(2.0).given(Y, 2.0)
    assert posterior.method == "exact" and posterior.trust.verdict == "good"
    assert abs(posterior.flat["mu"].mean() - mu) < 5.0 * sd / np.sqrt(4000)


class InAnotherForm(Level):
    """A model that offers every method its form with a known s."""

    def for_method(self, name, samples_latents, uses_priors):
        return Level(2.0)


@pytest.mark.parametrize("method", ["nuts", "map"])
def test_posterior_is_of_the_fitted_form(method):
    posterior = fit(InAnotherForm(), method)
    assert posterior.target.model.s == 2.0 and list(posterior.draws) == ["mu"]


@pytest.mark.parametrize("method", ["map", "mle"])
def test_point_estimate_of_a_fully_integrated_model_is_the_mode(method):
    posterior = fit(Level(2.0), method)
    np.testing.assert_allclose(posterior.draws["mu"].item(), Level().given(Y, 2.0)[0], rtol=1e-10)
    assert posterior.is_point and posterior.trust.verdict == "not assessable"


@pytest.mark.slow
def test_arviz_and_files_hold_the_full_model(tmp_path):
    posterior = fit(Level(), "nuts")
    tree = posterior.to_arviz()
    assert {"s", "mu"} == set(tree.posterior.data_vars)
    assert tree.log_likelihood["y"].shape[-1] == len(Y)
    posterior.save(tmp_path / "level.nc")
    loaded = bk.load(tmp_path / "level.nc", model=Level())
    np.testing.assert_array_equal(loaded.draws["mu"], posterior.draws["mu"])
    assert loaded.trust.verdict == posterior.trust.verdict
