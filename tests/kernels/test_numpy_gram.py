"""Formulas of Gram matrices in NumPy and their derivatives, against the kernels and autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayeskern import kernels as k
from bayeskern.kernels import registry
from bayeskern.kernels.numpy_gram import Gram
from bayeskern.kernels.pairs import Pairs, PairWeights
from tests.kernels import cases
from tests.marks import slow

# Times before and after the start of the kernels that have one.
S, T = np.array([-0.7, 0.0, 0.4, 1.9, 3.1]), np.array([-0.7, 0.2, 0.4, 2.6])


def of_numbers(kernel):
    """Kernel whose hyperparameters are single numbers, as in a forecast."""
    values = kernel.hyperparameters().items()
    return kernel.at({name: float(np.squeeze(value)) for name, value in values})


KERNELS = {
    **{name: of_numbers(kernel) for name, kernel in cases.offering("numpy_gram").items()},
    "sum": k.RBF(0.9, 1.3) + k.Linear(0.7, 0.4),
    "product": k.RBF(0.9, 1.3) * k.Linear(0.7, 0.4),
    "scaled": 1.7 * k.RBF(0.9, 1.3),
    "scaled_constant": 1.7 * k.Constant(0.8),
    "constants": k.Constant(0.8) * k.Constant(1.3) + k.Constant(0.4),
    "constant_and_line": (k.Constant(0.8) + k.RBF(0.9, 1.3)) * k.Linear(0.7, 0.4) * k.Constant(2.0),
    "change_of_constants": k.ChangePoint(k.Constant(0.8), k.Constant(1.3), 0.5, 0.3),
    "named": k.RBF(0.9, 1.3).named("a"),
    "change_point": k.ChangePoint(k.RBF(0.9, 1.3), k.Linear(0.7, 0.4), 0.5, 0.3),
}


@pytest.mark.parametrize("name", cases.public_kernels())
def test_every_kernel_with_a_formula_is_tested(name):
    kind, tested = registry.KERNELS[name], {type(kernel) for kernel in KERNELS.values()}
    assert ("numpy_gram" in vars(kind)) == (kind in tested), f"{name}: offers, numpy_gram and case"


@pytest.mark.parametrize("make", [Pairs.between, slow(lambda s, t: Pairs(s[:, None], t[None]))])
@pytest.mark.parametrize("name", KERNELS)
def test_formulas_match_the_kernel_and_its_autodiff(name, make):
    kernel, pairs = KERNELS[name], make(S, T)
    values = {key: float(v) for key, v in kernel.hyperparameters().items()}
    K, pullback = Gram(kernel)(values.values(), pairs)

    def matrix(theta):
        at = dict(zip(values, theta, strict=True))
        return kernel.at(at).evaluate(jnp.asarray(S)[:, None], jnp.asarray(T)[:, None])

    theta = jnp.array(list(values.values()))
    np.testing.assert_allclose(pairs.spread(K), matrix(theta), rtol=1e-10, atol=1e-12)
    jacobian = jax.jit(jax.jacfwd(matrix))(theta)
    for A in np.random.default_rng(0).normal(size=(3, len(S), len(T))):
        slopes = [slope() for slope in pullback(PairWeights(pairs, lambda A=A: A))]
        expected = np.einsum("ij,ijk->k", A, jacobian)
        np.testing.assert_allclose(slopes, expected, rtol=1e-9, atol=1e-10)


def test_a_subclass_does_not_take_the_formula_of_its_parent():
    class Doubled(k.RBF):
        def evaluate(self, X, Z=None):
            return 2.0 * super().evaluate(X, Z)

    for kernel in (Doubled(), k.Constant() + Doubled(), Doubled().named("a")):
        with pytest.raises(NotImplementedError, match="Doubled"):
            Gram(kernel)


@pytest.mark.parametrize("kernel", [k.Brownian(1.3), k.IntegratedBrownian(0.7), k.Linear(0.7, 0.4)])
def test_pairs_can_be_used_again_with_other_hyperparameters(kernel):
    pairs, values = Pairs.between(S, T), kernel.hyperparameters()
    for shift in (0.0, 0.3, 0.0):
        at = {name: float(value) + shift for name, value in values.items()}
        K, _ = Gram(kernel)(at.values(), pairs)
        np.testing.assert_allclose(pairs.spread(K), kernel.at(at)(S, T), rtol=1e-10, atol=1e-12)
