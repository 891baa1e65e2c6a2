"""Posterior simulation-based calibration: densities by hand, right and wrong methods, bad input."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.handlers import scale
from scipy.stats import beta, kstest

import bayeskern as bk
from bayeskern.diagnostics.calibration import experiments
from bayeskern.diagnostics.calibration.augmented import (
    REPLICATE,
    augmented_target,
    simulate_given,
)
from bayeskern.diagnostics.calibration.calibration import LIKELIHOOD
from bayeskern.inference.model.target import Target
from bayeskern.kernels import RBF
from bayeskern.protocols import DoesNotApplyError
from tests.compilations import compilations
from tests.diagnostics.calibration.known_posteriors import Y_MEAN, Conjugate, mean_of
from tests.marks import slow

rng = np.random.default_rng(0)
NORMAL = dist.Normal()


def augmented(model, args, data):
    """The target, and the target given one more data set."""
    target = Target.from_model(model, args, {})
    return target, augmented_target(target, {name: values[None] for name, values in data.items()})


# -- the density of both data sets -----------------------------------------------------------------


def groups(y, known, counts):
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("group", 3):
        theta = numpyro.sample("theta", dist.Normal(0.0, tau))
        with numpyro.plate("row", 4):
            numpyro.sample("y", dist.Normal(theta, 1.0).mask(known), obs=y)
        with scale(scale=2.0):
            numpyro.sample("counts", dist.Poisson(jnp.exp(theta)), obs=counts)
    numpyro.factor("penalty", -(jnp.sum(theta) ** 2))


def test_density_shares_latents_and_counts_factors_once():
    y, known = rng.normal(size=(4, 3)), rng.random((4, 3)) < 0.7
    new = {"y": rng.normal(size=(4, 3)), "counts": np.array([0, 4, 1])}
    target, both = augmented(groups, (y, known, np.array([1, 2, 3])), new)
    z = jnp.array([0.3, 0.1, -0.2, 0.5])
    theta = target.constrain(z)["theta"]
    # The second data set is neither scaled nor penalised, and masked where the first one is.
    expected = jnp.where(known, dist.Normal(theta, 1.0).log_prob(new["y"]), 0.0).sum()
    expected += dist.Poisson(jnp.exp(theta)).log_prob(new["counts"]).sum()
    found = both.log_density(z) - target.log_density(z)
    assert float(found) == pytest.approx(float(expected), rel=1e-12)
    assert [s.name for s in both.latents] == ["tau", "theta"]
    assert set(both.sites()) == set(target.sites()) | {f"y{REPLICATE}", f"counts{REPLICATE}"}


def steps(y):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))

    def step(before, y):
        return numpyro.sample("y", dist.Normal(a * before, 1.0), obs=y), None

    scan(step, 0.0, y)


def test_second_series_has_its_own_past():
    y, new, a = np.array([1.0, 2.0, 4.0]), np.array([0.5, -1.0, 3.0]), 0.7
    target, both = augmented(steps, (y,), {"y": new})
    expected = NORMAL.log_prob(new - a * np.r_[0.0, new[:-1]]).sum()
    found = both.log_density(jnp.array([a])) - target.log_density(jnp.array([a]))
    assert float(found) == pytest.approx(float(expected), rel=1e-12)


def measured(x, y):
    """A covariate with a distribution of its own, on which the outcome depends."""
    level = numpyro.sample("level", dist.Normal(0.0, 1.0))
    x = numpyro.sample("x", dist.Normal(level, 1.0).expand([3]), obs=x)
    numpyro.sample("y", dist.Normal(2.0 * x, 1.0), obs=y)


def test_second_outcome_depends_on_the_second_covariate():
    new = {"x": np.array([1.0, 0.0, -1.0]), "y": np.array([2.5, 0.5, -1.0])}
    target, both = augmented(measured, (np.zeros(3), np.ones(3)), new)
    z = jnp.array([0.4])
    expected = (
        NORMAL.log_prob(new["x"] - 0.4).sum() + NORMAL.log_prob(new["y"] - 2 * new["x"]).sum()
    )
    found = both.log_density(z) - target.log_density(z)
    assert float(found) == pytest.approx(float(expected), rel=1e-12)


def subsampled(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(y), subsample_size=2) as rows:
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y[rows])


@pytest.mark.slow
def test_second_data_set_is_not_subsampled():
    y, new = np.arange(5.0), np.arange(5.0) - 3.0
    target, both = augmented(subsampled, (y,), {"y": new})
    assert both.subsampled
    z = jnp.zeros(1)
    for found in (
        both.log_density(z) - target.log_density(z),
        both.noisy_log_density(z, jax.random.key(1))
        - target.noisy_log_density(z, jax.random.key(1)),
    ):
        assert float(found) == pytest.approx(float(NORMAL.log_prob(new).sum()), rel=1e-12)


def mixture(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0).expand([2]).to_event(1))
    with numpyro.plate("row", len(y)):
        k = numpyro.sample("k", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(mu[k], 1.0), obs=y)


@pytest.mark.slow
def test_discrete_latents_of_the_second_data_set_are_summed_out():
    pytest.importorskip("funsor")
    new = np.array([0.5, -1.0, 3.0])
    target, both = augmented(mixture, (np.array([0.0, 1.0, 2.0]),), {"y": new})
    z = jnp.array([0.2, 1.5])
    parts = NORMAL.log_prob(new[:, None] - z) + jnp.log(jnp.array([0.7, 0.3]))
    expected = jax.scipy.special.logsumexp(parts, axis=1).sum()
    found = both.log_density(z) - target.log_density(z)
    assert float(found) == pytest.approx(float(expected), rel=1e-12)


def states(y):
    p = numpyro.sample("p", dist.Uniform(0.0, 1.0))

    def step(before, y):
        x = numpyro.sample("x", dist.Bernoulli(jnp.where(before == 0, p, 1.0 - p)))
        return x, numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

    scan(step, 0, y)


@pytest.mark.slow
def test_discrete_states_of_a_scan_are_refused():
    pytest.importorskip("funsor")
    with pytest.raises(DoesNotApplyError, match="'x' is summed out beside a scan"):
        augmented(states, (np.zeros(4),), {"y": np.ones(4)})


@pytest.mark.slow
def test_new_data_come_from_each_draw():
    y = np.zeros((4, 3))
    target = Target.from_model(groups, (y, y == 0.0, np.zeros(3, int)), {})
    draws = {"tau": np.ones(400), "theta": np.tile([0.0, 1.0, 2.0], (400, 1))}
    data = simulate_given(target, draws, 1)
    error = 1.0 / np.sqrt(1600)
    np.testing.assert_allclose(data["y"].mean(axis=(0, 1)), [0.0, 1.0, 2.0], atol=4 * error)
    np.testing.assert_allclose(data["counts"].mean(axis=0), np.exp([0, 1, 2]), rtol=0.15)
    assert data["counts"].dtype.kind == "i"


# -- right and wrong methods -----------------------------------------------------------------------


@cache
def checked(simulations=200, **wrong):
    posterior = bk.infer(mean_of, Y_MEAN, method=Conjugate(**wrong), seed=3, progress=False)
    return bk.calibrate(posterior, simulations=simulations, seed=5, progress=False)


@pytest.mark.slow
def test_exact_posterior_is_calibrated():
    found = checked()
    assert found.at_data and not found.faults and min(found.p_values.values()) > 0.01
    assert found.verdict == "calibrated as far as 200 simulations can tell."
    assert repr(found).startswith("conjugate at these data: calibrated")
    # The truths are draws of the posterior N(2, 1/5), and a second data set halves the variance.
    assert found.truth["mu"].mean() == pytest.approx(2.0, abs=4 * np.sqrt(0.2 / 200))
    assert found.to_frame().loc["mu", "contraction"] == pytest.approx(1 - 5 / 9, abs=0.1)
    assert list(found.to_arviz().children) == ["posterior_sbc"]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"spread": 0.4}, "posterior too narrow"),
        slow({"shift": 1.0}, "posterior biased upwards"),
    ],
)
@pytest.mark.slow
def test_fault_of_a_wrong_posterior(wrong, named):
    assert checked(200, **wrong).faults["mu"] == named


@pytest.mark.slow
def test_z_scores_of_a_narrow_posterior_match_the_closed_form():
    # Truth ~ N(m, c^2 / 5) in N(m', c^2 / 9): z has variance (5 c^2 + 4) / (9 c^2).
    c = 0.4
    expected = np.sqrt((5 * c**2 + 4) / (9 * c**2))
    assert np.std(checked(200, spread=c).z_scores["mu"]) == pytest.approx(expected, rel=0.15)


@pytest.mark.slow
def test_method_that_ignores_the_new_data_is_found():
    # Truths and fits are draws of one distribution: their ranks are uniform, except for the log
    # likelihood, which is largest at the truth.
    found = checked(200, one_data_set=True)
    assert list(found.faults) == [LIKELIHOOD]


def pair(y):
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a + b, 1.0).expand([len(y)]), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["mean_field", "full_rank"])
def test_mean_field_is_too_narrow_for_correlated_parameters(guide):
    y = np.random.default_rng(1).normal(1.0, 1.0, 8)
    trusted = bk.infer(pair, y, method=bk.Laplace(), progress=False)
    found = bk.calibrate(trusted, method=bk.SVI(guide=guide), simulations=100, progress=False)
    narrow = dict.fromkeys(("a", "b"), "posterior too narrow")
    latents = {name: fault for name, fault in found.faults.items() if name != LIKELIHOOD}
    assert latents == (narrow if guide == "mean_field" else {})
    # The sd of a is 1/sqrt(17) instead of sqrt(17/33), and its mean is right.
    if guide == "mean_field":
        assert np.std(found.z_scores["a"]) == pytest.approx(17 / np.sqrt(33), rel=0.25)


def coin(y):
    p = numpyro.sample("p", dist.Beta(1.0, 1.0))
    numpyro.sample("y", dist.Binomial(60, p), obs=y)


@pytest.mark.slow
def test_fault_at_the_data_that_is_rare_under_the_prior():
    # Laplace's approximation is right for most counts of 60 tosses, and wrong for zero.
    over_prior = bk.calibrate(coin, 0, method="laplace", simulations=100, progress=False)
    assert not over_prior.faults
    trusted = bk.infer(coin, 0, method=bk.ImportanceSampling(draws=2000), progress=False)
    at_data = bk.calibrate(trusted, method="laplace", simulations=100, progress=False)
    assert "p" in at_data.faults


@pytest.mark.slow
def test_reliable_weights_correct_the_truths():
    # With four tosses, Laplace's draws are off and their weights are reliable.
    def few(y):
        p = numpyro.sample("p", dist.Beta(1.0, 1.0))
        numpyro.sample("y", dist.Binomial(4, p), obs=y)

    posterior = bk.infer(few, 1, method="laplace", progress=False)
    rows = experiments._truth_rows(posterior, 1000)
    # p | y ~ Beta(2, 4).
    truths, exact = posterior.flat["p"][rows], beta(2, 4)
    assert (
        kstest(truths, exact.cdf).statistic
        < 0.04
        < kstest(posterior.flat["p"], exact.cdf).statistic
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "y"),
    [(coin, np.array([7, 9])), (coin, 40)],
)
def test_importance_sampling_of_proportions_is_calibrated(model, y):
    posterior = bk.infer(model, y, method=bk.ImportanceSampling(draws=1000), progress=False)
    found = bk.calibrate(posterior, simulations=100, progress=False)
    assert not found.faults and not found.failures


@pytest.mark.slow
def test_hyperparameters_of_a_process_are_ranked():
    x = np.linspace(0.0, 5.0, 12)
    y = np.sin(x) + 0.1 * np.random.default_rng(2).normal(size=12)
    model = bk.GPRegression(RBF(dist.LogNormal(0.0, 1.0), 1.0), noise=0.01)
    posterior = bk.infer(model, x, y, method=bk.ImportanceSampling(draws=400), progress=False)
    found = bk.calibrate(posterior, simulations=40, progress=False)
    assert list(found.uniforms) == ["lengthscale", LIKELIHOOD] and not found.faults


@pytest.mark.slow
def test_weights_of_a_rotated_regression_are_ranked():
    X = rng.normal(size=(30, 2))
    y = rng.random(30) < 1.0 / (1.0 + np.exp(-X[:, 0]))
    model = bk.BayesianGLM(bk.likelihoods.Bernoulli(), prior=bk.priors.Gaussian(1.0))
    posterior = bk.infer(model, X, y, method=bk.Laplace(draws=500), progress=False)
    found = bk.calibrate(posterior, simulations=20, progress=False)
    assert {"weights[0]", "weights[1]", "intercept"} < set(found.uniforms)
    assert not any("axes" in name for name in found.uniforms)


@pytest.mark.slow
def test_second_simulation_compiles_nothing():
    posterior = bk.infer(coin, 7, method=bk.Laplace(draws=200), progress=False)
    bk.calibrate(posterior, simulations=10, progress=False)
    before = len(compilations)
    bk.calibrate(posterior, simulations=10, seed=1, progress=False)
    assert len(compilations) == before


def test_seed_determines_the_numbers():
    posterior = bk.infer(mean_of, Y_MEAN, method=Conjugate(), progress=False)
    runs = [bk.calibrate(posterior, simulations=12, seed=s, progress=False) for s in (1, 1, 2)]
    first, again, other = (run.uniforms["mu"] for run in runs)
    np.testing.assert_array_equal(first, again)
    assert np.all(first != other)


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_posterior_without_its_model_is_refused(tmp_path):
    posterior = bk.infer(coin, 7, method=bk.Laplace(draws=100), progress=False)
    posterior.save(tmp_path / "p.nc")
    with pytest.raises(ValueError, match=r"loaded without it\. Load it with bk\.load"):
        bk.calibrate(bk.load(tmp_path / "p.nc"))


@pytest.mark.slow
def test_loaded_posterior_is_checked_by_its_method(tmp_path):
    posterior = bk.infer(coin, 7, method=bk.Laplace(draws=100), progress=False)
    posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc", coin)
    assert bk.calibrate(loaded, simulations=10, progress=False).method == "laplace"


@pytest.mark.slow
def test_point_and_closed_form_are_refused():
    point = bk.infer(coin, 7, method="map", progress=False)
    with pytest.raises(ValueError, match="'map' gives a point"):
        bk.calibrate(point)
    exact = bk.infer(bk.BetaBernoulli(1.0, 1.0), [1, 1, 0, 1], method="exact", progress=False)
    with pytest.raises(DoesNotApplyError, match=r"closed form.*method='nuts'"):
        bk.calibrate(exact)


def only_factor(y):
    mu = numpyro.sample("mu", NORMAL)
    numpyro.factor("likelihood", NORMAL.log_prob(y - mu).sum())


@pytest.mark.slow
def test_models_that_cannot_draw_their_data_are_refused():
    posterior = bk.infer(only_factor, Y_MEAN, method="laplace", progress=False)
    with pytest.raises(DoesNotApplyError, match="cannot be drawn from only_factor"):
        bk.calibrate(posterior)
    X = rng.normal(size=(20, 2))
    model = bk.BayesianLinearRegression(prior=bk.priors.Gaussian(1.0))
    posterior = bk.infer(model, X, X[:, 0], method="laplace", progress=False)
    with pytest.raises(DoesNotApplyError, match="with latents integrated out"):
        bk.calibrate(posterior)


def test_options_are_checked():
    posterior = bk.infer(mean_of, Y_MEAN, method=Conjugate(), progress=False)
    with pytest.raises(TypeError, match="takes no others"):
        bk.calibrate(posterior, Y_MEAN)
    with pytest.raises(ValueError, match="at least 10"):
        bk.calibrate(posterior, simulations=5)
    with pytest.raises(ValueError, match="has 1000 draws, and each of simulations=2000"):
        bk.calibrate(posterior, simulations=2000)
    with pytest.raises(ValueError, match="'map' gives a point"):
        bk.calibrate(posterior, method="map")
    unknown = dataclasses.replace(posterior, made_by=None)
    with pytest.raises(ValueError, match="cannot repeat the method 'conjugate'"):
        bk.calibrate(unknown)
