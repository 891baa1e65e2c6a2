"""Iris versicolor or virginica by petal size: a Gaussian process classifier.

Fisher (1936), "The use of multiple measurements in taxonomic problems"; 50 flowers of each, lengths
and widths in cm. The two species overlap only in a narrow band: a linear discriminant errs on 6 of
the 100 flowers, and leave-one-out predictions of any sensible classifier on 4 to 7 of them.

Most methods integrate out the latent function by Laplace's approximation, which `posterior.trust`
assesses too; "nuts", "svi" and "pathfinder" sample it.
"""

import numpy as np
import numpyro.distributions as dist
from sklearn.datasets import load_iris

import bayeskern as bk
from bayeskern.kernels import RBF


def data():
    """Petal length and width in cm (100, 2), and whether the flower is a virginica (100,)."""
    flowers = load_iris()
    rows = flowers.target > 0
    return flowers.data[rows, 2:], flowers.target[rows] == 2


kernel = RBF(
    lengthscale=dist.InverseGamma(3.0, 4.0).expand([2]).to_event(1),
    variance=dist.HalfNormal(20.0),
)
model = bk.LatentGP(kernel, bk.likelihoods.Bernoulli())


def problem():
    """To predict: a small flower, one in between, and a large one."""
    return bk.Problem(model, data(), predict=(np.array([[4.0, 1.2], [4.9, 1.65], [6.0, 2.2]]),))
