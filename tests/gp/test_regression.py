"""The regression model: its sites, and predictions that are averages over draws."""

import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from scipy.stats import multivariate_normal, norm

import bayeskern as bk
from bayeskern.kernels import RBF, Linear, Matern12, Matern32, Periodic, White
from bayeskern.prediction.mixture import thin
from tests.gp.gp_by_hand import NOISE, data, posterior, rbf
from tests.marks import few

MODEL = bk.GPRegression(
    Linear(variance=dist.HalfNormal(1.0)).named("trend")
    + RBF(lengthscale=dist.LogNormal(0.0, 1.0), variance=bk.Free(1.2)).named("wave"),
    noise=bk.from_sd(dist.HalfNormal(0.5)),
    mean=dist.Normal(0.0, 2.0),
)
DRAWS = {
    "trend.variance": np.array([0.1, 0.5, 1.5]),
    "wave.lengthscale": np.array([0.3, 0.8, 2.0]),
    "wave.variance": np.array([0.5, 1.0, 3.0]),
    "noise": np.array([0.02, 0.1, 0.4]),
    "mean": np.array([-1.0, 0.0, 4.0]),
}


def by_hand(X, y, X_new, s):
    """Mean and covariance of the whole function and of its parts, for the s-th of DRAWS."""
    v, ell, w, noise, m = (values[s] for values in DRAWS.values())

    def trend(A, B):
        return v * A @ B.T

    def wave(A, B):
        return rbf(A, B, ell, w)

    def whole(A, B):
        return trend(A, B) + wave(A, B)

    K = whole(X, X)
    found = {}
    for name, k in {"": whole, "trend": trend, "wave": wave}.items():
        mean, covariance = posterior(K, k(X, X_new), k(X_new, X_new), y - m, noise)
        found[name] = mean if name else mean + m, covariance
    return found, noise


def test_model_has_named_sites_and_the_right_density():
    X, y = data(n=9)
    values = {name: draws[1] for name, draws in DRAWS.items()}
    trace = handlers.trace(handlers.substitute(MODEL, values)).get_trace(X, y)
    kinds = {name: (site["type"], site.get("is_observed")) for name, site in trace.items()}
    assert kinds == {
        "trend.variance": ("sample", False),
        "wave.lengthscale": ("sample", False),
        "wave.variance": ("param", None),
        "noise": ("sample", False),
        "mean": ("sample", False),
        "y": ("sample", True),
    }
    K = 0.5 * X @ X.T + rbf(X, X, 0.8, 1.0) + 0.1 * np.eye(9)
    expected = multivariate_normal(np.zeros(9), K).logpdf(y)
    np.testing.assert_allclose(trace["y"]["fn"].log_prob(y), expected, rtol=1e-10)
    assert set(handlers.trace(handlers.seed(MODEL, 0)).get_trace(X)) == set(kinds)
    # The prior of a variance whose root is HalfNormal(0.5): its density at 0.1 by substitution.
    at = 2 * norm(0, 0.5).pdf(np.sqrt(0.1)) / (2 * np.sqrt(0.1))
    np.testing.assert_allclose(trace["noise"]["fn"].log_prob(0.1), np.log(at), rtol=1e-10)


@pytest.mark.parametrize("latent", few([False, True], False))
def test_prediction_is_the_mixture_over_draws(latent):
    X, y = data(n=9)
    X_new = np.linspace(-1, 6, 7)[:, None]
    _, prepared = MODEL.prepare(X, y)
    prediction = MODEL.predictive(DRAWS, prepared, X_new, latent=latent)
    each = [by_hand(X, y, X_new, s) for s in range(3)]
    for name in ("", "trend", "wave"):
        found = prediction.component(name) if name else prediction
        means = np.array([parts[name][0] for parts, _ in each])
        variances = np.array([np.diag(parts[name][1]) for parts, _ in each])
        if not name and not latent:
            variances = variances + np.array([noise for _, noise in each])[:, None]
        mean = means.mean(0)
        second_moment = (variances + means**2).mean(0)
        np.testing.assert_allclose(found.mean, mean, atol=1e-9)
        np.testing.assert_allclose(found.variance, second_moment - mean**2, atol=1e-9)
    assert prediction.components == ("trend", "wave")


