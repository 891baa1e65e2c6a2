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
    assert name in likelihoods.__all__, f"export {name} in bayeskern/likelihoods/__init__.py"
    assert getattr(likelihoods, name) is likelihood
    entry = f"::: bayeskern.likelihoods.{name}\n"
    listed = entry in (DOCS / "api/likelihoods.md").read_text() + "\n"
    assert listed, f"docs/api/likelihoods.md lacks the line {entry}"
    for link in likelihood.links:
        has_case = f"{name}-{link}" in CASES or name in SEVERAL
        assert has_case, f"tests/likelihoods/families.py has no case of {name} with link {link!r}"


@pytest.mark.parametrize("likelihood", ANALYTIC)
def test_every_likelihood_of_forecasts_is_documented_and_tested(likelihood):
    name = likelihood.forecast_name()
    assert name in THETAS, f"THETAS in tests/likelihoods/families.py lacks {name!r}"
    assert len(THETAS[name]) == len(likelihood.middle) == len(likelihood().names)
    for page in ("howto/counts.md", "forecasting.md"):
        documented = f'"{name}"' in (DOCS / page).read_text()
        assert documented, f'docs/{page} does not mention the likelihood "{name}"'


@pytest.mark.parametrize("name", sorted({*likelihoods.__all__} - {"Likelihood"}))
def test_every_public_likelihood_is_complete(name):
    """A class that lacks a method is not registered, so that no other test sees it."""
    missing = getattr(getattr(likelihoods, name), "__abstractmethods__", ())
    assert not missing, f"{name} lacks {', '.join(sorted(missing))}"


def test_forecasts_take_a_likelihood_of_your_own():
    class Rare(likelihoods.Poisson):
        pass

    assert type(Analytic.by_name()["rare"]) is Rare
    Likelihood._classes.remove(Rare)
