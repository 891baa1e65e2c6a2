"""The verdict on draws from two regions of known quality."""

from types import SimpleNamespace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayeskern.inference.assessment.regions import assess_regions
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import Explored, Region


def normal():
    numpyro.sample("x", dist.Normal(0.0, 10.0))


def assessed(diverging=0, saturated=0, share_error=0.001, left=0):
    """2,000 independent draws, half of them 8 sds from the others."""
    rng = np.random.default_rng(0)
    places = [rng.normal(size=(2, 500, 1)), 8.0 + rng.normal(size=(2, 500, 1))]
    share = Estimate(0.5, share_error)
    regions = [Region((0, 1), places[0], share), Region((), places[1], share)]

    def stats(diverging, saturated):
        numbers = np.arange(1000).reshape(2, 500)
        return {
            "diverging": numbers < diverging,
            "energy": rng.normal(size=(2, 500)),
            "reached_max_treedepth": numbers < saturated,
        }

    z = np.concatenate(places, axis=1)
    z = rng.permutation(z.reshape(-1, 1)).reshape(4, 500, 1)
    posterior = SimpleNamespace(
        z=z,
        flat={"x": z.reshape(-1)},
        sample_stats={"diverging": np.zeros((4, 500), bool)},
        fitted_target=Target.from_model(normal, (), {}),
    )
    each = [stats(diverging, saturated), stats(0, 0)]
    return assess_regions(posterior, Explored(regions, left), each)


@pytest.mark.parametrize(
    ("options", "verdict", "says"),
    [
        ({}, "good", "each of the 2 regions agree"),
        ({"diverging": 15}, "caution", "15 of 2000 draws diverged"),
        ({"diverging": 30}, "bad", "30 of 2000 draws diverged"),
        ({"saturated": 90}, "good", "agree"),
        ({"saturated": 150}, "caution", "150 draws stopped at the largest tree"),
        # Half of the sd of the mixture, which is 4.1, for every 0.25 of a share.
        ({"share_error": 0.25}, "caution", "uncertain by 0.25"),
    ],
)
def test_verdicts(options, verdict, says):
    trust = assessed(**options)
    assert (trust.verdict, says in trust.advice) == (verdict, True), trust


def test_unvisited_points_are_bad():
    trust = assessed(left=3)
    assert trust.verdict == "bad" and "3 more points" in trust.advice
    assert trust.evidence["places_left"] == 3
