"""Linear regressions of several outputs that share X, against one regression for each."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy.integrate import trapezoid
from scipy.stats import expon, halfnorm, invgamma, multivariate_normal, norm
from scipy.stats import t as student

import bayeskern as bk
from bayeskern import likelihoods, priors
from bayeskern.linear.collapsed import CollapsedModel, linear_gaussian
from tests.linear.regression_data import INFERRED, KNOWN, NEW, SCALES, N, X, Y, blr, fit, gaussian
from tests.marks import few

RNG = np.random.default_rng(9)
SEVERAL = np.column_stack([Y, 0.3 * Y[::-1] - 2.0, RNG.normal(size=N)])
Z = np.column_stack([np.ones(5), NEW])


@pytest.mark.slow
def test_known_scales_against_scipy():
    posterior = fit(blr(**KNOWN), X, SEVERAL)
    each = [gaussian(SCALES, 5.0, 0.8, X, y) for y in SEVERAL.T]
    mean = np.stack([m for m, _, _ in each])
    covariance = each[0][1]
    evidence = sum(evidence for _, _, evidence in each)
    assert posterior.log_evidence.value == pytest.approx(evidence, rel=1e-10)
    assert posterior.trust.verdict == "good"
    assert posterior.flat["weights"].shape == (4000, 3, 3)
    assert posterior.flat["intercept"].shape == (4000, 3)
    draws = np.concatenate(
        [posterior.flat["intercept"][..., None], posterior.flat["weights"]], axis=-1
    )
    # White draws of all outputs, which are independent of one another.
    L = np.linalg.cholesky(covariance)
    white = np.linalg.solve(L, (draws - mean)[..., None])[..., 0].reshape(4000, 12)
    assert np.abs(white.mean(axis=0)).max() < 5.0 / np.sqrt(4000)
    np.testing.assert_allclose(white.T @ white / 4000, np.eye(12), atol=0.12)

    prediction, latent = posterior.predict(NEW), posterior.predict(NEW, latent=True)
    np.testing.assert_allclose(prediction.mean, Z @ mean.T, rtol=1e-9)
    variance = np.einsum("ij,jk,ik->i", Z, covariance, Z)[:, None] * np.ones(3)
    np.testing.assert_allclose(latent.variance, variance, rtol=1e-8)
    np.testing.assert_allclose(prediction.sd, np.sqrt(variance + 0.8), rtol=1e-8)
    upper = norm(Z @ mean.T, np.sqrt(variance + 0.8)).ppf(0.95)
    np.testing.assert_allclose(prediction.interval(0.9)[1], upper, rtol=1e-8)
    np.testing.assert_allclose(prediction.quantile([0.5, 0.95])[1], upper, rtol=1e-8)
    y = RNG.normal(size=(5, 3))
    density = norm(Z @ mean.T, np.sqrt(variance + 0.8)).logpdf(y)
    np.testing.assert_allclose(prediction.log_density(y), density, rtol=1e-8)
    frame = prediction.to_frame()
    assert frame.loc[(4, 2), "mean"] == pytest.approx(prediction.mean[4, 2])
    sampled = prediction.sample(4000, seed=1)
    assert sampled.shape == (4000, 5, 3)
    error = np.abs(sampled.mean(axis=0) - prediction.mean) / prediction.sd
    assert error.max() < 5.0 / np.sqrt(4000)
    correlation = np.corrcoef(sampled.reshape(4000, -1).T)
    expected = multivariate_correlation(covariance, 0.8)
    np.testing.assert_allclose(correlation, expected, atol=5.0 / np.sqrt(4000))


def multivariate_correlation(covariance, noise):
    """Of y at NEW, with three independent outputs that change fastest."""
    C = Z @ covariance @ Z.T + noise * np.eye(5)
    return np.kron(C / np.sqrt(np.outer(np.diag(C), np.diag(C))), np.eye(3))


def one_by_one(model, scales):
    """The sum over the columns of their evidence at these scales."""
    total = 0.0
    for y in SEVERAL.T:
        prepared, _ = model.prepare(X, y)
        collapsed = CollapsedModel(prepared)
        total += linear_gaussian(prepared).log_marginal(*collapsed.scales_at(scales))
    return total


SETTINGS = {
    "gaussian": ({"prior": priors.Gaussian(dist.HalfNormal(2.0)), **INFERRED}, ["prior.scale"]),
    "ridge": ({"prior_sd": 3.0, **INFERRED}, []),
    "no intercept": (
        {"prior_sd": 3.0, "noise_variance": INFERRED["noise_variance"], "intercept": False},
        [],
    ),
    "flat": (
        {
            "prior": priors.Flat(),
            "noise_variance": INFERRED["noise_variance"],
            "intercept": priors.Flat(),
        },
        [],
    ),
    "conjugate": ({"prior": priors.Conjugate(), **INFERRED}, []),
}


@pytest.mark.parametrize("name", few(SETTINGS, "gaussian", "flat"))
def test_log_evidence_is_the_sum_over_outputs(name):
    options, more = SETTINGS[name]
    scales = {"noise": jnp.asarray(0.7), **dict.fromkeys(more, jnp.asarray(1.3))}
    model = blr(**options)
    prepared, _ = model.prepare(X, SEVERAL)
    together = linear_gaussian(prepared).log_marginal(*CollapsedModel(prepared).scales_at(scales))
    assert float(together) == pytest.approx(float(one_by_one(model, scales)), rel=1e-10)


@pytest.mark.slow
def test_fewer_rows_than_features():
    wide, y = RNG.normal(size=(6, 9)), RNG.normal(size=(6, 2))
    options = {"prior_sd": 0.7, "intercept": dist.Normal(0.0, 5.0), "noise_variance": 0.5}
    each = [gaussian(np.full(9, 0.7), 5.0, 0.5, wide, column) for column in y.T]
    posterior = fit(blr(**options), wide, y)
    assert posterior.log_evidence.value == pytest.approx(sum(e for _, _, e in each), rel=1e-10)
    design = np.column_stack([np.ones(6), wide])
    prediction = posterior.predict(wide, latent=True)
    mean = design @ np.stack([m for m, _, _ in each], axis=1)
    np.testing.assert_allclose(prediction.mean, mean, atol=1e-9)
    variance = np.einsum("ij,jk,ik->i", design, each[0][1], design)
    np.testing.assert_allclose(prediction.variance, np.stack([variance] * 2, axis=1), rtol=1e-8)


def test_log_density_against_scipy():
    """Its density at given sites, by SciPy, with the default priors of the data."""
    prepared, args = blr().prepare(X, SEVERAL)
    sites = {"weights": RNG.normal(size=(3, 3)), "intercept": RNG.normal(size=3), "noise": 0.9}
    found = float(log_density(prepared, args, {}, sites)[0])
    sd_y = np.sqrt(np.mean(np.var(SEVERAL, axis=0)))
    mean = sites["intercept"] + X @ sites["weights"].T
    expected = norm(mean, np.sqrt(0.9)).logpdf(SEVERAL).sum()
    expected += norm(0.0, 2.5 * sd_y / X.std(axis=0)).logpdf(sites["weights"]).sum()
    at_the_mean = sites["intercept"] + sites["weights"] @ X.mean(axis=0)
    expected += norm(SEVERAL.mean(axis=0), 2.5 * sd_y).logpdf(at_the_mean).sum()
    expected += expon(scale=sd_y).logpdf(np.sqrt(0.9)) - np.log(2.0 * np.sqrt(0.9))
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.slow
def test_conjugate_noise_against_quadrature():
    """The evidence by quadrature, the predictions as a Student t."""
    noise = dist.InverseGamma(3.0, 2.0)
    options = {"prior": priors.Conjugate(2.0), "intercept": False}
    posterior = fit(blr(noise_variance=noise, **options), X, SEVERAL)
    K = 4.0 * X @ X.T + np.eye(N)
    grid = np.linspace(-4.0, 4.0, 2001)
    log_joint = invgamma(3.0, scale=2.0).logpdf(np.exp(grid)) + grid
    quadratic = np.einsum("ni,ni->", SEVERAL, np.linalg.solve(K, SEVERAL))
    logdet = np.linalg.slogdet(K)[1]
    log_joint -= 0.5 * (3 * N * (np.log(2.0 * np.pi) + grid) + 3 * logdet)
    log_joint -= 0.5 * quadratic / np.exp(grid)
    evidence = np.log(trapezoid(np.exp(log_joint - log_joint.max()), grid)) + log_joint.max()
    assert posterior.log_evidence.value == pytest.approx(evidence, rel=1e-8)
    a, b = 3.0 + 1.5 * N, 2.0 + 0.5 * quadratic
    cross = 4.0 * NEW @ X.T
    scale2 = 1.0 + 4.0 * np.sum(NEW**2, axis=1) - np.sum(cross * np.linalg.solve(K, cross.T).T, 1)
    t = student(2.0 * a, cross @ np.linalg.solve(K, SEVERAL), np.sqrt(b / a * scale2)[:, None])
    prediction = posterior.predict(NEW)
    np.testing.assert_allclose(prediction.mean, t.mean(), rtol=1e-8)
    np.testing.assert_allclose(prediction.quantile(0.9), t.ppf(0.9), rtol=1e-7)
    draws = posterior.flat["noise"]
    expected = invgamma(a, scale=b)
    assert abs(draws.mean() - expected.mean()) < 5.0 * expected.std() / np.sqrt(len(draws))
    assert prediction.sample(7).shape == (7, 5, 3)


@pytest.mark.slow
def test_inferred_noise_against_quadrature(tmp_path):
    """Against quadrature over the noise, and what follows from the posterior has its shapes."""
    options = {"prior": priors.Gaussian(SCALES), "intercept": False}
    noise = bk.from_sd(dist.HalfNormal(3.0))
    posterior = fit(blr(noise_variance=noise, **options), X, SEVERAL, method="laplace", seed=0)
    grid = np.exp(np.linspace(-3.0, 3.0, 201))
    K = (X * SCALES**2) @ X.T
    log_p = [
        sum(multivariate_normal(np.zeros(N), K + v * np.eye(N)).logpdf(y) for y in SEVERAL.T)
        + halfnorm(scale=3.0).logpdf(np.sqrt(v))
        - np.log(2.0 * np.sqrt(v))
        + np.log(v)
        for v in grid
    ]
    p = np.exp(log_p - np.max(log_p))
    mean = np.sum(p * grid) / p.sum()
    sd = np.sqrt(np.sum(p * (grid - mean) ** 2) / p.sum())
    assert abs(posterior.flat["noise"].mean() - mean) < 0.15 * sd
    assert posterior.predict(NEW).mean.shape == (5, 3)
    assert posterior.log_likelihood()["y"].shape[-2:] == (N, 3)
    assert posterior.to_arviz().posterior["weights"].shape[-2:] == (3, 3)
    posterior.save(tmp_path / "fit.nc")
    loaded = bk.load(tmp_path / "fit.nc", blr(noise_variance=noise, **options))
    np.testing.assert_allclose(loaded.predict(NEW).mean, posterior.predict(NEW).mean)
    point = fit(blr(noise_variance=noise, **options), X, SEVERAL, method="map", seed=0)
    assert point.point()["weights"].shape == (3, 3)


def test_one_column_is_one_output():
    posterior = fit(blr(**KNOWN), X, SEVERAL[:, :1])
    assert posterior.flat["weights"].shape == (4000, 3)


def with_nan():
    y = SEVERAL.copy()
    y[7, 1] = y[3, 2] = np.nan
    return y


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (
            blr(),
            with_nan(),
            "in column 1, 2, the first in row 3",
        ),
        (blr(), SEVERAL[:-1], "y has 59 rows but X has 60 points"),
        (blr(), SEVERAL[None], r"y must be one number per point, shape \(n,\)"),
        (blr(prior=priors.Laplace()), SEVERAL, "y has 3 columns.*by itself"),
        (blr(noise=likelihoods.StudentT()), SEVERAL, r"y must be one number.*got shape \(60, 3\)"),
        (blr().update(X, Y), SEVERAL, "y has 3 columns.*by itself"),
    ],
)
def test_bad_outputs_are_refused(model, y, message):
    with pytest.raises(ValueError, match=message):
        model.prepare(X, y)


def test_bad_updates_and_densities_are_refused():
    with pytest.raises(ValueError, match=r"y must be one number.*\(60, 3\)"):
        blr().update(X, SEVERAL)
    prepared, _ = blr().prepare(X, SEVERAL)
    with pytest.raises(ValueError, match="update takes one output"):
        prepared.update(X, Y)
    prediction = fit(blr(**KNOWN), X, SEVERAL).predict(NEW)
    with pytest.raises(ValueError, match=r"y must have the shape \(5, 3\); got \(3, 5\)"):
        prediction.log_density(np.zeros((3, 5)))
