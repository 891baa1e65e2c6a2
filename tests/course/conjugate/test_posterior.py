"""Posterior, evidence and updates in closed form, against SciPy and against other methods."""

from dataclasses import fields
from fractions import Fraction

import jax
import numpy as np
import pytest
from numpyro.infer import Predictive
from numpyro.infer.util import log_density
from scipy import stats

import bayeskern as bk
from tests.course.conjugate.families import FAMILIES, HEIGHTS, MARGINALS, infer
from tests.marks import few

ALL = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
SOME = pytest.mark.parametrize("name", few(FAMILIES, "BetaBernoulli", "NormalGamma"))


def parameters(model) -> np.ndarray:
    """The numbers of the prior."""
    names = [field.name for field in fields(model) if field.name != "seen"]
    return np.concatenate([np.atleast_1d(getattr(model, name)) for name in names])


# -- against SciPy ---------------------------------------------------------------------------------


@SOME
def test_posterior_is_prior_times_likelihood_over_evidence(name):
    family = FAMILIES[name]
    posterior, evidence = family.fit(), family.evidence(family)
    np.testing.assert_allclose(posterior.log_evidence.value, evidence, rtol=1e-9)
    expected = family.prior(family.model.update(family.y, **family.extra))
    # Anywhere: at draws of the posterior too.
    for i in range(5):
        theta = {name: draws[i] for name, draws in posterior.flat.items()}
        np.testing.assert_allclose(
            expected(theta), family.log_joint(theta) - evidence, rtol=1e-8, atol=1e-8
        )


@SOME
def test_log_density_of_the_numpyro_model(name):
    family = FAMILIES[name]
    theta = {name: draws[0] for name, draws in family.fit().flat.items()}
    found, _ = log_density(family.model, (family.y,), family.extra, theta)
    np.testing.assert_allclose(found, family.log_joint(theta), rtol=1e-10)


@SOME
def test_draws_follow_the_posterior(name):
    draws = FAMILIES[name].fit(seed=4).flat
    for site, marginals in MARGINALS[name].items():
        columns = draws[site].reshape(len(draws[site]), -1).T
        for column, marginal in zip(columns, np.ravel(marginals), strict=True):
            assert stats.kstest(column, marginal.cdf).pvalue > 1e-3


def test_normal_gamma_mean_is_student_t():
    # Murphy (2007), section 3.
    model = FAMILIES["NormalGamma"].model.update(HEIGHTS)
    scale = np.sqrt(model.b / (model.a * model.strength))
    mu = FAMILIES["NormalGamma"].fit(seed=4).flat["mu"]
    assert stats.kstest(mu, stats.t(2 * model.a, model.mean, scale).cdf).pvalue > 1e-3


def test_dirichlet_of_two_classes_is_beta():
    throws = [1, 0, 1, 1]
    die = infer(bk.DirichletCategorical([3.0, 2.0]), throws, method="exact")
    coin = infer(bk.BetaBernoulli(2.0, 3.0), throws, method="exact")
    np.testing.assert_allclose(die.log_evidence.value, coin.log_evidence.value, rtol=1e-12)
    np.testing.assert_allclose(die.predict(2).mean, coin.predict(2).mean, rtol=1e-12)


@pytest.mark.slow
def test_data_far_from_zero_keep_precision():
    y, mean = 1e7 + HEIGHTS, 1e7 + 1.0
    model = bk.NormalGamma(mean, 1.5, 3.0, 2.0).update(y)
    exact = [Fraction(value) for value in y]
    ybar = sum(exact) / 5
    squares = sum((value - ybar) ** 2 for value in exact)
    b = 2 + squares / 2 + Fraction(15, 26) * (ybar - Fraction(mean)) ** 2
    np.testing.assert_allclose(model.b, float(b), rtol=1e-8)
    for near in (FAMILIES["NormalGamma"], FAMILIES["NormalNormal"]):
        far = near.model.__class__(mean, *parameters(near.model)[1:])
        found = infer(far, y, method="exact").log_evidence.value
        np.testing.assert_allclose(found, near.evidence(near), rtol=1e-7)


# -- updates ---------------------------------------------------------------------------------------


