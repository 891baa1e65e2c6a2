"""Processes observed by means, integrals and derivatives, and predictions of these."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal

import bayeskern as bk
from bayeskern.kernels import RBF, Linear, Matern32, Matern52, Polynomial, White
from tests.marks import slow

NOISE = 0.04
START, END = np.array([0.0, 1.0, 0.5]), np.array([1.0, 3.0, 2.0])
POINTS, SLOPES = np.array([0.2, 2.5]), np.array([0.7, 1.4])
#: a value, an integral, and a slope of the features 1, x, x^2, by hand
ROWS = [POINTS, bk.Interval(START, END, kind="sum"), bk.Derivative(SLOPES)]
PHI = np.concatenate(
    [
        np.stack([np.ones(2), POINTS, POINTS**2], 1),
        np.stack([END - START, (END**2 - START**2) / 2.0, (END**3 - START**3) / 3.0], 1),
        np.stack([np.zeros(2), np.ones(2), 2.0 * SLOPES], 1),
    ]
)
Y = np.array([1.0, 0.5, 0.3, 2.0, -0.4, 0.9, -1.2])
#: (1 + x z)^2 has the features 1, sqrt(2) x, x^2
PRIOR = np.diag([1.0, 2.0, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["dense", slow("low_rank")])
def test_weight_space_by_hand(solver):
    """A Bayesian quadratic observed by values, integrals and slopes."""
    process = bk.GaussianProcess(Polynomial(2, 1.0), ROWS, NOISE, solver=solver)
    C = PHI @ PRIOR @ PHI.T + NOISE * np.eye(7)
    expected = multivariate_normal(np.zeros(7), C).logpdf(Y)
    np.testing.assert_allclose(process.log_prob(Y), expected, rtol=1e-11)
    posterior = np.linalg.inv(np.linalg.inv(PRIOR) + PHI.T @ PHI / NOISE)
    weights = posterior @ PHI.T @ Y / NOISE
    prediction = process.condition(Y).predict(ROWS, latent=True)
    np.testing.assert_allclose(prediction.mean, PHI @ weights, rtol=1e-10)
    variances = np.sum(PHI @ posterior * PHI, axis=1)
    np.testing.assert_allclose(prediction.variance, variances, rtol=1e-9)


@pytest.mark.slow
def test_predicted_means_are_means_of_predictions():
    """The mean of a process over an interval against a fine grid of joint predictions."""
    x = np.linspace(0.0, 6.0, 12)
    gp = bk.GaussianProcess(Matern52(1.5), x, NOISE, mean=2.0).condition(np.sin(x) + 2.0)
    a, b = np.array([0.5, 3.0]), np.array([2.0, 7.0])
    prediction = gp.predict(bk.Interval(a, b))
    # Simpson's rule.
    nodes = np.linspace(a, b, 201, axis=1)
    weights = np.r_[1.0, np.tile([4.0, 2.0], 99), 4.0, 1.0] / 600.0
    W = np.kron(np.eye(2), weights)
    grid = gp.predict(nodes.ravel(), latent=True)
    np.testing.assert_allclose(prediction.mean, W @ grid.mean, rtol=1e-8)
    covariance = W @ np.asarray(gp.covariance(nodes.ravel())) @ W.T
    np.testing.assert_allclose(prediction.variance, np.diagonal(covariance), rtol=1e-6)
    np.testing.assert_allclose(gp.covariance(bk.Interval(a, b)), covariance, rtol=1e-5)


def test_prior_means_of_rows():
    """Means, integrals and slopes of the prior mean 3 + x^2, and of a number."""
    process = bk.GaussianProcess(RBF(), ROWS, NOISE, mean=lambda x: 3.0 + x[0] ** 2)
    np.testing.assert_allclose(process.mean, PHI @ [3.0, 0.0, 1.0], rtol=1e-13)
    process = bk.GaussianProcess(RBF(), ROWS, NOISE, mean=3.0)
    np.testing.assert_allclose(process.mean, PHI @ [3.0, 0.0, 0.0], rtol=1e-13)


@pytest.mark.slow
def test_noise_belongs_to_the_kinds_of_rows_that_were_observed():
    gp = bk.GaussianProcess(RBF(), POINTS, NOISE).condition(Y[:2])
    interval = bk.Interval([0.0], [1.0])
    np.testing.assert_array_equal(
        gp.predict(interval).variance, gp.predict(interval, latent=True).variance
    )
    with_noise = gp.predict(interval, noise=0.5).variance
    np.testing.assert_allclose(with_noise, gp.predict(interval).variance + 0.5, rtol=1e-14)
    mixed = [POINTS, interval]
    added = gp.predict(mixed).variance - gp.predict(mixed, latent=True).variance
    np.testing.assert_allclose(added, [NOISE, NOISE, 0.0], atol=1e-14)
    gp = bk.GaussianProcess(RBF(), interval, NOISE).condition(Y[:1])
    added = gp.predict(mixed).variance - gp.predict(mixed, latent=True).variance
    np.testing.assert_allclose(added, [0.0, 0.0, NOISE], atol=1e-14)


def test_components_of_a_mean_add_up():
    kernel = Linear().named("trend") + RBF(0.5).named("wave")
    gp = bk.GaussianProcess(kernel, POINTS, NOISE).condition(Y[:2])
    prediction = gp.predict(bk.Interval(START, END))
    parts = [prediction.component(name).mean for name in ("trend", "wave")]
    np.testing.assert_allclose(sum(parts), prediction.mean, rtol=1e-12)


def regression():
    return bk.GPRegression(
        Matern32(dist.LogNormal(0.0, 0.5), dist.HalfNormal(2.0)),
        noise=bk.from_sd(dist.HalfNormal(0.5)),
    )


@pytest.fixture(scope="module")
def data():
    a = np.arange(0.0, 10.0, 0.5)
    X = [np.linspace(10.0, 12.0, 8), bk.Interval(a, a + 0.5)]
    process = bk.GaussianProcess(Matern32(1.0, 1.0), X, 0.01)
    return X, np.asarray(process.sample(jax.random.key(1)))


@pytest.mark.slow
def test_regression_agrees_with_the_process(data):
    """At fixed hyperparameters, `infer` and `predict` give the numbers of GaussianProcess."""
    X, y = data
    model = regression().at({"lengthscale": 1.0, "variance": 1.0, "noise": 0.01})
    posterior = bk.infer(model, X, y, method="exact", seed=0)
    gp = bk.GaussianProcess(Matern32(1.0, 1.0), X, 0.01).condition(y)
    new = [bk.Interval([2.25], [4.0]), np.array([3.0]), bk.Derivative([3.0])]
    ours, expected = posterior.predict(new), gp.predict(new)
    np.testing.assert_allclose(ours.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(ours.sd, expected.sd, rtol=1e-9)
    evidence = bk.GaussianProcess(Matern32(1.0, 1.0), X, 0.01).log_prob(y)
    np.testing.assert_allclose(posterior.log_evidence[0], evidence, rtol=1e-10)


@pytest.mark.slow
def test_a_saved_posterior_knows_its_rows(data, tmp_path):
    X, y = data
    # Without the Jacobian, the density of a variance by `from_sd` is unbounded at 0.
    posterior = bk.infer(regression(), X, y, method=bk.MAP(jacobian=True), seed=0)
    posterior.save(tmp_path / "posterior.nc")
    loaded = bk.load(tmp_path / "posterior.nc", model=regression())
    new = bk.Interval([2.25], [4.0])
    np.testing.assert_array_equal(loaded.predict(new).mean, posterior.predict(new).mean)


def test_rows_inside_a_traced_function():
    """Inside `jit`, known rows stay known, and traced intervals are not taken for slopes."""

    def log_prob(start, length):
        kernel, y = bk.kernels.Matern12(), jnp.array(Y[:3])
        known = bk.GaussianProcess(kernel, bk.Interval(START, END), NOISE).log_prob(y)
        traced = bk.GaussianProcess(kernel, bk.Interval(start, start + length), NOISE)
        return known, traced.log_prob(y)

    known, traced = jax.jit(log_prob)(START, END - START)
    np.testing.assert_allclose(known, traced, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["dense", "markov"])
def test_prepared_solvers_inside_a_traced_function(solver):
    process = bk.GaussianProcess(Matern32(), ROWS, NOISE, solver=solver)

    def log_prob(lengthscale):
        kernel = Matern32(lengthscale)
        return bk.GaussianProcess(kernel, process.X, NOISE, solver=process.solver).log_prob(Y)

    np.testing.assert_allclose(jax.jit(log_prob)(1.0), process.log_prob(Y), rtol=1e-12)


@pytest.mark.slow
def test_gradients_of_the_evidence(data):
    X, y = data

    def log_prob(theta):
        ell, variance, noise = jnp.exp(theta)
        return bk.GaussianProcess(Matern32(ell, variance), X, noise).log_prob(y)

    theta, step = jnp.log(jnp.array([1.3, 0.8, 0.02])), 1e-4
    gradient = jax.grad(log_prob)(theta)
    for i in range(3):
        e = step * np.eye(3)[i]
        slope = (log_prob(theta + e) - log_prob(theta - e)) / (2.0 * step)
        np.testing.assert_allclose(gradient[i], slope, rtol=1e-5)
    hessian = jax.hessian(log_prob)(theta)
    for i in range(3):
        e = step * np.eye(3)[i]
        slopes = (jax.grad(log_prob)(theta + e) - jax.grad(log_prob)(theta - e)) / (2.0 * step)
        np.testing.assert_allclose(hessian[i], slopes, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.long
def test_full_inference_is_calibrated():
    """Simulation-based calibration with values, overlapping means and slopes: 100 data sets."""
    a = np.arange(0.0, 6.0, 0.75)
    X = [np.linspace(6.0, 9.0, 10), bk.Interval(a, a + 1.0), bk.Derivative([1.0, 7.0])]
    options = {"method": "importance", "simulations": 100, "seed": 0, "progress": False}
    result = bk.calibrate(regression(), X, np.zeros(20), **options)
    assert set(result.ranks) >= {"lengthscale", "variance", "noise"}
    assert result.verdict == "calibrated as far as 100 simulations can tell."


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: bk.Interval([0.0, 2.0], [1.0, 1.0]),
            "interval 1 ends at 1, before",
        ),
        (lambda: bk.Interval([1.0], [1.0], kind="sum"), "interval 0 has length 0"),
        (lambda: bk.Interval([0.0], [np.inf]), "end has 1 value that is NaN or infinite"),
        (lambda: bk.Interval([0.0, 1.0], [1.0]), "a start and an end for each"),
        (lambda: bk.Interval([0.0], [1.0], kind="median"), "kind='median' is not known"),
        (lambda: bk.Derivative([1.0], axis=1), r"columns \[1\]"),
        (lambda: bk.GaussianProcess(RBF(), np.ones((3, 2, 2)), NOISE), "must have shape"),
        (lambda: bk.GaussianProcess(RBF(), np.ones((3, 4, 2)), NOISE), "must have shape"),
        (
            lambda: bk.GaussianProcess(RBF(), [POINTS, bk.Derivative([[0.0, 1.0]])], NOISE),
            "the parts of X have 1, 2 columns",
        ),
        (
            lambda: bk.GaussianProcess(Matern32() + White(), ROWS[1], NOISE).condition(Y[:3]),
            "White.* has no mean over an interval",
        ),
    ],
)
def test_bad_rows_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_predictions_are_refused():
    gp = bk.GaussianProcess(bk.kernels.Matern12(), POINTS, NOISE).condition(Y[:2])
    with pytest.raises(ValueError, match=r"Matern12.* has no derivative"):
        gp.predict(bk.Derivative([0.0]))
    with pytest.raises(ValueError, match="X_new has 2 columns"):
        gp.predict(bk.Interval([[0.0, 1.0]], [[1.0, 1.0]]))


def test_a_latent_process_refuses_intervals():
    model = bk.LatentGP(RBF(), bk.likelihoods.Poisson())
    with pytest.raises(ValueError, match="observed at points, but X has intervals"):
        model.prepare(bk.Interval(START, END), np.array([1, 2, 3]))


def test_means_over_boxes_need_a_prior_mean_that_is_a_number():
    box = bk.Interval([[0.0, 0.0]], [[1.0, 2.0]])
    assert bk.GaussianProcess(RBF(lengthscale=[1.0, 1.0]), box, NOISE, mean=3.0).mean[0] == 3.0
    with pytest.raises(ValueError, match="mean is a function of a point"):
        bk.GaussianProcess(RBF(lengthscale=[1.0, 1.0]), box, NOISE, mean=lambda x: x[0] * x[1])


def test_inaccurate_quadrature_is_warned_about():
    kernel = bk.kernels.Brownian() * bk.kernels.Seasonal(period=1.0)
    # The start of the motion, a kink that the quadrature does not know, is inside the interval.
    with pytest.warns(UserWarning, match="nodes of quadrature leave an error"):
        process = bk.GaussianProcess(kernel, bk.Interval([-1.3, 0.2], [2.9, 4.1]), NOISE)
    assert "by quadrature" in repr(process.explain())


@pytest.mark.parametrize("rows", [slow(ROWS), ROWS[0]], ids=["measured", "points"])
def test_functions_of_measured_processes_are_plotted(rows):
    process = bk.GaussianProcess(Matern32(), rows, NOISE, mean=1.0)
    y = Y[: len(process.X)]
    assert process.plot_samples(n=2).axes[0].lines
    lines = process.condition(y).plot_samples(n=2).axes[0].lines
    (dots,) = [line for line in lines if line.get_label() == "observed"]
    # Integrals and slopes are not in the units of f, but an integral over a length of 1 is a mean.
    expected = POINTS if rows is ROWS[0] else [*POINTS, 0.5]
    np.testing.assert_array_equal(np.asarray(dots.get_xdata()), expected)


@pytest.mark.slow
def test_hand_written_models_predict_rows():
    """A model that observed values predicts means, and the other way round."""

    def model(X, y=None):
        ell = numpyro.sample("ell", dist.LogNormal(0.0, 0.1))
        numpyro.sample("y", bk.GaussianProcess(Matern32(ell), X, NOISE, mean=1.0), obs=y)

    x, interval = np.linspace(0.0, 3.0, 8), bk.Interval(START, END)
    for X, new in ((x, interval), ([x, interval], np.array([0.5, 1.5]))):
        y = np.sin(np.arange(8.0 if X is x else 11.0))
        posterior = bk.infer(model, X, y, method="map", seed=0, progress=False)
        ell = float(posterior.draws["ell"].item())
        gp = bk.GaussianProcess(Matern32(ell), X, NOISE, mean=1.0).condition(y)
        ours, expected = posterior.predict(new), gp.predict(new, noise=NOISE)
        np.testing.assert_allclose(ours.mean, expected.mean, rtol=1e-8)
        np.testing.assert_allclose(ours.sd, expected.sd, rtol=1e-8)


def test_an_interval_of_length_0_is_a_value():
    x = np.array([0.3, 1.0])
    process = bk.GaussianProcess(RBF(), bk.Interval(x, x), NOISE)
    np.testing.assert_allclose(
        process.covariance_matrix, bk.GaussianProcess(RBF(), x, NOISE).covariance_matrix
    )
