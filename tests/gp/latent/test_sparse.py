"""Sparse Gaussian processes: the bound of Titsias, minibatches, and what they predict."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm, poisson

import bayeskern as bk
from bayeskern import likelihoods
from bayeskern.gp.latent.sparse import ExpectedLogLikelihood
from bayeskern.kernels import RBF
from tests.marks import slow

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-3.0, 3.0, 60))
NOISE = 0.09
Y = np.sin(2.0 * X) + np.sqrt(NOISE) * rng.normal(size=60)
KERNEL = RBF(0.8)
NEW = np.linspace(-3.5, 3.5, 9)


def k(x, z):
    return np.exp(-0.5 * np.square((x[:, None] - z) / 0.8))


def fit(model, *data, method="laplace", **options):
    return bk.infer(model, *data, method=method, progress=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize("Z", [np.linspace(-3, 3, 5), slow(np.linspace(-3, 3, 9))])
def test_log_evidence_is_the_titsias_bound(Z):
    Q = k(X, Z) @ np.linalg.solve(k(Z, Z), k(Z, X))
    bound = multivariate_normal(np.zeros(60), Q + NOISE * np.eye(60)).logpdf(Y)
    bound -= 0.5 * np.sum(1.0 - np.diag(Q)) / NOISE
    exact = bk.GaussianProcess(KERNEL, X, NOISE).log_prob(Y)
    # The posterior of u is Gaussian, so that Laplace's evidence is exact.
    found = fit(bk.SparseGP(KERNEL, likelihoods.Gaussian(NOISE), inducing=Z), X, Y)
    np.testing.assert_allclose(found.log_evidence.value, bound, rtol=1e-6)
    assert found.log_evidence.value < exact


@pytest.mark.slow
def test_many_inducing_points_predict_as_the_exact_process():
    model = bk.SparseGP(KERNEL, likelihoods.Gaussian(NOISE), inducing=25)
    posterior = fit(model, X, Y)
    exact = bk.GaussianProcess(KERNEL, X, NOISE)
    np.testing.assert_allclose(posterior.log_evidence.value, exact.log_prob(Y), atol=1e-3)
    wanted, found = exact.condition(Y).predict(NEW, True), posterior.predict(NEW, latent=True)
    # From a thousand draws of u.
    assert np.abs((found.mean - wanted.mean) / wanted.sd).max() < 5.0 / np.sqrt(1000)
    np.testing.assert_allclose(found.sd, wanted.sd, rtol=5.0 / np.sqrt(2000))


@pytest.mark.slow
def test_minibatches_reach_the_elbo_of_all_rows():
    rng = np.random.default_rng(1)
    x = rng.uniform(-3.0, 3.0, 1000)
    y = np.sin(2.0 * x) + np.sqrt(NOISE) * rng.normal(size=1000)
    model = bk.SparseGP(KERNEL, likelihoods.Gaussian(NOISE), inducing=np.linspace(-3, 3, 8))
    batched = bk.SparseGP(
        KERNEL, likelihoods.Gaussian(NOISE), inducing=np.linspace(-3, 3, 8), batch=100
    )
    evidence = fit(model, x, y).log_evidence.value
    posterior = fit(batched, x, y, method=bk.SVI("full_rank"))
    assert evidence - 2.0 < posterior.elbo.value < evidence + 3.0 * posterior.elbo.error


@pytest.mark.slow
def test_hyperparameters_agree_with_the_exact_process():
    kernel = RBF(dist.LogNormal(0.0, 1.0), variance=dist.HalfNormal(2.0))
    model = bk.SparseGP(kernel, likelihoods.Gaussian(bk.from_sd(dist.HalfNormal(1.0))), inducing=20)
    sparse = fit(model, X, Y, method="map")
    whole = fit(bk.GPRegression(kernel, bk.from_sd(dist.HalfNormal(1.0))), X, Y)
    for mine, theirs in (("lengthscale", "lengthscale"), ("likelihood.noise", "noise")):
        draws = whole.flat[theirs]
        assert abs(sparse.draws[mine].item() - draws.mean()) < 3.0 * draws.std()


def averaged(likelihood, mean, variance, **extra):
    arrays = {name: jnp.asarray([value]) for name, value in extra.items()}
    return ExpectedLogLikelihood(likelihood, jnp.array([[mean]]), jnp.array([[[variance]]]), arrays)


@pytest.mark.parametrize("variance", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_expected_log_density_of_a_class_against_quadrature(variance, y):
    sd = np.sqrt(variance)

    def integrand(f):
        return norm(0.3, sd).pdf(f) * -np.logaddexp(0.0, -f if y else f)

    wanted = quad(integrand, 0.3 - 10 * sd, 0.3 + 10 * sd, epsabs=1e-12)[0]
    found = averaged(likelihoods.Bernoulli(), 0.3, variance).log_prob(jnp.array([y]))
    np.testing.assert_allclose(found[0], wanted, rtol=1e-7)


@pytest.mark.slow
def test_expected_log_density_of_a_count_in_closed_form():
    mean, variance, y, exposure = 0.4, 0.3, 5.0, 2.0
    rate = np.log(exposure) + mean
    wanted = y * rate - exposure * np.exp(mean + variance / 2) - np.log(120.0)
    own = averaged(likelihoods.Poisson(), mean, variance, exposure=exposure)
    np.testing.assert_allclose(own.log_prob(jnp.array([y]))[0], wanted, rtol=1e-10)
    draws = np.asarray(own.sample(jax.random.key(0), (200_000,)))
    expected = exposure * np.exp(mean + variance / 2)
    assert abs(draws.mean() - expected) < 5.0 * draws.std() / np.sqrt(200_000)
    assert draws.var() > 1.2 * poisson(expected).var()


@pytest.mark.slow
def test_prior_predictive_draws_all_rows():
    model = bk.SparseGP(KERNEL, likelihoods.Gaussian(NOISE), inducing=8, batch=10)
    draws = model.prior_predictive(X, draws=4000, seed=1).draws
    assert draws.shape == (4000, 60)
    # What the inducing points leave open is drawn too, point by point.
    np.testing.assert_allclose(draws.var(axis=0), 1.0 + NOISE, rtol=0.15)


@pytest.mark.slow
def test_binomial_shares_are_predicted():
    rng = np.random.default_rng(1)
    x = rng.uniform(-3.0, 3.0, 200)
    trials = rng.integers(20, 60, 200)
    y = rng.binomial(trials, norm.cdf(np.sin(2.0 * x)))
    model = bk.SparseGP(KERNEL, likelihoods.Binomial(), inducing=15)
    posterior = bk.infer(model, x, y, trials=trials, method="laplace", progress=False)
    found, shares = posterior.predict(NEW[1:-1], trials=40), norm.cdf(np.sin(2.0 * NEW[1:-1]))
    assert np.abs(found.mean / 40.0 - shares).max() < 0.05
    sd = np.sqrt(40.0 * shares * (1.0 - shares))
    assert np.all(found.sd > 0.9 * sd) and np.all(found.sd < 1.3 * sd)
    assert np.abs(posterior.predict(NEW[1:-1], latent=True).mean).max() < 2.0
    with pytest.raises(ValueError, match="Binomial needs trials"):
        posterior.predict(NEW)


@pytest.mark.slow
def test_inducing_points_of_a_data_frame_are_matched_by_name(tmp_path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": 10.0 * rng.normal(size=60)})
    y = np.sin(frame["a"].to_numpy())
    places = frame[:12]
    kernel = RBF(np.array([1.0, 20.0]))

    def model(inducing):
        return bk.SparseGP(kernel, likelihoods.Gaussian(NOISE), inducing=inducing)

    wanted = fit(model(places.to_numpy()), frame, y)
    found = fit(model(places[["b", "a"]]), frame, y)
    np.testing.assert_allclose(found.log_evidence.value, wanted.log_evidence.value, rtol=1e-10)
    found.save(tmp_path / "sparse.nc")
    loaded = bk.load(tmp_path / "sparse.nc", model=model(places[["b", "a"]]))
    mean = wanted.predict(frame[:5]).mean
    np.testing.assert_allclose(loaded.predict(frame[["b", "a"]][:5]).mean, mean, atol=1e-8)
    with pytest.raises(ValueError, match="inducing has no column 'b'"):
        fit(model(places[["a"]]), frame, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inducing": np.zeros((3, 2))}, "inducing has 2 columns but X has 1"),
        ({"inducing": 0}, "inducing must be a whole number of at least 1"),
        ({"inducing": np.array([0.0, np.nan])}, "inducing has 1 value that is NaN"),
        ({"batch": 0}, "batch must be a whole number of at least 1"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fit(bk.SparseGP(KERNEL, likelihoods.Gaussian(NOISE), **options), X, Y)


@pytest.mark.slow
def test_numpyro_initializes_the_unprepared_model():
    model = bk.SparseGP(RBF(dist.LogNormal(0.0, 1.0)), likelihoods.Gaussian(NOISE), inducing=8)
    start = numpyro.infer.util.initialize_model(jax.random.key(0), model, model_args=(X, Y))
    prepared, data = model.prepare(X, Y)
    z = start.param_info.z
    values = {"lengthscale": jnp.exp(z["lengthscale"]), "white": z["white"]}
    density = numpyro.infer.util.log_density(prepared, data, {}, values)[0]
    potential = jax.jit(start.potential_fn)(z)
    np.testing.assert_allclose(-potential, density + z["lengthscale"], rtol=1e-10)


def test_other_solvers_are_refused():
    model = bk.SparseGP(RBF(), likelihoods.Poisson(), inducing=5, solver="markov")
    with pytest.raises(ValueError, match="covariance of its inducing points"):
        model.prepare(np.arange(20.0), np.zeros(20))
