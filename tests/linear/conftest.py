"""A fitted model that tests of several files share."""

import pytest

import bayeskern as bk
from bayeskern import likelihoods as lk
from bayeskern import priors
from tests.linear.glm_data import THREE, X, fit


@pytest.fixture(scope="module")
def ordered():
    return fit(bk.BayesianGLM(lk.Ordered(), prior=priors.Flat()), X, THREE)
