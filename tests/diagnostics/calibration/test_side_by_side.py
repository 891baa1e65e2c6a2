"""Fits in batches equal single fits."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.diagnostics.calibration.refit import FITS_AT_ONCE, refit
from bayeskern.diagnostics.calibration.simulation_based import calibrate
from bayeskern.inference import SVI
from bayeskern.inference.approximation.elbo import Batched, maximize_elbo
from bayeskern.inference.approximation.guides import GaussianGuide
from bayeskern.inference.model.bound import BoundModel
from tests.compilations import compilations

ROWS, COUNT = 5, FITS_AT_ONCE + 3
DATA = {"y": np.random.default_rng(0).normal(1.0, 2.0, (COUNT, ROWS))}
SEEDS = list(range(COUNT))


def two_levels(y):
    """Gaussian posterior with precision [[ROWS + 1, ROWS], [ROWS, ROWS + 1]]."""
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a + b, 1.0).expand([len(y)]), obs=y)


def heavy(y):
    """Non-Gaussian posterior, so that each fit takes other steps."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    sd = numpyro.sample("sd", dist.HalfNormal(2.0))
    numpyro.sample("y", dist.StudentT(3.0, mu, sd).expand([len(y)]), obs=y)


def fits(method, model=two_levels, data=DATA):
    bound = BoundModel.from_model(model, (data["y"][0],), {})
    return refit(bound, bound.target(), data, method, SEEDS)


class Counted(SVI):
    """Records the size of each batch, and fails for infinite data."""

    def _start(self, target, seed, progress):
        if np.isinf(target.args[0]["y"]).any():
            raise ValueError("there is infinity in the data.")
        return super()._start(target, seed, progress)

    def _finish(self, started, progress):
        batches.append(len(started))
        return super()._finish(started, progress)


batches = []


@pytest.mark.slow
def test_batched_posteriors_match_the_closed_form():
    sd = np.sqrt((ROWS + 1) / (2 * ROWS + 1))
    for i, fit in enumerate(fits(SVI())):
        found, mean = fit().approximation, DATA["y"][i].sum() / (2 * ROWS + 1)
        np.testing.assert_allclose(found.means[0], mean, atol=0.05 * sd)
        covariance = found.trils[0] @ found.trils[0].T
        np.testing.assert_allclose(np.sqrt(np.diag(covariance)), sd, rtol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"guide": "mean_field"},
        {"guide": "flow"},
        {"gradient": "score"},
        {"objective": "forward_kl"},
        {"steps": 250},
    ],
)
def test_batched_fits_equal_single_fits(options):
    for i, fit in enumerate(fits(SVI(**options), heavy)):
        if i in (0, FITS_AT_ONCE - 1, COUNT - 1):
            found = fit()
            one = bk.infer(heavy, DATA["y"][i], method=SVI(**options), seed=i, progress=False)
            np.testing.assert_allclose(found.z, one.z, rtol=1e-6, atol=1e-6)
            assert len(found.trace.get("elbo", ())) == len(one.trace.get("elbo", ()))
            assert found.trust.verdict == one.trust.verdict


@pytest.mark.slow
def test_batched_fits_stop_at_their_own_steps():
    target = BoundModel.from_model(two_levels, (DATA["y"][0],), {}).target()
    # Steps are about 0.05, so a start 30 away needs hundreds of them.
    families = [GaussianGuide("full_rank", jnp.full(2, start), jnp.eye(2)) for start in (0.0, 30.0)]
    near, far = maximize_elbo(families, [target] * 2, [0, 1], "pathwise", [0.05], 20_000, False)
    assert not near.doubt and not far.doubt
    assert len(near.trace) < len(far.trace)
    for family, maximum in zip(families, (near, far), strict=True):
        found = family.approximation(maximum.params).means[0]
        np.testing.assert_allclose(found, DATA["y"][0].sum() / (2 * ROWS + 1), atol=0.05)


@pytest.mark.slow
def test_batches_have_one_shape():
    batches.clear()
    assert len(list(fits(Counted()))) == COUNT
    assert batches == [FITS_AT_ONCE, FITS_AT_ONCE]
    before = len(compilations)
    list(fits(Counted()))
    assert len(compilations) == before


@pytest.mark.slow
def test_failed_fit_leaves_the_others_unchanged():
    wrong = {"y": DATA["y"].copy()}
    wrong["y"][2] = np.inf
    for i, (fit, sound) in enumerate(zip(fits(Counted(), data=wrong), fits(SVI()), strict=True)):
        if i == 2:
            with pytest.raises(ValueError, match="there is infinity"):
                fit()
        else:
            np.testing.assert_allclose(fit().z, sound().z, rtol=1e-6, atol=1e-6)


