"""Unknown methods and invalid options of all methods are refused."""

import numpy as np
import pytest

import bayeskern as bk
from bayeskern import NUTS, SMC, SVI, ImportanceSampling, Laplace
from bayeskern.inference import METHODS

COUNTS = [(method, name) for method in METHODS.values() for name in method.counts]


@pytest.mark.parametrize(("method", "name"), COUNTS, ids=str)
def test_counts_are_whole_numbers_of_at_least_one(method, name):
    for value in (0, 2.5, 1e3, True, "20"):
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, got"):
            method(**{name: value})


UNTIL = "until must be a text such as 'ess=1000'"


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        (ImportanceSampling, {"proposal": "laplce"}, "Did you mean 'laplace'"),
        (ImportanceSampling, {"tails": 0.0}, "tails must be degrees of freedom above 0"),
        (ImportanceSampling, {"tails": -1}, "tails must be degrees of freedom above 0"),
        (ImportanceSampling, {"tails": np.nan}, "tails must be degrees of freedom"),
        (ImportanceSampling, {"adapt": -1}, "adapt must be a number of rounds"),
        (ImportanceSampling, {"adapt": 1.5}, "adapt must be a number of rounds"),
        (Laplace, {"hessian": "gaus_newton"}, "Did you mean 'gauss_newton'"),
        (SVI, {"guide": "fullrank"}, "Did you mean 'full_rank'"),
        (SVI, {"guide": None}, "guide=None is not known"),
        (SVI, {"gradient": "scores"}, "Did you mean 'score'"),
        (SVI, {"objective": "reverse"}, "Did you mean 'reverse_kl'"),
        (SVI, {"guide": "flow", "objective": "forward_kl"}, "moments of a Gaussian"),
        (SVI, {"guide": "flow", "gradient": "score"}, "gradient='pathwise'"),
        (SMC, {"particles": 1001}, "must be a multiple of islands"),
        (SMC, {"particles": 8}, "at least 2 for each island; got 8"),
        (SMC, {"islands": 1}, "islands must be at least 2, got 1"),
        (SMC, {"min_ess": 1.0}, "min_ess must be a probability"),
        (NUTS, {"target_accept": 1.0}, "target_accept must be a probability"),
        (NUTS, {"target_accept": 80}, "target_accept must be"),
        (NUTS, {"chain_method": "paralel"}, "Did you mean 'parallel'"),
        (NUTS, {"until": "ess=100, rhat=1"}, "rhat must be above 1"),
        *((NUTS, {"until": text}, UNTIL) for text in ("ess", "ess=0", "rhat=1.01", "ess=many", "")),
        (NUTS, {"until": "ess=100, khat=0.7"}, UNTIL),
    ],
)
def test_invalid_options_are_refused(method, options, message):
    with pytest.raises(ValueError, match=message):
        method(**options)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("hmc", "is not known.*Choose from auto, exact, map, mle"),
        ("laplce", "Did you mean 'laplace'"),
        ("mpa", "Did you mean 'map'"),
    ],
)
def test_unknown_method_is_refused_with_the_names(method, message):
    with pytest.raises(ValueError, match=message):
        bk.infer(lambda: None, method=method)
    with pytest.raises(TypeError, match=", ".join(METHODS)):
        bk.infer(lambda: None, method=3)
