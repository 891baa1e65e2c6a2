"""Gaussian process regression as a scikit-learn estimator."""

import pickle
import re

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayeskern as bk
from bayeskern.kernels import (
    RBF,
    Constant,
    Custom,
    Free,
    Linear,
    Matern32,
    RationalQuadratic,
    White,
)
from tests.compilations import compilations

RNG = np.random.default_rng(5)
N = 24
X, NEW = RNG.uniform(0.0, 5.0, (N, 2)), RNG.uniform(0.0, 5.0, (7, 2))
y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RNG.normal(size=N)
Y = np.column_stack([y, np.cos(X[:, 1])])
VARIANCES = RNG.uniform(0.01, 0.2, N)

# Estimators with the same numbers: ours, the kernel and alpha of scikit-learn's, and targets.
TWINS = [
    pytest.param(*twin, id=name)
    for name, twin in {
        "constant * rbf": (
            bk.GPRegressor(RBF(1.3, variance=2.0), noise=0.05),
            sk.ConstantKernel(2.0) * sk.RBF(1.3),
            0.05,
            y,
        ),
        "two outputs": (bk.GPRegressor(RBF(1.3), noise=0.05), sk.RBF(1.3), 0.05, Y),
        "alpha of each row": (
            bk.GPRegressor(2.0 * Matern32(0.8), noise=VARIANCES),
            2.0 * sk.Matern(0.8, nu=1.5),
            VARIANCES,
            y,
        ),
        "white kernel, two outputs": (
            bk.GPRegressor(RBF() + White(0.1), noise=0.0),
            sk.RBF() + sk.WhiteKernel(0.1),
            0.0,
            Y,
        ),
        "other kernels": (
            bk.GPRegressor(RationalQuadratic(2.0, alpha=0.5) + (Linear() + 9.0) ** 2, noise=0.1),
            sk.RationalQuadratic(2.0, 0.5) + sk.DotProduct(3.0) ** 2,
            0.1,
            y,
        ),
    }.items()
]


@pytest.mark.parametrize(("ours", "kernel", "alpha", "targets"), TWINS)
def test_numbers_are_those_of_scikit_learn(ours, kernel, alpha, targets):
    ours = clone(ours).fit(X, targets)
    theirs = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(X, targets)
    mean, sd = theirs.predict(NEW, return_std=True)
    covariance = theirs.predict(NEW, return_cov=True)[1]
    close = {"rtol": 1e-8, "atol": 1e-10, "strict": True}
    np.testing.assert_allclose(ours.predict(NEW), mean, **close)
    np.testing.assert_allclose(ours.predict(NEW, return_std=True), (mean, sd), **close)
    np.testing.assert_allclose(ours.predict(NEW, return_cov=True)[1], covariance, **close)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-8
    )
    assert ours.score(NEW, mean) == pytest.approx(1.0)
    np.testing.assert_array_equal(ours.y_train_, theirs.y_train_)


def test_free_hyperparameters_are_those_of_scikit_learn():
    kernel = RBF(Free(1.0), variance=Free(1.0))
    ours = bk.GPRegressor(kernel, noise=Free(0.1), random_state=7).fit(X, y)
    kernel = sk.ConstantKernel(1.0) * sk.RBF(1.0) + sk.WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=3, random_state=0)
    theirs.fit(X, y)
    # theta holds the logarithms of variance, lengthscale and noise.
    fitted = [ours.kernel_.variance, ours.kernel_.lengthscale, ours.noise_]
    np.testing.assert_allclose(np.log(fitted), theirs.kernel_.theta, rtol=1e-3, atol=1e-3)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, abs=1e-6
    )
    # WhiteKernel adds the noise to the variances of predictions, `noise` does not.
    mean, sd = theirs.predict(NEW, return_std=True)
    np.testing.assert_allclose(ours.predict(NEW), mean, rtol=1e-3)
    new = ours.posterior_.predict(NEW)
    np.testing.assert_allclose(new.sd, sd, rtol=1e-3)
    np.testing.assert_allclose(
        ours.predict(NEW, return_std=True)[1], np.sqrt(new.variance - ours.noise_), rtol=1e-10
    )
    assert (ours.posterior_.method, ours.posterior_.seed) == ("map", 7)
    assert ours.trust_.verdict == "not assessable"