def wide(y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([1100]).to_event(1))
    numpyro.sample("y", dist.Normal(w[:ROWS], 1.0), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "rows"), [(two_levels, 1100), (wide, ROWS)])
def test_large_problems_are_fitted_one_by_one(model, rows):
    # Covariance matrices of the observations, or of the guide, would fill the memory.
    batches.clear()
    method = Counted(guide="mean_field", steps=1, draws=2)
    next(fits(method, model, {"y": np.zeros((COUNT, rows))}))()
    assert batches == [1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [int, bool])
def test_batches_of_scalars(kind):
    # Beta(2 + heads, 2 + tails).
    total = 1 if kind is bool else 100

    def coin(heads):
        p = numpyro.sample("p", dist.Beta(2.0, 2.0))
        law = dist.Bernoulli(p) if kind is bool else dist.Binomial(total, p)
        numpyro.sample("heads", law, obs=heads)

    heads = np.arange(COUNT) % 2 == 0 if kind is bool else 9 * np.arange(COUNT)
    heads = heads.astype(kind)
    bound = BoundModel.from_model(coin, (heads[0].item(),), {})
    for i, fit in enumerate(refit(bound, bound.target(), {"heads": heads}, SVI(), SEEDS)):
        a, b = 2.0 + heads[i], 2.0 + total - heads[i]
        sd = np.sqrt(a * b / (a + b + 1.0)) / (a + b)
        assert abs(fit().flat["p"].mean() - a / (a + b)) < 0.3 * sd


@pytest.mark.slow
def test_batches_with_several_sites():
    def sites(y, count):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)
        numpyro.sample("z", dist.Normal(mu, 0.5), obs=count)

    bound = BoundModel.from_model(sites, (DATA["y"][0], 1.0), {})
    data = {"y": DATA["y"], "z": np.arange(COUNT) % 3}
    for i, fit in enumerate(refit(bound, bound.target(), data, SVI(), SEEDS)):
        precision = 1.0 + ROWS + 4.0
        mean = (DATA["y"][i].sum() + 4.0 * data["z"][i]) / precision
        np.testing.assert_allclose(fit().approximation.means[0], mean, atol=0.02)


def test_shared_arrays_are_not_copied():
    table, rows = jnp.zeros(1000), [jnp.full(3, float(i)) for i in range(4)]
    stack = Batched.from_items([{"table": table, "row": row, "n": 2} for row in rows])
    assert stack.shared["table"] is table and stack.stacked["table"] is None
    np.testing.assert_array_equal(stack.stacked["row"], np.stack(rows))
    with pytest.raises(ValueError, match="differ in more than arrays"):
        Batched.from_items([{"n": 1}, {"n": 2}])


# -- methods without batches -----------------------------------------------------------------------


def regression(x, y):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def amortised(x, y):
    """Guide with the exact posterior mean, if it gets the simulated data."""
    width = numpyro.param("width", 0.5, constraint=dist.constraints.positive)
    numpyro.sample("slope", dist.Normal((x @ y) / (1.0 + x @ x), width))


@pytest.mark.slow
def test_hand_written_guide_gets_simulated_data():
    x = np.linspace(-1.0, 2.0, ROWS)
    bound = BoundModel.from_model(regression, (x, DATA["y"][0]), {})
    found = list(refit(bound, bound.target(), DATA, SVI(guide=amortised), SEEDS))
    for i in (0, COUNT - 1):
        sd = 1.0 / np.sqrt(1.0 + x @ x)
        slope = found[i]().flat["slope"]
        assert abs(slope.mean() - sd**2 * (x @ DATA["y"][i])) < 0.05 * sd
        assert slope.std() == pytest.approx(sd, rel=0.05)


def test_hand_written_guide_without_data_is_refused():
    def shifted(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y + 1.0)

    with pytest.raises(ValueError, match=r"no argument of the model holds .* without a hand"):
        calibrate(shifted, np.ones(3), np.ones(3), method=SVI(guide=amortised), simulations=10)


@pytest.mark.slow
def test_subclass_of_svi_runs_its_own_method():
    class Silent(SVI):
        def run(self, target, seed, progress):
            seen.append(seed)
            return super().run(target, seed, progress)

    seen = []
    next(fits(Silent(steps=1, draws=2)))()
    assert seen == [0]


@pytest.mark.slow
def test_calibration_in_batches():
    # About one seed in a hundred is a false alarm.
    right = calibrate(
        two_levels, DATA["y"][0], method="svi", simulations=60, progress=False, seed=2
    )
    assert not right.faults and right.verdicts == {"good": 60}
    # The best diagonal Gaussian has 1 / 6 of the variance in place of 6 / 11.
    narrow = calibrate(
        two_levels, DATA["y"][0], method=SVI(guide="mean_field"), simulations=60, progress=False
    )
    assert narrow.faults["a"] == narrow.faults["b"] == "posterior too narrow"
