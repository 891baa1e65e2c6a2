"""Functions in a report whose inputs are levels or row numbers."""

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern.kernels import RBF, Categorical, Coregion, Precomputed
from bayeskern.likelihoods import Poisson
from bayeskern.reports import report

RNG = np.random.default_rng(0)
X = np.linspace(0.0, 10.0, 20)
OUTPUT = np.tile([0.0, 1.0], 10)
LENGTHSCALE = dist.LogNormal(0.0, 1.0)


def outputs():
    kernel = RBF(LENGTHSCALE).on([0]) * Coregion(2, weights=[[1.0], [40.0]], kappa=1.0).on([1])
    y = np.where(OUTPUT == 0, 1.0, 40.0) * np.sin(X)
    return bk.GPRegression(kernel, noise=0.1), np.column_stack([X, OUTPUT]), y


def many_outputs():
    """Eight outputs, more than a figure has room for."""
    kernel = RBF(LENGTHSCALE).on([0]) * Coregion(8, weights=1.0, kappa=1.0).on([1])
    return bk.GPRegression(kernel, noise=0.1), np.column_stack([X, np.arange(20) % 8]), np.sin(X)


def categories():
    kernel = RBF(LENGTHSCALE).on(["age"]) * Categorical(0.3).on(["city"])
    frame = pd.DataFrame({"age": X, "city": np.where(OUTPUT == 0, "Bonn", "Rome")})
    return bk.LatentGP(kernel, Poisson()), frame, RNG.poisson(3.0, 20)


def rows_of_a_matrix():
    root = RNG.normal(size=(25, 25))
    kernel = dist.HalfNormal(1.0) * Precomputed(root @ root.T)
    return bk.GPRegression(kernel, noise=0.1), np.arange(20.0), RNG.normal(size=20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "labels"),
    [
        (outputs, {"column 0, column 1 = 0", "column 0, column 1 = 1"}),
        (many_outputs, {"column 0, column 1 = 5", "The first 6 of 8 such functions are drawn."}),
        (categories, {"age, city = Bonn", "age, city = Rome"}),
        (rows_of_a_matrix, {"x"}),
    ],
)
def test_functions_are_drawn_at_the_levels_of_the_data(case, labels, tmp_path):
    # A section that cannot be made, such as by a point between two levels, warns and so fails.
    posterior = bk.infer(*case(), method="laplace", seed=0, progress=False)
    page = report(posterior, tmp_path / "report.html").read_text()
    assert all(f">{label}<" in page for label in labels)
