"""A fitted model that tests of several files share."""

import pytest
from glm_data import THREE, X, fit

import bayeskern as bk
from bayeskern import likelihoods as lk
from bayeskern import priors


@pytest.fixture(scope="module")
def ordered():
    return fit(bk.BayesianGLM(lk.Ordered(), prior=priors.Flat()), X, THREE)
