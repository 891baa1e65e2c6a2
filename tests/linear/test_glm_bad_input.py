"""Bad input to generalized linear models is refused."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import likelihoods as lk
from bayeskern import priors
from tests.linear.glm_data import BINARY, NEGATIVE, SUCCESSES, TRIALS, UNIFORM, N, X, fit

FLAT = {"prior": priors.Flat(), "intercept": priors.Flat()}


def separated():
    first = X[:, 0] > 0.1
    quasi = np.column_stack([X[:, 0], BINARY * (UNIFORM > 0.4)])
    yield "perfectly", lk.Bernoulli(), X, first, {}
    # One column is 1 only where y is; elsewhere both classes occur.
    yield "nearly", lk.Bernoulli(link="probit"), quasi, BINARY, {}
    yield "tables", lk.Binomial(), X, TRIALS * first, {"trials": TRIALS}
    yield "no count", lk.Poisson(), X, np.zeros(N), {}
    yield (
        "no count in a group",
        lk.NegativeBinomial(),
        np.column_stack([X[:, 0], NEGATIVE * first > 0]),
        NEGATIVE * first,
        {},
    )
    yield "one class", lk.Bernoulli(classes=(0, 1)), X, np.zeros(N), {}


SEPARATED = {name: case for name, *case in separated()}


@pytest.mark.parametrize(("likelihood", "x", "y", "extra"), SEPARATED.values(), ids=SEPARATED)
def test_separated_data_need_a_proper_prior(likelihood, x, y, extra):
    with pytest.raises(ValueError, match="the features separate"):
        bk.BayesianGLM(likelihood, **FLAT).prepare(x, y, **extra)
    bk.BayesianGLM(likelihood).prepare(x, y, **extra)


def test_overlapping_data_are_accepted_under_a_flat_prior():
    swapped = (X[:, 0] > 0.1).astype(float)
    swapped[np.argmax(X[:, 0])] = 0.0
    bk.BayesianGLM(lk.Bernoulli(), **FLAT).prepare(X, swapped)
    # A proper prior on the intercept leaves the weights nothing but the centre to turn around.
    shifted = (X[:, 0] > 1.0).astype(float)
    model = bk.BayesianGLM(lk.Bernoulli(), prior=priors.Flat(), intercept=dist.Normal(0.0, 1.0))
    with pytest.raises(ValueError, match="separate"):
        model.prepare(X[:, :1] - 1.0, shifted)
    model.prepare(X[:, :1], shifted)


def frame(*columns):
    return pd.DataFrame(X[:, : len(columns)], columns=columns)


HOLE = np.where(np.arange(N) == 7, np.nan, 1.0)
REFUSED = {
    "likelihood": (lambda: bk.BayesianGLM("poisson"), TypeError, "one of bayeskern.likelihoods"),
    "a class": (lambda: bk.BayesianGLM(lk.Poisson), TypeError, r"such as Bernoulli\(\)"),
    "categorical under a flat prior": (
        lambda: bk.BayesianGLM(lk.Categorical(), prior=priors.Flat()).prepare(X, BINARY),
        ValueError,
        "adding a number to all outputs",
    ),
    "an intercept beside cutpoints": (
        lambda: bk.BayesianGLM(lk.Ordered(), intercept=dist.Normal(0.0, 1.0)),
        ValueError,
        "cutpoints in place of an intercept",
    ),
    "outside the support": (
        lambda: bk.BayesianGLM(lk.Poisson()).prepare(X, NEGATIVE - 5.0 * (UNIFORM > 0.9)),
        ValueError,
        f"the first in row {np.argmax((NEGATIVE - 5.0 * (UNIFORM > 0.9)) < 0)}",
    ),
    "a hole in y": (
        lambda: bk.BayesianGLM(lk.Poisson()).prepare(X, HOLE),
        ValueError,
        "NaN or infinite, the first in row 7",
    ),
    "a hole in X": (
        lambda: bk.BayesianGLM(lk.Poisson()).prepare(X * HOLE[:, None], NEGATIVE),
        ValueError,
        "X has .* NaN or infinite, the first in row 7",
    ),
    "no X": (lambda: fit(bk.BayesianGLM(lk.Poisson()), None, None), ValueError, "X is missing"),
    "no y": (lambda: fit(bk.BayesianGLM(lk.Poisson()), X, None), ValueError, "y is missing"),
    "no y though no default needs one": (
        lambda: fit(bk.BayesianGLM(lk.Gamma(), prior_sd=1.0, intercept=dist.Normal(0, 1)), X, None),
        ValueError,
        "y is missing",
    ),
}


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.slow
def test_all_zero_counts_under_the_default_prior():
    nuts = bk.NUTS(warmup=400, draws=400, chains=2)
    posterior = fit(bk.BayesianGLM(lk.Poisson()), X, np.zeros(N), nuts)
    assert np.all(np.isfinite(posterior.flat["weights"]))
    rate = np.exp(posterior.predict(X, latent=True).draws).mean(axis=1)
    # Nothing in 300 rows says that there are fewer than 3 in 300, at 95 %.
    assert np.mean(rate < 3.0 / N) > 0.9


@pytest.mark.slow
def test_new_points_need_columns_and_trials():
    posterior = fit(bk.BayesianGLM(lk.Binomial()), frame("dose", "age"), SUCCESSES, trials=TRIALS)
    new = frame("dose", "age").iloc[:4]
    prediction = posterior.predict(new, trials=[1, 2, 3, 4])
    swapped = posterior.predict(new[["age", "dose"]], trials=[1, 2, 3, 4])
    np.testing.assert_array_equal(prediction.mean, swapped.mean)
    with pytest.raises(ValueError, match="X_new has no column 'age'"):
        posterior.predict(new[["dose"]], trials=1)
    with pytest.raises(ValueError, match="needs trials"):
        posterior.predict(new)
    with pytest.raises(ValueError, match="has 1 columns"):
        posterior.predict(X[:, :1], trials=1)
