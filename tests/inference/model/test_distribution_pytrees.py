"""Leaves of distributions in an order that does not depend on NumPyro's sets."""

import subprocess
import sys

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference.model.trace.distribution_pytrees import restore_leaves, sort_leaves
from bayeskern.kernels import RBF

DISTRIBUTIONS = [
    dist.StudentT(3.0, 1.0, 2.0),
    dist.HalfNormal(2.0).expand([3]).to_event(1),
    dist.TruncatedNormal(0.0, 1.0, low=0.5),
    bk.from_sd(dist.HalfNormal(0.5)),
    dist.MixtureSameFamily(
        dist.Categorical(np.array([0.4, 0.6])), dist.Normal(np.array([0.0, 3.0]), 1.0)
    ),
]


@pytest.mark.parametrize("made", DISTRIBUTIONS, ids=lambda d: type(d).__name__)
def test_sorted_leaves_restore_the_distribution(made):
    value = made.sample(jax.random.key(0))
    again = restore_leaves(jax.jit(lambda d: d)(sort_leaves(made)))
    assert type(again) is type(made)
    np.testing.assert_array_equal(again.log_prob(value), made.log_prob(value))
    assert again.shape() == made.shape()


def test_trees_with_and_without_distributions():
    def model():
        return None

    assert sort_leaves(model) is model
    kernel = RBF(lengthscale=dist.LogNormal(0.0, 1.0)) + RBF()
    assert repr(restore_leaves(sort_leaves(kernel))) == repr(kernel)


PROGRAM = """
import jax, numpyro.distributions as dist
import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.kernels import RBF
model = bk.GPRegression(RBF(dist.InverseGamma(5.0, 30.0)), 0.1, dist.StudentT(3.0, 1.0, 2.0))
model, args = model.prepare([0.0, 1.0, 2.0], [1.0, 2.0, 0.5])
print(jax.tree.leaves(Target.from_model(model, args, {}).sorted_model))
"""


@pytest.mark.slow
def test_order_of_leaves_is_the_same_in_every_process():
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(printed) == 1
    assert "30." in printed.pop()
