"""Kernels from a plain function."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.distributions import constraints

from bayeskern.core.validation import NotPositiveDefiniteError
from bayeskern.kernels import Custom, Free, check_psd, sample

RNG = np.random.default_rng(2)
X, Z = RNG.normal(size=(5, 2)), RNG.normal(size=(3, 2))


def weighted(x, z, a, b):
    """Not symmetric in a and b, so that values cannot be mixed up."""
    return a * jnp.exp(-b * jnp.sum((x - z) ** 2))


def test_values():
    k = Custom(weighted, {"b": 0.3, "a": 2.0})
    expected = 2.0 * np.exp(-0.3 * ((X[:, None] - Z[None]) ** 2).sum(-1))
    np.testing.assert_allclose(k(X, Z), expected, rtol=1e-13)
    np.testing.assert_allclose(k(X), 2.0 * np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(-1)))
    np.testing.assert_allclose(k.diag(X), np.full(5, 2.0), rtol=1e-15)


def test_asymmetric_function_keeps_its_argument_order():
    k = Custom(lambda x, z: x[0] + 10.0 * z[0])
    np.testing.assert_allclose(k([1.0, 2.0], [3.0]), [[31.0], [32.0]])
    with pytest.raises(NotPositiveDefiniteError, match=r"Custom\(custom\) is not symmetric"):
        check_psd(k, [1.0, 2.0])


def test_points_of_one_dimension_are_vectors():
    shapes = []
    Custom(lambda x, z: shapes.append((x.shape, z.shape)) or x @ z)([1.0, 2.0])
    assert set(shapes) == {((1,), (1,))}


def test_gradient():
    k = Custom(weighted, {"a": 2.0, "b": 0.3})
    slope = jax.grad(lambda k: k(X, Z).sum())(k).values
    d = ((X[:, None] - Z[None]) ** 2).sum(-1)
    np.testing.assert_allclose(slope["a"], np.exp(-0.3 * d).sum(), rtol=1e-13)
    np.testing.assert_allclose(slope["b"], (-2.0 * d * np.exp(-0.3 * d)).sum(), rtol=1e-13)


def test_constraints():
    k = Custom(
        weighted,
        {"a": Free(-1.0), "b": dist.HalfNormal(1.0)},
        {"a": constraints.interval(-2.0, 0.0)},
    )
    trace = handlers.trace(handlers.seed(lambda: sample(k, "c"), 0)).get_trace()
    assert trace["c.a"]["kwargs"]["constraint"] == constraints.interval(-2.0, 0.0)
    assert trace["c.b"]["type"] == "sample"
    assert eqx.tree_equal(jax.tree.unflatten(*jax.tree.flatten(k)[::-1]), k)
    concrete = k.at({"a": -0.5, "b": 1.0})
    np.testing.assert_allclose(jax.jit(lambda k: k(X))(concrete), concrete(X), rtol=1e-13)


def test_bad_values():
    with pytest.raises(ValueError, match="Custom.a must be positive and finite, got -1.0"):
        Custom(weighted, {"a": -1.0, "b": 1.0})
    with pytest.raises(ValueError, match="Custom.a must be interval 0.0 to 2.0"):
        Custom(weighted, {"a": 3.0, "b": 1.0}, {"a": constraints.interval(0.0, 2.0)})
    with pytest.raises(ValueError, match="constraint for='c' is not known"):
        Custom(weighted, {"a": 1.0, "b": 1.0}, {"c": constraints.real})


def test_repr():
    assert repr(Custom(weighted, {"a": 2.0, "b": 0.3})) == "Custom(weighted, {'a': 2.0, 'b': 0.3})"
    assert repr(Custom(weighted)) == "Custom(weighted)"
    assert repr(Custom(lambda x, z: 1.0)) == "Custom(custom)"
    k = Custom(weighted, {"a": 2.0, "b": 0.3})
    assert eqx.tree_equal(eval(repr(k)), k)
