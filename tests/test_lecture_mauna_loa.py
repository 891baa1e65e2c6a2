"""Claims of notebook 07 (Mauna Loa) against formulas, SciPy and sums on a grid."""

from functools import partial

import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats
from scipy.optimize import minimize

import bayeskern as bk
from bayeskern.kernels import RBF, Free, Periodic, Polynomial

pytestmark = pytest.mark.slow

infer = partial(bk.infer, progress=False)

RECORD = bk.datasets.load("co2")
MONTHS = np.flatnonzero(np.isfinite(RECORD.values))[::3]
YEARS = 1958 + (RECORD.times[MONTHS] - np.datetime64("1958-01-01")).astype(float) / 365.25
PAST = YEARS[-1] - 10 > YEARS
LEVEL, SIZE = RECORD.values[MONTHS][PAST].mean(), RECORD.values[MONTHS][PAST].std()
X, Y = YEARS - 1980, (RECORD.values[MONTHS] - LEVEL) / SIZE


def close(actual, expected, rtol=1e-8, atol=1e-8):
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=rtol, atol=atol)


def rbf(x, z, lengthscale, variance):
    return variance * np.exp(-0.5 * np.subtract.outer(x, z) ** 2 / lengthscale**2)


def season(x, z, lengthscale, variance):
    return variance * np.exp(-2 * np.sin(np.pi * np.subtract.outer(x, z)) ** 2 / lengthscale**2)


def polynomial(x, z, offset, variance):
    return variance * (np.multiply.outer(x, z) + offset) ** 2


TERMS = {"long": rbf, "short": rbf, "season": season, "polynomial": polynomial}


def by_type_ii(kernel):
    model = bk.GPRegression(kernel, noise=Free(0.01))
    return infer(model, X[PAST], Y[PAST], method="mle", seed=0)


def composite():
    long = RBF(Free(50.0), Free(5.0)).named("long")
    short = RBF(Free(1.0), Free(0.05)).named("short")
    return long + short + Periodic(1.0, Free(1.0), Free(0.05)).named("season")


@pytest.mark.parametrize("start", [(50.0, 5.0), (1.0, 0.05)], ids=["long", "short"])
def test_starts_of_one_rbf_share_the_optimum(start):
    def lost(z):
        lengthscale, variance, noise = np.exp(z)
        C = rbf(X[PAST], X[PAST], lengthscale, variance) + noise * np.eye(PAST.sum())
        return -stats.multivariate_normal(np.zeros(PAST.sum()), C).logpdf(Y[PAST])

    best = minimize(lost, np.log([40.0, 10.0, 0.02]), method="Nelder-Mead", options={"xatol": 1e-7})
    found = by_type_ii(RBF(*map(Free, start))).flat
    found = [found[name].item() for name in ("lengthscale", "variance", "noise")]
    close(found, np.exp(best.x), rtol=2e-3)
    assert lost(np.log(found)) <= best.fun + 1e-6


