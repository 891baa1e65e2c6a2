"""Problem: a model and its data, fitted as `infer` would, and refused at the door."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.problem import Problem
from models import coin


def shifted(y, sd=1.0):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    numpyro.sample("y", dist.Normal(mu, sd), obs=y)


def mean_and_variance(y, sd):
    """Of mu given y ~ N(mu, sd^2), mu ~ N(0, 9)."""
    precision = 1.0 / 9.0 + len(y) / sd**2
    return np.sum(y) / sd**2 / precision, 1.0 / precision


def test_fit_is_infer_with_the_data_of_the_problem():
    posterior = Problem(coin.model, (20, 14)).fit("exact", seed=3, progress=False)
    same = bk.infer(coin.model, 20, 14, method="exact", seed=3)
    np.testing.assert_array_equal(posterior.draws["p"], same.draws["p"])
    # p ~ Beta(16, 8)
    assert abs(posterior.draws["p"].mean() - 2.0 / 3.0) < 4.0 * posterior.draws["p"].std() / 60.0


@pytest.mark.parametrize("as_tuple", [True, False])
def test_data_are_given_in_order_or_by_name(as_tuple):
    y, sd = np.array([1.0, 2.0, 4.0]), 0.5
    data = (y, sd) if as_tuple else {"sd": sd, "y": y}
    posterior = Problem(shifted, data).fit("laplace", progress=False)
    mean, variance = mean_and_variance(y, sd)
    np.testing.assert_allclose(posterior.optimum.z, [mean], atol=1e-6)
    np.testing.assert_allclose(posterior.optimum.hessian, [[1.0 / variance]], rtol=1e-6)


def test_axes_have_the_labels_of_the_problem():
    days = ["Monday", "Tuesday", "Wednesday"]
    problem = Problem(shifted, (np.zeros(3),), coords={"day": days}, dims={"y": ["day"]})
    tree = problem.fit("laplace", progress=False).to_arviz()
    assert list(tree["observed_data"]["y"].day.values) == days


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 3}, "model must be a NumPyro model, which can be called; got int"),
        ({"data": ()}, "data are not what the model takes: missing a required argument: 'y'"),
        ({"data": {"z": 1.0}}, "data are not what the model takes: missing .* 'y'"),
        ({"data": np.zeros(3)}, r"data must be a tuple .* got ndarray"),
        ({"coords": ["a"]}, "coords must be a dict, as ArviZ takes it; got list"),
        ({"dims": "x"}, "dims must be a dict, as ArviZ takes it; got str"),
        ({"predict": np.zeros(3)}, r"predict must be a tuple .* got ndarray"),
    ],
)
def test_what_is_no_problem_is_refused_by_name(options, message):
    with pytest.raises(TypeError, match=message):
        Problem(**{"model": shifted, "data": (np.zeros(3),), **options})
