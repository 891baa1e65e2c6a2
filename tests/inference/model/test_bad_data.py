"""Messages where the density is finite at no start: the site, the argument, the row, the value."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.model.checks.bad_data import refuse_bad_data, refuse_nonfinite

X = np.linspace(-1.0, 1.0, 6)
Y = np.array([0.3, -1.2, 2.0, 0.7, 1.1, -0.4])


def line(X, y, scale=1.0):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(slope * X, scale), obs=y)


def observed(likelihood):
    def model(y):
        rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
        numpyro.sample("y", likelihood(rate), obs=y)

    return model


def message(model, *args) -> str:
    """The message at z = 0."""
    target = Target.of(model, args, {})
    with pytest.raises(ValueError, match="outside|NaN|infinite|not finite") as error:
        refuse_nonfinite(target, np.zeros(target.size))
    return str(error.value)


COUNTS = np.array([2.0, 0.0, 1.0, 1.5])


def in_plate(y):
    rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Poisson(rate), obs=y)


@pytest.mark.parametrize(
    ("model", "y", "begins"),
    [
        (observed(dist.Poisson), COUNTS, "y[3] = 1.5 is outside the support of Poisson. Check"),
        (in_plate, COUNTS, "y[3] = 1.5 is outside the support of Poisson. Check"),
        (observed(dist.Poisson), 1.5, "y = 1.5 is outside the support of Poisson. Check"),
        (
            observed(lambda rate: dist.Poisson(rate).expand([2, 4]).to_event(1)),
            np.stack([np.ones(4), COUNTS - 1.0]),
            "y[1,1] = -1 is outside the support of Poisson (1 other is too). Check",
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
        (
            observed(lambda rate: dist.Uniform(0.0, rate)),
            np.array([0.5, 2e3]),
            "y[1] = 2000 is outside the support of Uniform",
        ),
    ],
)
def test_the_first_value_outside_the_support(model, y, begins):
    assert message(model, y).startswith(begins)


def test_only_a_support_that_no_latent_moves_is_judged_at_one_place():
    uniform = Target.of(observed(lambda rate: dist.Uniform(0.0, rate)), (np.array([0.5, 2.0]),), {})
    refuse_bad_data(uniform, np.zeros(1))
    poisson = Target.of(observed(dist.Poisson), (COUNTS,), {})
    with pytest.raises(ValueError, match=r"y\[3\] = 1.5"):
        refuse_bad_data(poisson, np.zeros(1))


def test_nan_in_an_argument_is_told_from_nan_in_the_data():
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

    assert "the argument \"data['x']\" has 6 values that are NaN" in message(
        model, {"x": np.full(6, np.nan)}
    )
    assert "the argument 'scale' has 1 value that is NaN. Drop" in message(
        line, X, Y, np.float64(np.nan)
    )


def test_infinite_data_and_arguments():
    infinite = np.where(np.arange(6) == 5, np.inf, X)
    says = "has 1 value that is infinite, the first in row 5"
    assert message(line, X, infinite).startswith(f"the observed site 'y' {says}")
    assert f"the argument 'X' {says}" in message(line, infinite, Y)


def test_a_parameter_that_is_not_allowed():
    def model():
        x = numpyro.sample("x", dist.Normal())
        numpyro.sample("broken", dist.Normal(0.0, -jnp.exp(x) * jnp.array([-1.0, 1.0])))

    # z = 0 gives exp(0) = 1.
    assert "at site 'broken'" in message(model)
    assert "scale[1] of its Normal is -1, which is not allowed" in message(model)


@pytest.mark.parametrize("method", ["map", "importance", "nuts"])
def test_bad_data_are_refused_by_a_fit(method):
    with pytest.raises(ValueError, match=r"^y\[3\] = 1.5 is outside the support of Poisson"):
        bk.infer(observed(dist.Poisson), COUNTS, method=method, progress=False)


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
        (MASKED, Y, f"^the argument 'X' {MISSING}"),
        (pd.Series(NONE), Y, f"^the argument 'X' {MISSING}"),
        (X, pd.Series([1, None, 2, 3, 4, 5], dtype="Int64").astype(object), "has 1 missing value "),
        (X, WORDS, "^the observed site 'y' has values that are no numbers, of type <U4"),
        (WORDS, Y, "^the argument 'X' has values that are no numbers, of type <U4"),
        (
            X,
            Y.astype(object),
            r"^the observed site 'y' has numbers of type object.*astype\(float\)",
        ),
    ],
)
def test_missing_values_are_told_from_values_that_are_no_numbers(X, y, says):
    with pytest.raises(ValueError, match=says):
        Target.of(line, (X, y), {})


def test_an_argument_without_numbers_that_the_model_can_read_is_no_error():
    def model(words, y):
        level = np.unique(words, return_inverse=True)[1]
        line(level, y)

    assert Target.of(model, (WORDS, Y), {}).size == 1
