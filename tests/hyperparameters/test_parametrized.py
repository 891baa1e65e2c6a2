"""Reading, setting and printing hyperparameters."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from bayeskern.hyperparameters import PointEstimate
from bayeskern.kernels import (
    RBF,
    Free,
    Linear,
    Matern52,
    from_sd,
)


def test_values():
    prior, free = dist.LogNormal(0.0, 1.0), Free(0.3)
    k = RBF(lengthscale=[0.5, 2.0]).named("a") + 2.0 * Linear(variance=prior, center=free)
    values = k.hyperparameters()
    np.testing.assert_array_equal(values["a.lengthscale"], [0.5, 2.0])
    assert values["a.variance"] == 1.0 and values["linear.scale"] == 2.0
    assert isinstance(values["linear.variance"], dist.LogNormal)
    assert isinstance(values["linear.center"], Free) and values["linear.center"].init == 0.3


def test_at():
    k = RBF().named("a") + 2.0 * Linear(variance=dist.HalfNormal(1.0))
    new = k.at({"a.lengthscale": [0.5, 2.0], "linear.scale": 3, "linear.variance": jnp.array(0.7)})
    expected = RBF(lengthscale=[0.5, 2.0]).named("a") + 3.0 * Linear(variance=0.7)
    X = np.random.default_rng(0).normal(size=(4, 2))
    np.testing.assert_allclose(new(X), expected(X), rtol=1e-14)
    assert k.hyperparameters()["linear.scale"] == 2.0  # the old one is as it was
    assert isinstance(new.at({"a.variance": Free(2.0)}).hyperparameters()["a.variance"], Free)
    assert repr(k.at({})) == repr(k)


def test_at_a_point_estimate_sets_only_unset_values():
    kernel = RBF(dist.LogNormal(), 2.0).named("a") + Linear(Free(1.0))
    point = PointEstimate(
        {"a.lengthscale": 0.5, "a.variance": 9.0, "linear.variance": 3.0, "noise": 0.1}
    )
    assert kernel.at(point).hyperparameters() == {
        "a.lengthscale": 0.5,
        "a.variance": 2.0,
        "linear.variance": 3.0,
        "linear.center": 0.0,
    }


def test_at_refuses_unknown_names():
    k = RBF().named("season") + Linear()
    message = "hyperparameter='season.lenghtscale' is not known. Did you mean 'season.lengthscale'"
    with pytest.raises(ValueError, match=message):
        k.at({"season.lenghtscale": 1.0})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rbf.lengthscale", -1.0),
        ("rbf.lengthscale", [1.0, 0.0]),
        ("rbf.variance", 0.0),
        ("rbf.variance", np.nan),
        ("rbf.variance", Free(-2.0)),
        ("linear.center", np.inf),
    ],
)
def test_at_refuses_values_outside_the_constraint(name, value):
    with pytest.raises(ValueError, match=f"{name} must be (positive|real) and finite, got"):
        (RBF() + Linear()).at({name: value})


@pytest.mark.parametrize("before", [1.0, [1.0, 2.0], np.eye(2), dist.HalfNormal(1.0), Free(1.0)])
@pytest.mark.parametrize("after", [0.5, [0.5, 2.0], [[0.5, 0.0], [-0.3, 2.0]]])
def test_at_changes_the_shape_of_a_lengthscale(before, after):
    new = RBF(lengthscale=before).at({"lengthscale": after})
    np.testing.assert_array_equal(new.lengthscale, after)
    with pytest.raises(ValueError, match="lengthscale must be lower cholesky"):
        RBF(lengthscale=before).at({"lengthscale": [[0.5, 0.3], [0.0, 2.0]]})


def test_at_traced_values():
    X = np.linspace(0.0, 1.0, 4)
    actual = jax.jit(lambda v: RBF().at({"lengthscale": v})(X))(0.3)
    np.testing.assert_allclose(actual, RBF(lengthscale=0.3)(X), rtol=1e-14)
    batch = jax.vmap(lambda v: RBF().at({"lengthscale": v})(X))(jnp.array([0.3, 2.0]))
    np.testing.assert_allclose(batch[1], RBF(lengthscale=2.0)(X), rtol=1e-14)


def test_specifications_cannot_be_evaluated():
    k = RBF(lengthscale=dist.LogNormal(0.0, 1.0)).named("a") + Linear(variance=Free(1.0))
    X = np.ones((3, 1))
    message = (
        r"a.lengthscale, linear.variance of .*LogNormal\(0.0, 1.0\).*Free\(1.0\).* have no value"
        r".*\.at\({name: value}\).*sample"
    )
    for call in (lambda: k(X), lambda: k(X, X), lambda: k.diag(X), k.require_concrete):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(TypeError, match=r"^linear.variance of"):
        k.at({"a.lengthscale": 1.0})(X)
    concrete = k.at({"a.lengthscale": 1.0, "linear.variance": 2.0})
    assert concrete.require_concrete() is concrete


def test_repr():
    k = 2.0 * RBF(lengthscale=[0.5, 1.0], variance=from_sd(dist.HalfNormal(0.5)))
    k = k.named("a") + Linear(center=Free(0.5)) ** 2 * (Matern52() + 1)
    expected = (
        "(2.0 * RBF(lengthscale=[0.5, 1.0], "
        "variance=from_sd(HalfNormal(0.5)))).named('a')"
        " + Linear(variance=1.0, center=Free(0.5)) ** 2"
        " * (Matern52(lengthscale=1.0, variance=1.0) + Constant(variance=1.0))"
    )
    assert repr(k) == expected


def test_repr_while_traced():
    seen = []
    jax.jit(lambda v: seen.append(repr(RBF(v))))(1.0)
    assert seen == ["RBF(lengthscale=<traced>, variance=1.0)"]


def test_scalar_hyperparameters_refuse_vectors():
    for bad in ([1.0, 2.0], dist.LogNormal(0.0, 1.0).expand([2]), Free([1.0, 2.0])):
        with pytest.raises(ValueError, match=r"variance must be one number, .*\(2,\)"):
            RBF(variance=bad)
        with pytest.raises(ValueError, match=r"RBF.variance must be one number"):
            RBF().at({"variance": bad})
    assert RBF(lengthscale=dist.LogNormal(0.0, 1.0).expand([2])).hyperparameters()