def test_predictions_average_200_draws_evenly_spaced_in_rank():
    X, y = data(n=4)
    model = bk.GPRegression(RBF(), noise=dist.HalfNormal(), mean=0.0)
    noises = np.random.default_rng(0).uniform(0.01, 1.0, 450)
    found = model.predictive(thin({"noise": noises}), model.prepare(X, y)[1], [0.5, 1.5])
    K, cross = rbf(X, X), rbf(X, np.array([[0.5], [1.5]]))

    def average(noises):
        return np.mean([cross.T @ np.linalg.solve(K + s * np.eye(4), y) for s in noises], axis=0)

    used = np.sort(noises)[((np.arange(200) + 0.5) * 450 / 200).astype(int)]
    np.testing.assert_allclose(found.mean, average(used), atol=1e-10)
    # Which is closer to the average of all than as many draws in the order in which they came.
    by_order = noises[np.linspace(0, 449, 200).round().astype(int)]
    error = np.abs(average(used) - average(noises)).max()
    assert 1e-8 < error < 0.3 * np.abs(average(by_order) - average(noises)).max()


@pytest.mark.slow
def test_joint_draws_have_mixture_moments():
    X, y = data(n=5)
    X_new = np.array([[0.3], [5.0]])
    _, prepared = MODEL.prepare(X, y)
    prediction = MODEL.predictive(DRAWS, prepared, X_new)
    N = 15_000
    draws = prediction.sample(N, seed=0)
    assert draws.shape == (N, 2)
    each = [by_hand(X, y, X_new, s) for s in range(3)]
    means = np.array([parts[""][0] for parts, _ in each])
    inside = np.mean([parts[""][1] + noise * np.eye(2) for parts, noise in each], axis=0)
    covariance = inside + np.cov(means.T, bias=True)
    scale = np.sqrt(np.diag(covariance))
    # Draws are stratified over the mixture, so these errors are upper bounds, but for the fourth
    # moments of the mixture: kurtosis 3 makes sqrt(2 / N), and six of those are allowed.
    np.testing.assert_array_less(np.abs(draws.mean(0) - means.mean(0)), 5 * scale / np.sqrt(N))
    bound = 6 * np.sqrt(2 / N) * np.outer(scale, scale)
    np.testing.assert_array_less(np.abs(np.cov(draws.T) - covariance), bound)
    wave = prediction.component("wave").sample(N, seed=0)
    means = np.array([parts["wave"][0] for parts, _ in each])
    inside = np.mean([np.diag(parts["wave"][1]) for parts, _ in each], axis=0)
    sd = np.sqrt(inside + means.var(0))
    np.testing.assert_array_less(np.abs(wave.mean(0) - means.mean(0)), 5 * sd / np.sqrt(N))


@pytest.mark.slow
def test_joint_draws_are_stratified_over_hyperparameters():
    # Two chains that disagree: half of any number of draws must come from each.
    X, y = data(n=4)
    model = bk.GPRegression(RBF(variance=1e-6), noise=1e-2, mean=dist.Normal(0.0, 100.0))
    levels = np.repeat([-50.0, 50.0], 60)
    prediction = model.predictive({"mean": levels}, model.prepare(X, y)[1], [0.5])
    for n in (2, 20, 100, 301):
        draws = prediction.sample(n, seed=1)[:, 0]
        assert abs(np.sum(draws > 0) - n / 2) <= 1
    # In random order, so that the first few are from both as well (2 x 0.5^20 to fail).
    assert 0 < np.sum(prediction.sample(100, seed=1)[:20] > 0) < 20


