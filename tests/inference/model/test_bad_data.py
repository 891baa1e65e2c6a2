"""Errors about data: the site, the argument, the row and the value that no fit can use."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.model.checks.bad_data import refuse_bad_data, refuse_nonfinite
from tests.marks import few, slow

X = np.linspace(-1.0, 1.0, 6)
Y = np.array([0.3, -1.2, 2.0, 0.7, 1.1, -0.4])
COUNTS = np.array([2.0, 0.0, 1.0, 1.5])


def line(X, y, scale=1.0):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(slope * X, scale), obs=y)


def observed(likelihood):
    def model(y):
        rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
        numpyro.sample("y", likelihood(rate), obs=y)

    return model


def in_plate(y):
    rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def message(model, *args) -> str:
    """The message at z = 0."""
    target = Target.from_model(model, args, {})
    with pytest.raises(ValueError, match="outside|NaN|infinite|not finite") as error:
        refuse_nonfinite(target, np.zeros(target.size))
    return str(error.value)


# -- values outside a support ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "y", "begins"),
    [
        (observed(dist.Poisson), COUNTS, "y[3] = 1.5 is outside the support of Poisson. Check"),
        (in_plate, COUNTS, "y[3] = 1.5 is outside the support of Poisson. Check"),
        (observed(dist.Poisson), 1.5, "y = 1.5 is outside the support of Poisson. Check"),
        (
            observed(lambda rate: dist.Poisson(rate).expand([2, 4]).to_event(1)),
            np.stack([np.ones(4), COUNTS - 1.0]),
            "y[1, 1] = -1 is outside the support of Poisson (1 other is too). Check",
        ),
        (
            observed(lambda rate: dist.Poisson(rate).mask(np.array([True, False, True]))),
            np.array([1.0, 1.5, 2.5]),
            "y[2] = 2.5 is outside the support of Poisson. Check",
        ),
        (
            observed(lambda rate: dist.Binomial(3, logits=rate)),
            np.array([1, 5, 4]),
            "y[1] = 5 is outside the support of Binomial (1 other is too)",
        ),
        (
            observed(lambda rate: dist.Dirichlet(rate * jnp.ones(3))),
            np.array([[0.2, 0.3, 0.5], [0.2, 0.3, 0.6]]),
            "y[1] = [0.2 0.3 0.6] is outside the support of Dirichlet",
        ),
        # The formulas of NumPyro have a density there.
        (observed(dist.Exponential), Y, "y[1] = -1.2 is outside"),
        (observed(lambda rate: dist.Bernoulli(logits=rate)), np.array([1, 2]), "y[1] = 2 is out"),
        slow(
            observed(lambda rate: dist.OrderedLogistic(rate, jnp.array([0.0, 1.0]))),
            np.array([0, 7]),
            "y[1] = 7 is outside",
        ),
        slow(observed(lambda rate: dist.TruncatedNormal(rate, low=0.0)), Y, "y[1] = -1.2 is"),
    ],
)
def test_first_value_outside_the_support(model, y, begins):
    assert message(model, y).startswith(begins)


def test_only_supports_without_latents_are_checked_before_a_search():
    y = np.array([0.5, 2e3])
    uniform = Target.from_model(observed(lambda rate: dist.Uniform(0.0, rate)), (y,), {})
    refuse_bad_data(uniform, np.zeros(1))
    begins = "y[1] = 2000 is outside the support of Uniform"
    assert message(observed(lambda rate: dist.Uniform(0.0, rate)), y).startswith(begins)
    poisson = Target.from_model(observed(dist.Poisson), (COUNTS,), {})
    with pytest.raises(ValueError, match=r"y\[3\] = 1.5"):
        refuse_bad_data(poisson, np.zeros(1))


@pytest.mark.parametrize("method", few(["map", "importance", "nuts"], "map", "nuts"))
def test_bad_data_are_refused_by_a_fit(method):
    with pytest.raises(ValueError, match=r"^y\[3\] = 1.5 is outside the support of Poisson"):
        bk.infer(observed(dist.Poisson), COUNTS, method=method, progress=False)


# -- NaN and infinite values -----------------------------------------------------------------------


def test_nan_in_arguments_and_in_observations():
    bad_x, bad_y = X.copy(), Y.copy()
    bad_x[[2, 4]], bad_y[3] = np.nan, np.nan
    in_x = message(line, bad_x, Y)
    assert "at site 'y'" in in_x
    assert "the argument 'X' has 2 values that are NaN, the first in row 2. Drop" in in_x
    in_y = "the observed site 'y' has 1 value that is NaN, the first in row 3."
    assert message(line, X, bad_y).startswith(in_y)
    assert message(line, bad_x, bad_y).startswith(in_y)


def test_nan_inside_a_dict_and_a_number():
    def model(data, scale=1.0):
        line(data["x"], Y, scale)

    in_dict = message(model, {"x": np.full(6, np.nan)})
    assert "the argument \"data['x']\" has 6 values that are NaN" in in_dict
    in_number = message(line, X, Y, np.float64(np.nan))
    assert "the argument 'scale' has 1 value that is NaN. Drop" in in_number


def test_infinite_observations_and_arguments():
    infinite = np.where(np.arange(6) == 5, np.inf, X)
    says = "has 1 value that is infinite, the first in row 5"
    assert message(line, X, infinite).startswith(f"the observed site 'y' {says}")
    assert f"the argument 'X' {says}" in message(line, infinite, Y)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "nuts", "svi", "pathfinder", "auto"])
def test_nan_data_are_refused_by_every_method(method):
    bad = np.where(np.arange(6) == 2, np.nan, Y)
    with pytest.raises(ValueError, match="site 'y' has 1 value that is NaN.*row 2"):
        bk.infer(line, X, bad, method=method, progress=False)


def test_invalid_parameter_of_a_distribution():
    def model():
        x = numpyro.sample("x", dist.Normal())
        numpyro.sample("broken", dist.Normal(0.0, -jnp.exp(x) * jnp.array([-1.0, 1.0])))

    # z = 0 gives exp(0) = 1.
    assert "at site 'broken'" in message(model)
    assert "scale[1] of its Normal is -1, which is not allowed" in message(model)


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_prior_without_a_finite_density(scale):
    def model(scale):
        x = numpyro.sample("fine", dist.Normal(0.0, 1.0))
        numpyro.sample("broken", dist.Normal(0.0, jnp.exp(x) * scale))

    text = message(model, scale)
    assert "log density is not finite" in text and "at site 'broken' (" in text


def impossible(y):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.factor("penalty", -jnp.inf * scale)
    numpyro.sample("y", dist.Normal(0.0, scale), obs=y)


def test_factor_without_a_finite_density():
    assert "fit would start, at site 'penalty'" in message(impossible, Y)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "map", "mle", "svi", "importance", "nuts"])
def test_models_without_a_finite_density_are_refused_by_every_method(method):
    with pytest.raises(ValueError, match="fit would start, at site 'penalty'"):
        bk.infer(impossible, Y, method=method, progress=False)


# -- missing values, and values that are no numbers ------------------------------------------------

NONE = np.array([1.0, None, 2.0, 3.0, None, 5.0], dtype=object)
MASKED = np.ma.masked_array(Y, [0, 1, 0, 0, 1, 0])
WORDS = np.array(["low", "high", "low", "low", "high", "low"])
MISSING = r"has 2 missing values \(None or masked\), the first in row 1"


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (X, NONE, f"^the observed site 'y' {MISSING}"),
        (X, list(NONE), f"^the observed site 'y' {MISSING}"),
        (NONE, Y, f"^the argument 'X' {MISSING}"),
        (X, MASKED, f"^the argument 'y' {MISSING}"),
        (pd.Series(NONE), Y, f"^the argument 'X' {MISSING}"),
        (X, pd.Series([1, None, 2, 3, 4, 5], dtype="Int64").astype(object), "has 1 missing value "),
        (X, WORDS, "^the observed site 'y' has values of type <U4, which are not numbers"),
        (WORDS, Y, "^the argument 'X' has values of type <U4, which are not numbers"),
        (X, Y.astype(object), r"site 'y' has numbers of type object.*astype\(float\)"),
    ],
)
def test_missing_values_and_values_that_are_no_numbers(X, y, says):
    with pytest.raises(ValueError, match=says):
        Target.from_model(line, (X, y), {})


def test_words_that_the_model_reads_are_accepted():
    def model(words, y):
        level = np.unique(words, return_inverse=True)[1]
        line(level, y)

    assert Target.from_model(model, (WORDS, Y), {}).size == 1


# -- shapes of observations ------------------------------------------------------------------------


def rows_of_pairs(X, y):
    mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    numpyro.sample("y", dist.MultivariateNormal(mean, jnp.eye(2)), obs=y)


def plate_of_four(X, y):
    mu = numpyro.sample("mu", dist.Normal())
    with numpyro.plate("rows", 4):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def square(X, y):
    mu = numpyro.sample("mu", dist.Normal())
    numpyro.sample("y", dist.Normal(mu * jnp.ones((len(y), len(y))), 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "X", "y", "shapes"),
    [
        (line, X, Y[:4], r"\(4,\).*\(6,\)"),
        (line, X[:, None], Y, r"\(6,\).*\(6, 1\)"),
        (line, X, Y[:, None], r"\(6, 1\).*\(6,\)"),
        (line, X[None], Y, r"\(6,\).*\(1, 6\)"),
        (square, X, Y, r"\(6,\).*\(6, 6\)"),
        (plate_of_four, X, Y, r"\(6,\).*\(4,\)"),
        (rows_of_pairs, X, np.ones((2, 6)), r"\(2, 6\).*\(2,\)"),
        (rows_of_pairs, X, Y, r"\(6,\).*\(2,\)"),
    ],
)
def test_observations_in_another_shape_than_their_distribution(model, X, y, shapes):
    with pytest.raises(ValueError, match=f"site 'y' has values of shape {shapes}"):
        Target.from_model(model, (X, y), {})


def test_one_number_may_stand_for_several_observations():
    def model():
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.sample("y", dist.Normal(mu * jnp.ones(3), 1.0), obs=0.5)

    by_hand = dist.Normal().log_prob(0.2) + 3 * dist.Normal(0.2, 1.0).log_prob(0.5)
    log_p = Target.from_model(model, (), {}).log_density(jnp.array([0.2]))
    np.testing.assert_allclose(log_p, by_hand, rtol=1e-12)