def test_free_mean_of_values_far_from_zero_is_generalized_least_squares():
    gp = bk.GPRegressor(RBF(), noise=0.1, mean=Free(0.0)).fit(X, y + 1e4)
    weights = np.linalg.solve(RBF()(X) + 0.1 * np.eye(N), np.ones(N))
    expected = weights @ (y + 1e4) / np.sum(weights)
    assert float(gp.mean_) == pytest.approx(expected, rel=1e-9)
    # Far from the data, predictions return to the mean.
    assert gp.predict([[100.0, 100.0]])[0] == pytest.approx(expected, rel=1e-9)


def test_prior_mean_may_be_a_function():
    def line(x):
        return 0.3 * x[1]

    ours = bk.GPRegressor(RBF(), noise=0.1, mean=line).fit(X, y)
    theirs = GaussianProcessRegressor(sk.RBF(), alpha=0.1, optimizer=None)
    expected = theirs.fit(X, y - 0.3 * X[:, 1]).predict(NEW) + 0.3 * NEW[:, 1]
    np.testing.assert_allclose(ours.predict(NEW), expected, rtol=1e-8)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(y, id="one output", marks=pytest.mark.slow),
        pytest.param(Y, id="two outputs"),
    ],
)
def averaged(request):
    """A regressor with a prior, by 150 draws from its posterior."""
    kernel = RBF(dist.LogNormal(0.0, 0.5), variance=2.0)
    method = bk.Laplace(draws=150)
    return bk.GPRegressor(kernel, noise=0.05, method=method).fit(X, request.param)


@pytest.mark.slow
def test_predictions_average_over_priors(averaged):
    """Moments of a mixture of scikit-learn's processes, one for each draw."""
    lengthscales = averaged.posterior_.flat["lengthscale"]
    assert len(lengthscales) == 150 and np.std(lengthscales) > 0.01
    means, covariances = [], []
    for lengthscale in lengthscales:
        kernel = sk.ConstantKernel(2.0) * sk.RBF(lengthscale)
        peer = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None)
        mean, covariance = peer.fit(X, averaged.y_train_).predict(NEW, return_cov=True)
        means.append(mean.reshape(len(NEW), -1))
        covariances.append(covariance.reshape(len(NEW), len(NEW), -1))
    total = np.mean(covariances, axis=0)
    for j in range(total.shape[2]):
        total[:, :, j] += np.cov(np.array(means)[:, :, j].T, bias=True)
    mean, covariance = averaged.predict(NEW, return_cov=True)
    shape = mean.shape
    np.testing.assert_allclose(mean, np.mean(means, axis=0).reshape(shape), rtol=1e-8)
    expected = total.reshape(len(NEW), *shape)
    np.testing.assert_allclose(covariance, expected, rtol=1e-8, atol=1e-12)
    sd = np.sqrt(np.einsum("iij->ij", total)).reshape(shape)
    np.testing.assert_allclose(averaged.predict(NEW, return_std=True)[1], sd, rtol=1e-8)
    assert float(averaged.kernel_.lengthscale) == pytest.approx(np.mean(lengthscales))
    assert averaged.trust_.verdict in ("good", "caution")


@pytest.mark.parametrize("kind", ["numbers", "priors"])
def test_samples_have_the_moments_of_predictions(kind, averaged):
    gp = averaged
    if kind == "numbers":
        gp = bk.GPRegressor(RBF(1.3), noise=0.05).fit(X, averaged.y_train_)
    size = 6000
    draws = gp.sample_y(NEW, size, random_state=3)
    mean, covariance = gp.predict(NEW, return_cov=True)
    assert draws.shape == (*mean.shape, size)
    sd = gp.predict(NEW, return_std=True)[1]
    # Five standard errors; those of the covariance are at most sqrt(2 / size) sd_i sd_j, times
    # the kurtosis of the mixture.
    assert np.all(np.abs(draws.mean(axis=-1) - mean) < 5.0 * sd / np.sqrt(size))
    draws, covariance = draws.reshape(len(NEW), -1, size), covariance.reshape(*[len(NEW)] * 2, -1)
    sd = sd.reshape(len(NEW), -1)
    for j in range(sd.shape[1]):
        error = np.cov(draws[:, j]) - covariance[:, :, j]
        assert np.all(np.abs(error) < 8.0 * np.outer(sd[:, j], sd[:, j]) / np.sqrt(size))


