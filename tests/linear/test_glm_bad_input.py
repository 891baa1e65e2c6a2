"""What a generalised linear model refuses, and with what words."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import bayeskern as bk
from bayeskern import likelihoods as lk
from bayeskern import priors

rng = np.random.default_rng(0)
N = 300
X = rng.normal(size=(N, 2)) * [0.6, 6.0] + [0.0, 20.0]
ETA = 0.4 + X @ [1.0, 0.05] - 1.0
FLAT = {"prior": priors.Flat(), "intercept": priors.Flat()}
UNIFORM = rng.uniform(size=N)
TRIALS = 7.0
NEGATIVE = stats.nbinom(4.0, 4.0 / (4.0 + 3.0 * np.exp(ETA))).ppf(UNIFORM)
SUCCESSES = stats.binom(7, expit(ETA)).ppf(UNIFORM)
BINARY = (expit(ETA) > UNIFORM).astype(float)


def fit(model, X, y, method="laplace", **options):
    return bk.infer(model, X, y, method=method, progress=False, **options)


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
def test_data_that_do_not_bound_the_weights_want_a_proper_prior(likelihood, x, y, extra):
    with pytest.raises(ValueError, match="the features separate .* flat prior .* without bound"):
        bk.BayesianGLM(likelihood, **FLAT).prepare(x, y, **extra)
    bk.BayesianGLM(likelihood).prepare(x, y, **extra)


def test_data_that_bound_the_weights_are_taken_under_a_flat_prior():
    swapped = (X[:, 0] > 0.1).astype(float)
    swapped[np.argmax(X[:, 0])] = 0.0
    bk.BayesianGLM(lk.Bernoulli(), **FLAT).prepare(X, swapped)
    # A proper prior on the intercept leaves the weights nothing but the centre to turn around.
    shifted = (X[:, 0] > 1.0).astype(float)
    model = bk.BayesianGLM(lk.Bernoulli(), prior=priors.Flat(), intercept=dist.Normal(0.0, 1.0))
    with pytest.raises(ValueError, match="separate"):
        model.prepare(X[:, :1] - 1.0, shifted)
    model.prepare(X[:, :1], shifted)


def test_separation_is_found_in_large_data_too():
    wide = np.random.default_rng(0).normal(size=(20_000, 20))
    y = wide @ np.arange(20) > 0.3
    with pytest.raises(ValueError, match="separate"):
        bk.BayesianGLM(lk.Bernoulli(), **FLAT).prepare(wide, y)


def frame(*columns):
    return pd.DataFrame(X[:, : len(columns)], columns=columns)


HOLE = np.where(np.arange(N) == 7, np.nan, 1.0)
REFUSED = {
    "likelihood": (lambda: bk.BayesianGLM("poisson"), TypeError, "one of bayeskern.likelihoods"),
    "a class": (lambda: bk.BayesianGLM(lk.Poisson), TypeError, r"such as Bernoulli\(\)"),
    "categorical under a flat prior": (
        lambda: bk.BayesianGLM(lk.Categorical(), prior=priors.Flat()).prepare(X, BINARY),
        ValueError,
        "adding one number to all outputs",
    ),
    "an intercept beside cutpoints": (
        lambda: bk.BayesianGLM(lk.Ordered(), intercept=dist.Normal(0.0, 1.0)),
        ValueError,
        "cutpoints in the place of an intercept",
    ),
    "a flat intercept beside cutpoints": (
        lambda: bk.BayesianGLM(lk.Ordered(), intercept=priors.Flat()),
        ValueError,
        "cutpoints in the place of an intercept",
    ),
    "text without an order": (
        lambda: bk.BayesianGLM(lk.Ordered()).prepare(X, np.where(BINARY > 0, "low", "high")),
        ValueError,
        "Name the classes from low to high",
    ),
    "outside the support": (
        lambda: bk.BayesianGLM(lk.Poisson()).prepare(X, NEGATIVE - 5.0 * (UNIFORM > 0.9)),
        ValueError,
        f"the first in row {np.argmax((NEGATIVE - 5.0 * (UNIFORM > 0.9)) < 0)}",
    ),
    "exposure": (
        lambda: bk.BayesianGLM(lk.Poisson()).prepare(X, NEGATIVE, exposure=np.arange(N)),
        ValueError,
        "exposure must be above 0; row 0",
    ),
    "what it does not take": (
        lambda: bk.BayesianGLM(lk.Poisson()).prepare(X, NEGATIVE, trials=3),
        ValueError,
        "Poisson takes no trials",
    ),
    "trials": (
        lambda: bk.BayesianGLM(lk.Binomial()).prepare(X, SUCCESSES),
        ValueError,
        "Binomial needs trials",
    ),
    "a class that is not known": (
        lambda: bk.BayesianGLM(lk.Bernoulli(classes=("a", "b"))).prepare(X[:2], ["a", "c"]),
        ValueError,
        "not known, 'c', first in row 1",
    ),
    "one class": (
        lambda: bk.BayesianGLM(lk.Bernoulli()).prepare(X, np.ones(N)),
        ValueError,
        "y is 1 in every row",
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
        lambda: fit(bk.BayesianGLM(lk.Gamma(), prior=1.0, intercept=dist.Normal(0, 1)), X, None),
        ValueError,
        "y is missing",
    ),
}


@pytest.mark.parametrize(("call", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_meant_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.slow
def test_a_constant_count_is_no_trouble_under_the_default_prior():
    nuts = bk.NUTS(warmup=400, draws=400, chains=2)
    posterior = fit(bk.BayesianGLM(lk.Poisson()), X, np.zeros(N), nuts)
    assert np.all(np.isfinite(posterior.flat["weights"]))
    rate = np.exp(posterior.predict(X, latent=True).draws).mean(axis=1)
    # Nothing in 300 rows says that there are fewer than 3 in 300, at 95 %.
    assert np.mean(rate < 3.0 / N) > 0.9


@pytest.mark.slow
def test_new_points_need_the_columns_and_what_the_likelihood_needs():
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