def part(family, rows):
    return family.y[rows], {name: value[rows] for name, value in family.extra.items()}


@pytest.mark.slow
@ALL
def test_updates_in_parts_equal_one_update(family):
    order, model = np.random.default_rng(2).permutation(len(family.y)), family.model
    for rows in (order[:1], order[1:]):
        y, extra = part(family, rows)
        before, model = model, model.update(y, **extra)
    at_once = family.model.update(family.y, **family.extra)
    np.testing.assert_allclose(parameters(model), parameters(at_once), rtol=1e-12)
    once = family.fit()
    for posterior in (infer(before, y, method="exact", **extra), infer(model, method="exact")):
        np.testing.assert_allclose(
            posterior.log_evidence.value, once.log_evidence.value, rtol=1e-12
        )
        np.testing.assert_allclose(posterior.predict(2).mean, once.predict(2).mean, rtol=1e-12)


@SOME
def test_log_density_includes_earlier_updates(name):
    family = FAMILIES[name]
    y, extra = part(family, slice(2))
    new, new_extra = part(family, slice(2, None))
    theta = {name: draws[0] for name, draws in family.fit().flat.items()}
    found, _ = log_density(family.model.update(y, **extra), (new,), new_extra, theta)
    np.testing.assert_allclose(found, family.log_joint(theta), rtol=1e-10)


@pytest.mark.slow
def test_updated_model_without_new_data(tmp_path):
    model = bk.BetaBernoulli(2.0, 2.0).update([1, 0, 1])
    posterior = infer(model, method="exact")
    assert set(posterior.to_arviz().posterior.data_vars) == {"p"}
    posterior.save(tmp_path / "seen.nc")
    loaded = bk.load(tmp_path / "seen.nc", model=model)
    np.testing.assert_array_equal(loaded.predict(2).mean, posterior.predict(2).mean)


@pytest.mark.slow
def test_save_and_load_with_exposures(tmp_path):
    family = FAMILIES["exposures"]
    posterior = family.fit()
    posterior.save(tmp_path / "fit.nc")
    loaded = bk.load(tmp_path / "fit.nc", model=family.model)
    np.testing.assert_array_equal(loaded.draws["rate"], posterior.draws["rate"])
    np.testing.assert_array_equal(loaded.predict().mean, posterior.predict().mean)


# -- other methods ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_mode_of_a_beta_posterior():
    # Of Beta(7, 5.5): (a - 1) / (a + b - 2).
    p = FAMILIES["BetaBernoulli"].fit("map").draws["p"]
    np.testing.assert_allclose(p.item(), 6.0 / 10.5, rtol=1e-6)


@pytest.mark.slow
def test_laplace_is_exact_for_normals():
    family = FAMILIES["NormalNormal"]
    found, after = family.fit("laplace"), family.model.update(family.y)
    np.testing.assert_allclose(found.optimum.z, [after.mean], rtol=1e-7)
    np.testing.assert_allclose(found.optimum.hessian, [[1.0 / after.variance]], rtol=1e-7)
    np.testing.assert_allclose(found.log_evidence.value, family.evidence(family), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BetaBernoulli", "exposures", "NormalGamma"])
def test_nuts_agrees_with_the_exact_posterior(name):
    family = FAMILIES[name]
    exact, chains = family.fit(), family.fit("nuts")
    assert chains.trust.verdict == "good"
    for site, draws in exact.flat.items():
        found = chains.flat[site]
        shift = (found.mean(axis=0) - draws.mean(axis=0)) / draws.std(axis=0)
        ratio = found.std(axis=0) / draws.std(axis=0)
        assert np.max(np.abs(shift)) < 0.15 and np.max(np.abs(np.log(ratio))) < 0.15
    np.testing.assert_array_equal(chains.predict().mean, exact.predict().mean)


def test_prior_predictive_draws_by_numpyro():
    model = bk.GammaPoisson(3.0, 2.0)
    y = Predictive(model, num_samples=4000)(jax.random.key(0), exposure=2.0)["y"]
    expected = stats.nbinom(3, 2 / (2 + 2))
    assert y.shape == (4000, 1)
    assert abs(y.mean() - expected.mean()) < 4 * expected.std() / np.sqrt(4000)