def test_random_state_follows_scikit_learn():
    gp = bk.GPRegressor(RBF(), noise=0.1).fit(X, y)
    draw = gp.sample_y(NEW, 2)
    np.testing.assert_array_equal(gp.sample_y(NEW, 2, random_state=0), draw)
    generator = np.random.RandomState(0)
    first, second = (gp.sample_y(NEW, 2, random_state=generator) for _ in range(2))
    again = gp.sample_y(NEW, 2, random_state=np.random.RandomState(0))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, second)
    assert not np.array_equal(gp.sample_y(NEW, 2, random_state=None), draw)


def test_search_over_lengthscale_and_noise_in_a_pipeline():
    ours = make_pipeline(StandardScaler(), bk.GPRegressor(RBF()))
    theirs = make_pipeline(StandardScaler(), GaussianProcessRegressor(sk.RBF(), optimizer=None))
    scales, noises = [0.3, 1.0], [0.01, 0.1]
    grid = {"gpregressor__kernel__lengthscale": scales, "gpregressor__noise": noises}
    name = "gaussianprocessregressor__"
    peer = {f"{name}kernel__length_scale": scales, f"{name}alpha": noises}
    search = GridSearchCV(ours, grid, cv=3).fit(X, y)
    expected = GridSearchCV(theirs, peer, cv=3).fit(X, y)
    # scikit-learn sorts the names, "alpha" before "kernel".
    scores, peer_scores = (
        s.cv_results_["mean_test_score"].reshape(2, 2) for s in (search, expected)
    )
    np.testing.assert_allclose(scores, peer_scores.T, rtol=1e-8)
    best = search.best_estimator_[-1]
    assert (
        float(best.kernel_.lengthscale) == search.best_params_["gpregressor__kernel__lengthscale"]
    )


@pytest.mark.slow
def test_search_in_two_processes():
    gp = bk.GPRegressor(RBF(), noise=0.1)
    here, there = (
        GridSearchCV(gp, {"kernel__lengthscale": [0.3, 1.0]}, cv=2, n_jobs=jobs).fit(X, y)
        for jobs in (1, 2)
    )
    np.testing.assert_allclose(
        here.cv_results_["mean_test_score"], there.cv_results_["mean_test_score"], rtol=1e-10
    )


def test_clones_and_copies():
    kernel = RBF(dist.LogNormal()) + Constant(Free(2.0)).named("level")
    gp = bk.GPRegressor(kernel, Free(0.2), mean=1.0, method=bk.MAP(starts=2), random_state=3)
    assert repr(clone(gp)) == repr(gp)
    names = {name for name in gp.get_params() if name.startswith("kernel__")}
    assert names == {f"kernel__{name}" for name in kernel.hyperparameters()}
    copy = clone(gp).set_params(**{"kernel__level.variance": 5.0}, noise=0.1)
    assert float(copy.kernel.hyperparameters()["level.variance"]) == 5.0
    assert isinstance(gp.kernel.hyperparameters()["level.variance"], Free)
    fitted = bk.GPRegressor(RBF(), noise=0.1).fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(NEW), fitted.predict(NEW))
    np.testing.assert_array_equal(again.sample_y(NEW), fitted.sample_y(NEW))


def test_kernel_finds_its_columns_by_name():
    table = pd.DataFrame(X, columns=["age", "mass"])
    kernel = RBF(0.5).on(["mass"]) * RBF(2.0).on(["age"])
    by_name = bk.GPRegressor(kernel, noise=0.1).fit(table, y)
    by_index = bk.GPRegressor(RBF([2.0, 0.5]), noise=0.1).fit(X, y)
    np.testing.assert_allclose(by_name.predict(table), by_index.predict(X), rtol=1e-10)
    assert by_name.feature_names_in_.tolist() == ["age", "mass"]
    with pytest.raises(ValueError, match="feature names should match"):
        by_name.predict(table[["mass", "age"]])