@pytest.mark.parametrize("bent", [False, True], ids=["season", "polynomial"])
def test_forecast_of_a_sum_of_kernels_in_closed_form(bent):
    kernel = composite()
    if bent:
        kernel = kernel + Polynomial(2, Free(1.0), Free(1e-3)).named("polynomial")
    posterior = by_type_ii(kernel)
    values = {name: draws.item() for name, draws in posterior.flat.items()}
    names = list(TERMS)[: 4 if bent else 3]

    def term(name, x, z):
        first = "offset" if name == "polynomial" else "lengthscale"
        return TERMS[name](x, z, values[f"{name}.{first}"], values[f"{name}.variance"])

    past, ahead, y = X[PAST], X[~PAST], Y[~PAST]
    C = sum(term(name, past, past) for name in names) + values["noise"] * np.eye(len(past))
    k = sum(term(name, ahead, past) for name in names)
    prior = sum(np.diag(term(name, ahead, ahead)) for name in names)
    mean = k @ np.linalg.solve(C, Y[PAST])
    sd = np.sqrt(prior + values["noise"] - np.sum(k * np.linalg.solve(C, k.T).T, axis=1))

    prediction = posterior.predict(ahead)
    close(prediction.mean, mean, rtol=1e-6, atol=1e-7)
    close(prediction.sd, sd, rtol=1e-6)
    close(prediction.log_density(y), stats.norm(mean, sd).logpdf(y), rtol=1e-5, atol=1e-5)
    close(prediction.interval(0.95), stats.norm(mean, sd).interval(0.95), rtol=1e-6, atol=1e-6)
    for name in names:
        own = term(name, ahead, past) @ np.linalg.solve(C, Y[PAST])
        close(prediction.component(name).mean, own, rtol=1e-5, atol=1e-6)
    # The season halves the error of one smooth function, 2.25 ppm; with the parabola it is lost.
    rmse = SIZE * np.sqrt(np.mean((mean - y) ** 2))
    assert 2.0 < rmse < 2.2 if bent else 1.2 < rmse < 1.35
    held = np.mean(np.abs(y - mean) < stats.norm.ppf(0.975) * sd)
    assert held < 0.6 if bent else 0.6 < held < 0.8


@pytest.mark.parametrize(
    ("lengthscale", "variance"),
    [((np.log(50.0), 0.5), (1.0, 1.0)), ((0.0, 0.5), (-3.0, 1.0))],
    ids=["long", "short"],
)
def test_full_bayes_agrees_with_a_grid(lengthscale, variance):
    model = bk.GPRegression(
        RBF(dist.LogNormal(*lengthscale), dist.LogNormal(*variance)),
        noise=dist.LogNormal(-7.0, 1.5),
    )
    posterior = infer(model, X[PAST], Y[PAST], method="importance", seed=0)
    prediction = posterior.predict(X[~PAST][::10])

    # Eigenvectors once for each lengthscale make a grid over all three cheap.
    past, y, n = X[PAST], Y[PAST], PAST.sum()
    axes = [np.linspace(a, b, 41) for a, b in (np.log([2.0, 300.0]), (-4.5, 5.5), (-4.4, -3.0))]
    log_joint, means = np.empty((41, 41, 41)), np.empty((41, 41, 41, 4))
    v, s = np.exp(axes[1])[:, None, None], np.exp(axes[2])[:, None]
    for i, lengthscale_i in enumerate(np.exp(axes[0])):
        values, vectors = np.linalg.eigh(rbf(past, past, lengthscale_i, 1.0))
        scaled, projected = v * np.maximum(values, 0) + s, vectors.T @ y
        log_joint[i] = -0.5 * np.sum(projected**2 / scaled + np.log(scaled), axis=-1)
        k = rbf(X[~PAST][::10], past, lengthscale_i, 1.0) @ vectors
        means[i] = v * np.einsum("mn,vsn->vsm", k, projected / scaled)
    log_joint -= 0.5 * n * np.log(2 * np.pi)
    for j, (mean, sd) in enumerate((lengthscale, variance, (-7.0, 1.5))):
        shape = np.where(np.arange(3) == j, 41, 1)
        log_joint += stats.norm(mean, sd).logpdf(axes[j]).reshape(shape)
    weights = np.exp(log_joint - log_joint.max())
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    log_evidence = np.log(weights.sum() * cell) + log_joint.max()
    weights /= weights.sum()

    # Six errors of the Monte Carlo sum, and what a grid of this width leaves out.
    evidence = posterior.log_evidence
    assert abs(evidence.value - log_evidence) < 6 * evidence.error + 2e-3
    truth = weights.sum(axis=(1, 2)) @ np.exp(axes[0])
    draws = posterior.flat["lengthscale"]
    assert abs(draws.mean() - truth) < 6 * draws.std() / np.sqrt(len(draws))
    truth = np.einsum("ijk,ijkm->m", weights, means)
    spread = np.sqrt(np.einsum("ijk,ijkm->m", weights, (means - truth) ** 2))
    assert np.all(np.abs(prediction.mean - truth) < 6 * spread / np.sqrt(len(draws)) + 1e-6)
