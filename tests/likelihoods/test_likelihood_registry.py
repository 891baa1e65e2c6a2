"""Every likelihood has its cases in the tables of the tests, and its place in the documentation."""

from pathlib import Path

import pytest

from bayeskern import likelihoods
from bayeskern.likelihoods import Likelihood
from bayeskern.likelihoods.analytic import Analytic
from tests.likelihoods.families import CASES, SEVERAL, THETAS

OWN = [c for c in Likelihood.registered() if c.__module__.startswith("bayeskern.")]
ANALYTIC = [c for c in OWN if issubclass(c, Analytic)]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("likelihood", OWN)
def test_every_likelihood_is_public_documented_and_tested(likelihood):
    name = likelihood.__name__
    assert getattr(likelihoods, name) is likelihood and name in likelihoods.__all__
    assert f"::: bayeskern.likelihoods.{name}\n" in (DOCS / "api/likelihoods.md").read_text() + "\n"
    for link in likelihood.links:
        assert f"{name}-{link}" in CASES or name in SEVERAL, "no case in families.py"


@pytest.mark.parametrize("likelihood", ANALYTIC)
def test_every_likelihood_of_forecasts_is_documented_and_tested(likelihood):
    name = likelihood.forecast_name()
    assert len(THETAS[name]) == len(likelihood.middle) == len(likelihood().names)
    assert f'"{name}"' in (DOCS / "howto/counts.md").read_text()
    assert f'"{name}"' in (DOCS / "forecasting.md").read_text()


def test_forecasts_take_a_likelihood_of_your_own():
    class Rare(likelihoods.Poisson):
        pass

    assert type(Analytic.by_name()["rare"]) is Rare
    Likelihood._classes.remove(Rare)