@pytest.mark.slow
def test_solvers_agree():
    x = np.sort(RNG.uniform(0.0, 30.0, 60))[:, None]
    targets, new = np.sin(x[:, 0]), np.linspace(-3.0, 40.0, 9)[:, None]
    dense, markov, neighbors = (
        bk.GPRegressor(Matern32(2.0), 0.1, solver=solver).fit(x, targets)
        for solver in ("dense", "markov", "neighbors")
    )
    for gp, rtol in ((markov, 1e-8), (neighbors, 1e-2)):
        np.testing.assert_allclose(
            gp.predict(new, return_std=True), dense.predict(new, return_std=True), rtol, atol=1e-4
        )
    with pytest.raises(ValueError, match="solver='neighbors' is an approximation"):
        _ = neighbors.trust_


def test_fits_of_the_same_shapes_share_compilations():
    many = RNG.uniform(0.0, 5.0, (64, 2))

    def use(gp, shift, rows):
        gp.fit(X + shift, y - shift).predict(many[:rows] + shift, return_std=True)
        gp.predict(many[:rows])

    def numbers(value):
        return bk.GPRegressor(RBF(value), noise=0.1 * value)

    def free(value):
        return bk.GPRegressor(RBF(Free(value)), noise=0.1, method=bk.MAP(starts=2))

    for make in (numbers, free):
        use(make(1.0), 0.0, 60)
        before = len(compilations)
        # Numbers of new points are rounded up.
        for rows in (60, 57, 64):
            use(make(1.2), 0.1, rows)
        assert len(compilations) == before, make.__name__


NOT_A_COVARIANCE = Custom(lambda x, z: abs(x - z).sum())
BAD_ARGUMENTS = [
    (bk.GPRegressor(sk.RBF()), "of type sklearn.gaussian_process.kernels.RBF"),
    (bk.GPRegressor("rbf"), "kernel must be a bayeskern kernel"),
    (bk.GPRegressor(noise=-0.1), "noise must be nonnegative"),
    (bk.GPRegressor(noise=VARIANCES[:3]), "one for each point, or their covariance"),
    (bk.GPRegressor(noise={"A": 0.1}), "bk.infer(model, X, y, groups=...)"),
    (bk.GPRegressor(noise="auto"), "noise must be a number, an array, a NumPyro distribution"),
    (bk.GPRegressor(method="mpa"), "method='mpa' is not known. Did you mean 'map'?"),
    (bk.GPRegressor(method=bk.MLE), "bk.MLE(), with the parentheses"),
    (bk.GPRegressor(RBF(Free(1.0)), method="laplace"), "lengthscale"),
    (bk.GPRegressor(solver="cholesky"), "solver='cholesky' is not known"),
    (bk.GPRegressor(random_state=-1), "must be a whole number from 0 to 2**32 - 1"),
    (bk.GPRegressor(random_state="x"), "cannot be used to seed"),
    (bk.GPRegressor(NOT_A_COVARIANCE, noise=0.0), "not positive definite"),
]


@pytest.mark.parametrize(("gp", "message"), BAD_ARGUMENTS, ids=[m for _, m in BAD_ARGUMENTS])
def test_bad_arguments_are_refused(gp, message):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        gp.fit(X, y)


def test_bad_data_are_refused():
    gp = bk.GPRegressor(noise=0.1)
    for name in ("posterior_", "trust_", "log_marginal_likelihood_value_"):
        assert not hasattr(gp, name)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        gp.fit(X[:, 0], y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        gp.fit(X, y[:3])
    gp.fit(X, y)
    with pytest.raises(ValueError, match="X has 1 features, but GPRegressor is expecting 2"):
        gp.predict(X[:, :1])
    with pytest.raises(ValueError, match="return_std and return_cov cannot both be True"):
        gp.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        gp.sample_y(X, 0)


@pytest.mark.slow
@parametrize_with_checks([bk.GPRegressor()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
