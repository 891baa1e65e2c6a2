"""Problem: a model with its data, fitted as by `infer`, and invalid ones."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference import Method
from bayeskern.inference.problem import Problem
from models import coin


def shifted(y, sd=1.0):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    numpyro.sample("y", dist.Normal(mu, sd), obs=y)


def mean_and_variance(y, sd):
    """Of mu given y ~ N(mu, sd^2), mu ~ N(0, 9)."""
    precision = 1.0 / 9.0 + len(y) / sd**2
    return np.sum(y) / sd**2 / precision, 1.0 / precision


def test_fit_equals_infer_with_the_data():
    posterior = Problem(coin.model, coin.data()).fit("exact", seed=3, progress=False)
    same = bk.infer(coin.model, *coin.data(), method="exact", seed=3)
    np.testing.assert_array_equal(posterior.draws["p"], same.draws["p"])
    # p ~ Beta(16, 8)
    assert abs(posterior.draws["p"].mean() - 2.0 / 3.0) < 4.0 * posterior.draws["p"].std() / 60.0


@pytest.mark.parametrize("as_tuple", [True, False])
def test_data_are_positional_or_named(as_tuple):
    y, sd = np.array([1.0, 2.0, 4.0]), 0.5
    data = (y, sd) if as_tuple else {"sd": sd, "y": y}
    posterior = Problem(shifted, data).fit("laplace", progress=False)
    mean, variance = mean_and_variance(y, sd)
    np.testing.assert_allclose(posterior.optimum.z, [mean], atol=1e-6)
    np.testing.assert_allclose(posterior.optimum.hessian, [[1.0 / variance]], rtol=1e-6)


@pytest.mark.slow
def test_axes_have_the_labels_of_the_problem():
    days = ["Monday", "Tuesday", "Wednesday"]
    problem = Problem(shifted, (np.zeros(3),), coords={"day": days}, dims={"y": ["day"]})
    tree = problem.fit("laplace", progress=False).to_arviz()
    assert list(tree["observed_data"]["y"].day.values) == days


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 3}, "model must be a callable NumPyro model"),
        ({"data": ()}, "missing a required argument: 'y'"),
        ({"data": {"z": 1.0}}, "missing a required argument: 'y'"),
        ({"data": np.zeros(3)}, "data must be a tuple .* got ndarray"),
        ({"coords": ["a"]}, "coords must be a dict.*got list"),
        ({"dims": "x"}, "dims must be a dict.*got str"),
        ({"predict": np.zeros(3)}, "predict must be a tuple .* got ndarray"),
    ],
)
def test_invalid_fields_are_refused(options, message):
    with pytest.raises(TypeError, match=message):
        Problem(**{"model": shifted, "data": (np.zeros(3),), **options})


def test_a_class_is_not_a_model():
    with pytest.raises(TypeError, match=r"model must be an object, GPRegression\(\.\.\.\)"):
        bk.infer(bk.GPRegression, np.zeros(3), np.zeros(3))


class NeverRun(Method):
    """A method that must not be reached."""

    name = "never"

    def run(self, target, seed, progress):
        raise AssertionError("it was fitted")


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ({"dims": {"mu": ["day"]}}, ValueError, "names 1 axis of 'mu'.* one number"),
        ({"dims": {"y": ["a", "b"]}}, ValueError, "names 2 axes of 'y'.* has 1"),
        ({"dims": {"nu": ["day"]}}, ValueError, "site='nu' is not known"),
        ({"dims": {"y": "day"}}, TypeError, "dims of 'y' must be a list"),
        ({"dims": {"y": ["draw"]}}, ValueError, "axes need different names"),
        ({"dims": {"y": ["mu"]}}, ValueError, "an axis of 'y' has the name of the site 'mu'"),
        ({"coords": {"day": 3}}, TypeError, "coords of 'day' must be a list"),
        (
            {"coords": {"day": ["Monday"]}, "dims": {"y": ["day"]}},
            ValueError,
            "1 label for 'day'.*'y' has size 3",
        ),
    ],
)
def test_labels_that_do_not_match_are_refused_before_the_fit(names, error, message):
    problem = Problem(shifted, (np.zeros(3),), **names)
    with pytest.raises(error, match=message):
        problem.fit(NeverRun(), progress=False)


def test_string_observations_are_refused():
    for y in (np.array(["a", "b"]), "abc"):
        with pytest.raises(ValueError, match="'y' has values .* not numbers.*np.unique"):
            Problem(shifted, (y,)).fit("laplace", progress=False)


@pytest.mark.slow
def test_string_labels_are_static_arguments():
    def model(label, y):
        names, group = np.unique(label, return_inverse=True)
        level = numpyro.sample("level", dist.Normal(0.0, 3.0).expand([len(names)]).to_event(1))
        numpyro.sample("y", dist.Normal(level[group], 1.0), obs=y)

    data = (np.array(["b", "a", "b"]), np.array([1.0, -2.0, 3.0]))
    posterior = Problem(model, data).fit("laplace", progress=False)
    # N(sum(y) / (n + 1/9), ...) in each group.
    np.testing.assert_allclose(posterior.optimum.z, [-2.0 / (10 / 9), 4.0 / (19 / 9)], atol=1e-6)
    assert posterior.predict(*data).mean.shape == (3,)