def test_prediction_without_inferred_hyperparameters():
    X, y = data(n=6)
    model = bk.GPRegression(RBF(), noise=NOISE)
    found = model.predictive({}, model.prepare(X, y)[1], [0.5, 9.0])
    X_new = np.array([[0.5], [9.0]])
    mean, covariance = posterior(rbf(X, X), rbf(X, X_new), rbf(X_new, X_new), y, NOISE)
    np.testing.assert_allclose(found.mean, mean, atol=1e-10)
    np.testing.assert_allclose(found.variance, np.diag(covariance) + NOISE, atol=1e-10)
    assert found.sample(3).shape == (3, 2)


def test_failed_factorization_of_a_draw_is_reported():
    X = np.zeros(3)
    model = bk.GPRegression(RBF(), noise=dist.HalfNormal())
    prepared = model.prepare(X, np.arange(3.0))[1]
    broken = model.predictive({"noise": np.array([0.1, np.nan])}, prepared, [0.0])
    with pytest.raises(FloatingPointError, match="NaN.*posterior.trust"):
        _ = broken.sd


def test_noise_and_mean_given_per_point_are_unknown_elsewhere():
    # As many new points as old ones: the values at the old ones must not be taken for them.
    X, y = data(n=4)
    noisy = bk.GPRegression(RBF(), noise=dist.HalfNormal().expand([4]))
    prepared, draws = noisy.prepare(X, y)[1], {"noise": np.full((2, 4), 0.1)}
    with pytest.raises(ValueError, match="training noise differs"):
        _ = noisy.predictive(draws, prepared, X + 1.0).sd
    K, cross = rbf(X, X) + 0.1 * np.eye(4), rbf(X, X + 1.0)
    found = noisy.predictive(draws, prepared, X + 1.0, latent=True).mean
    np.testing.assert_allclose(found, cross.T @ np.linalg.solve(K, y), atol=1e-10)
    shifted = bk.GPRegression(RBF(), noise=dist.HalfNormal(), mean=np.arange(4.0))
    with pytest.raises(ValueError, match="prior mean was given as an array"):
        _ = shifted.predictive({"noise": np.ones(2)}, prepared, X + 1.0).mean


@pytest.mark.slow
def test_harmonics_of_a_periodic_kernel_cover_its_prior():
    rng = np.random.default_rng(0)
    t, y = rng.uniform(0.0, 8.0, 60), rng.normal(size=60)
    season = Periodic(1.0, dist.Uniform(1.5, 3.0)) * Matern12(dist.LogNormal(2.0, 0.5))
    kernel = season.named("season") + Linear(0.1).named("trend") + White(0.1)
    draws = {
        "season.periodic.lengthscale": np.array([1.6, 2.5]),
        "season.matern12.lengthscale": np.array([5.0, 9.0]),
        "noise": np.array([0.2, 0.5]),
    }
    found = {}
    for solver in ("markov", "dense"):
        model = bk.GPRegression(kernel, dist.HalfNormal(1.0), solver=solver)
        prepared, data = model.prepare(t, y)
        prediction = prepared.predictive(draws, data, np.linspace(-0.5, 80.0, 15))
        found[solver] = [prediction.mean, prediction.sd, prediction.component("season").sd]
        first = {name: values[0] for name, values in draws.items()}
        found[solver] += list(prepared.at(first).condition(*data).loo())
        if solver == "markov":
            assert prepared.prepared.harmonics == (8,)
            # A lengthscale that the prior does not have.
            first["season.periodic.lengthscale"] = 0.3
            with pytest.raises(ValueError, match="needs more harmonics"):
                prepared.at(first).condition(*data)
    for ours, theirs in zip(found["markov"], found["dense"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


def test_solver_is_chosen_for_the_inputs_and_restored():
    t = np.random.default_rng(0).uniform(0.0, 30.0, 300)
    model = bk.GPRegression(Matern32(dist.LogNormal()), dist.HalfNormal())
    prepared, data = model.prepare(t, np.sin(t))
    assert prepared.prepared.name == model.restore(data, None, None)[0].prepared.name == "markov"
    with pytest.raises(ValueError, match="solver='kalman'"):
        bk.GPRegression(Matern32(), 0.1, solver="kalman")
