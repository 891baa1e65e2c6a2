"""Posteriors with exact moments: a wrong fit is never called good.

Needles, modes with hardly any prior draw in their basins, are left out. Without a posterior
no fit is right. `python -m benchmarks.zoo` counts the right fits that are called good.
"""

import numpy as np
import pytest

import bayeskern as bk
from bayeskern.protocols import DoesNotApplyError
from tests.inference.methods.cases import DRAWING
from tests.inference.zoo.mixtures import random_mixture
from tests.inference.zoo.posterior import is_right
from tests.inference.zoo.zoo import BY_NAME, POSTERIORS, seeds

NAMES = [*DRAWING, "auto"]
SEEDS = range(3)
SEEDS_OF_LONG_RUN = 20
# One of each kind of difficulty that takes a second or less.
CHEAP = (
    ("logistic regression", "laplace"),
    ("tau near zero, centred", "laplace"),
    ("square", "laplace"),
    ("NaN outside a disc", "importance"),
    ("StudentT(1.5), two points", "importance"),
    ("mixture, 8 d, sds 0.5 and 2.0", "importance"),
)


def assert_not_wrongly_good(name, method, seed):
    posterior = BY_NAME[name]
    try:
        fit = bk.infer(posterior.model, *posterior.args, method=method, seed=seed, progress=False)
    except DoesNotApplyError:
        return
    except ValueError:
        # A proper posterior must be fitted.
        if posterior.truth is not None:
            raise
        return
    assert fit.trust.verdict != "good" or posterior.is_right(fit.draws)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), CHEAP)
def test_wrong_fits_are_not_called_good(name, method):
    assert_not_wrongly_good(name, method, seed=0)


@pytest.mark.slow
@pytest.mark.usefixtures("_few_executables_each")
@pytest.mark.parametrize("name", [p.name for p in POSTERIORS if "200 d" not in p.name])
def test_wrong_fits_are_not_called_good_by_auto(name):
    assert_not_wrongly_good(name, "auto", seed=0)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("_few_executables_each")
@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("name", [p.name for p in POSTERIORS])
def test_wrong_fits_are_not_called_good_by_any_method(name, method):
    """All of them together take hours."""
    for seed in seeds(BY_NAME[name], SEEDS_OF_LONG_RUN):
        assert_not_wrongly_good(name, method, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [18, 6])
def test_narrow_modes_with_small_basins_are_found(seed):
    mixture = random_mixture(seed)
    posterior = bk.infer(mixture.model, method="importance", seed=seed, progress=False)
    assert posterior.trust.verdict == "good"
    assert is_right(posterior.draws["x"], mixture.mean, mixture.sd)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_findings_of_an_assessment_are_visited(seed):
    """Laplace's method sees the narrow distribution alone, and its assessment the wide one."""
    concentric = BY_NAME["concentric normals, 10 d"]
    posterior = bk.infer(concentric.model, seed=seed, progress=False)
    assert concentric.is_right(posterior.draws) or posterior.trust.verdict != "good"
    assert posterior.method == "nuts"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["lattice, 2 d", "lattice, 3 d"])
def test_unvisited_modes_are_not_good(name, seed):
    lattice = BY_NAME[name]
    posterior = bk.infer(lattice.model, method="nuts", seed=seed, progress=False)
    assert lattice.is_right(posterior.draws) or posterior.trust.verdict != "good"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nuts", "auto"])
def test_improper_posterior_is_bad(method):
    separable = BY_NAME["separable logistic regression"]
    posterior = bk.infer(separable.model, *separable.args, method=method, seed=0, progress=False)
    assert posterior.trust.verdict == "bad" and "run away" in posterior.trust.advice


def test_is_right_compares_moments():
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, (4, 1000, 2))
    assert is_right(x, [3.0, 3.0], [2.0, 2.0])
    assert not is_right(x, [3.0, 3.0], [2.0, 2.6])
    assert not is_right(x, [3.0, 2.4], [2.0, 2.0])
    assert not is_right(np.full_like(x, np.nan), [3.0, 3.0], [2.0, 2.0])
