"""Bad input to Bayesian linear regression: errors and warnings."""

import warnings

import numpy as np
import numpyro.distributions as dist
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import PolynomialFeatures

import bayeskern as bk
from bayeskern import likelihoods, priors
from tests.linear.regression_data import NEW, TRUE, N, X, Y, blr, fit


def test_collinear_columns_are_refused_or_warned_of():
    twice = np.column_stack([X, X[:, 0] + X[:, 1]])
    with pytest.raises(ValueError, match=r"'x0', 'x1', 'x3' are perfectly collinear.*improper"):
        fit(blr(prior=priors.Flat(), noise_variance=1.0), twice, Y)
    with pytest.warns(UserWarning, match=r"'x0', 'x1', 'x3' are perfectly collinear"):
        posterior = fit(blr(prior_sd=1.0, noise_variance=1.0), twice, Y)
    ridge = Ridge(alpha=1.0, solver="svd").fit(twice, Y)
    new = np.column_stack([NEW, NEW[:, 0] + NEW[:, 1]])
    np.testing.assert_allclose(posterior.predict(new).mean, ridge.predict(new), rtol=1e-2)


def test_collinear_columns_with_as_many_rows():
    with pytest.raises(ValueError, match="perfectly collinear"):
        fit(
            blr(prior=priors.Flat(), noise_variance=1.0, intercept=False),
            [[1.0, 1.0], [2.0, 2.0]],
            [1, 2],
        )


def test_constant_column_is_refused_or_warned_of():
    constant = np.column_stack([X, np.full(N, 7.0)])
    with pytest.raises(ValueError, match=r"'x3' is constant.*improper"):
        fit(blr(prior=priors.Flat(), noise_variance=1.0), constant, Y)
    with pytest.warns(UserWarning, match=r"'x3' is constant"):
        fit(blr(noise_variance=1.0), constant, Y)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("chunks", [1, 4])
def test_perfect_fit_warns_if_noise_is_inferred(chunks, intercept):
    y = X @ TRUE + (2.0 if intercept else 0.0)

    def prepared(X, y, noise=None):
        model = blr(noise_variance=noise, intercept=intercept)
        parts = min(chunks, len(X))
        rows = zip(np.array_split(X, parts), np.array_split(y, parts), strict=True)
        return model.stream(rows).prepare()

    with pytest.warns(UserWarning, match="features fit y perfectly"):
        prepared(X, y)
    collinear = np.column_stack([X, X[:, 0] - X[:, 1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepared(X, y, noise=0.1)
        prepared(X, y + 1e-6 * np.random.default_rng(0).normal(size=N))
        # As many weights as rows: their prior, not the fit, sets the noise.
        prepared(X[:3], y[:3])
        warnings.filterwarnings("ignore", message=".*collinear")
        prepared(collinear, Y)


def test_flat_prior_needs_enough_rows():
    with pytest.raises(ValueError, match="3 rows do not determine 3 weights"):
        fit(blr(prior=priors.Flat(), noise_variance=1.0), X[:3], Y[:3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y[:-1]), "y has 59 values but X has 60"),
        ((np.where(X[3, 1] == X, np.nan, X), Y), "first in row 3"),
        ((X, np.where(Y[4] == Y, np.inf, Y)), "first in row 4"),
        ((X[:0], Y[:0]), "empty"),
        ((np.array([["a"]] * N), Y), "numeric"),
        ((X * 1e200, Y), "overflow"),
    ],
)
def test_bad_data_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit(blr(noise_variance=1.0), *arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": "ridge"}, "prior must be one of"),
        ({"prior": priors.Gaussian(np.ones(2))}, "2.*3 features"),
        ({"noise_variance": -1.0}, "noise_variance must be positive"),
        ({"noise_variance": dist.Normal(0.0, 1.0)}, r"Normal\(0.0, 1.0\) reaches below 0"),
        ({"prior": dist.Bernoulli(0.5)}, "discrete"),
        ({"noise": likelihoods.Bernoulli()}, "BayesianGLM"),
        ({"intercept": dist.Cauchy(0.0, 1.0)}, "intercept must be True"),
        ({"features": PolynomialFeatures}, "features must be a scikit-learn transformer"),
        ({"features": lambda x: x}, r"of kernel_from_features\(phi, weights=...\)"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fit(blr(**options), X, Y)


def test_bad_new_points_are_refused():
    posterior = fit(blr(noise_variance=0.8), X, Y)
    with pytest.raises(ValueError, match="has 2 columns but"):
        posterior.predict(NEW[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        posterior.predict(np.where(NEW > 0, NEW, np.nan))


@pytest.mark.parametrize("level", [0.1, -1e9])
def test_constant_y_needs_a_noise_scale(level):
    y = np.full(N, level)
    chunks = list(zip(np.array_split(X, 7), np.array_split(y, 7), strict=True))
    for model, data in (
        (blr(), (X, y)),
        (blr().stream(chunks), ()),
        (blr().stream(chunks), (X, y)),
    ):
        with pytest.raises(ValueError, match=r"y is constant.*noise=1.0"):
            bk.infer(model, *data, method="exact")
    posterior = bk.infer(blr(noise_variance=1.0).stream(chunks), method="exact", progress=False)
    found = posterior.predict(NEW).mean
    np.testing.assert_allclose(found, level, rtol=1e-6)
