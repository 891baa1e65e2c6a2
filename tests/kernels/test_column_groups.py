"""Kernels as products over groups of columns: the factors multiply to the kernel."""

import jax.numpy as jnp
import numpy as np
import pytest

from bayeskern.kernels import RBF, AllSubsets, Constant, Linear, Matern12, Matern32, Periodic

ALL = (0, 1, 2)
EACH = [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("kernel", "groups"),
    [
        (RBF(0.7, 2.0), EACH),
        (RBF([1.0, 2.0, 3.0], 2.0), EACH),
        (RBF(np.eye(3)), [ALL]),
        (Periodic([1.0, 2.0, 0.5], 0.7, 3.0), EACH),
        (AllSubsets(2.0), EACH),
        (Constant(2.0), [()]),
        (Matern32(), [ALL]),
        (2.0 * RBF() * Matern32().on([1, 2]), [(), (0,), (1, 2)]),
        ((3.0 * RBF(2.0)).on([2, 0]).named("a") * Matern12().on([-2]), [(), *EACH]),
        ((RBF().on([0]) + Matern12().on([0])) * RBF().on([1]), [(0,), (1,)]),
        (RBF().on([0]) + RBF().on([1]), [(0, 1)]),
        (RBF().on([0]) * RBF().on([1]) + 1.0, [(0, 1)]),
        (RBF().exp(), [ALL]),
        (RBF().on([1]).exp() * Constant(3.0), [(1,), ()]),
        ((2.0 * RBF()) ** 2, [(), *EACH]),
        (RBF().warp(lambda x: x[::-1]), [ALL]),
        (RBF().modulate(lambda x: x[0]), [ALL]),
        (RBF().modulate(lambda x: x[0]).on([1]) * RBF().on([2]), [(1,), (2,)]),
        (Linear(), [ALL]),
        (Matern12().on([0, 1]) * Matern12().on([1, 2]), [ALL]),
    ],
    ids=str,
)
def test_factors_multiply_to_the_kernel_and_use_only_their_columns(kernel, groups):
    X, others = np.random.default_rng(0).normal(size=(2, 7, 3))
    factors = kernel.by_columns(3)
    assert sorted(factors) == sorted(groups)
    product = 1.0
    for columns, factor in factors.items():
        gram = factor.evaluate(jnp.asarray(X))
        elsewhere = others.copy()
        elsewhere[:, list(columns)] = X[:, list(columns)]
        np.testing.assert_allclose(factor.evaluate(jnp.asarray(elsewhere)), gram, rtol=1e-13)
        product = product * gram
    np.testing.assert_allclose(product, kernel(X), rtol=1e-12)


def test_lengthscale_of_wrong_size_is_refused():
    with pytest.raises(ValueError, match=r"lengthscale has shape \(2,\) but the points have 3"):
        RBF([1.0, 2.0]).by_columns(3)
