"""Noise that differs from row to row, against dense formulas, scikit-learn and simulations."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density
from scipy.stats import halfnorm, lognorm, multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sklearn_kernels

import bayeskern as bk
from bayeskern.gp.regression_predictive import predictive_at
from bayeskern.kernels import RBF, Linear, Matern12, Matern32
from tests.gp.gp_by_hand import posterior as posterior_by_hand
from tests.gp.gp_by_hand import rbf

RNG = np.random.default_rng(7)
N = 25
X = np.sort(RNG.uniform(0.0, 4.0, N))
E2 = RNG.uniform(0.05, 0.6, N) ** 2
Y = np.sin(2.0 * X) + np.sqrt(E2) * RNG.normal(size=N)
NEW, NEW_E2 = np.array([0.3, 2.0, 4.5]), np.array([0.01, 0.2, 0.5])
SENSORS = np.where(np.arange(N) % 3 == 0, "b", "sensor A")
NUMBER = bk.GPRegression(RBF(0.9), 0.1)


def column(x):
    return np.asarray(x)[:, None]


def by_hand(noise, y=Y, x=X, new=NEW, lengthscale=0.9):
    """Log density, and mean and variance of f at new points."""
    x, new = column(x), column(new)
    K = rbf(x, x, lengthscale)
    cross, prior = rbf(x, new, lengthscale), rbf(new, new, lengthscale)
    mean, covariance = posterior_by_hand(K, cross, prior, y, noise)
    log_p = multivariate_normal(np.zeros(len(y)), K + np.diag(noise)).logpdf(y)
    return log_p, mean, np.diag(covariance)


def fit(model, y=Y, method="exact", **arguments):
    return bk.infer(model, X, y, method=method, seed=0, progress=False, **arguments)


# -- known variances -------------------------------------------------------------------------------


def test_rows_of_new_points_take_their_own_noise():
    rows, data, draw = np.array([2, 0]), (column(X), Y), ({}, NEW_E2)
    found = predictive_at(NUMBER, data, column(NEW), None, None, draw, rows).moments()
    _, mean, variance = by_hand(np.full(N, 0.1), new=NEW[rows])
    np.testing.assert_allclose(found, [mean, variance + NEW_E2[rows]], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["array", "zero and variances", "sum"])
def test_known_variances_against_scipy(how):
    noise, total = {"array": (E2, E2), "zero and variances": (0.0, E2), "sum": (0.3, 0.3 + E2)}[how]
    arguments = {} if how == "array" else {"variances": E2}
    posterior = fit(bk.GPRegression(RBF(0.9), noise), **arguments)
    log_p, mean, variance = by_hand(total)
    assert posterior.log_evidence.value == pytest.approx(log_p, rel=1e-10)
    latent = posterior.predict(NEW, latent=True)
    np.testing.assert_allclose(latent.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(latent.variance, variance, rtol=1e-8)
    observed = posterior.predict(NEW, variances=NEW_E2)
    extra = 0.3 if how == "sum" else 0.0
    np.testing.assert_allclose(observed.variance, variance + extra + NEW_E2, rtol=1e-8)


def test_density_with_known_variances():
    model, args = NUMBER.prepare(X, Y, variances=E2)
    np.testing.assert_allclose(log_density(model, args, {}, {})[0], by_hand(0.1 + E2)[0], rtol=1e-9)


def test_known_variances_against_scikit_learn():
    regressor = GaussianProcessRegressor(sklearn_kernels.RBF(0.9), alpha=E2, optimizer=None)
    mean, sd = regressor.fit(column(X), Y).predict(column(NEW), return_std=True)
    prediction = bk.GPRegression(RBF(0.9), E2).condition(X, Y).predict(NEW, latent=True)
    np.testing.assert_allclose(prediction.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(prediction.sd, sd, rtol=1e-8)


@pytest.mark.parametrize(("solver", "kernel"), [("markov", Matern32(0.9)), ("low_rank", Linear())])
@pytest.mark.slow
def test_other_solvers_equal_dense(solver, kernel):
    dense, other = (
        bk.GPRegression(kernel, 0.1, solver=name).condition(X, Y, variances=E2)
        for name in ("dense", solver)
    )
    assert other.solver.name == solver
    for name in ("mean", "variance"):
        values = (getattr(gp.predict(NEW, latent=True), name) for gp in (other, dense))
        np.testing.assert_allclose(*values, rtol=1e-8)
    np.testing.assert_allclose(other.loo().log_density, dense.loo().log_density, rtol=1e-8)


def test_a_grid_refuses_other_noise_at_each_point():
    grid = np.stack(np.meshgrid(np.arange(3.0), np.arange(4.0)), -1).reshape(-1, 2)
    model = bk.GPRegression(RBF().on([0]) * RBF().on([1]), 0.1, solver="kronecker")
    model.prepare(grid)
    with pytest.raises(ValueError, match="noise differs from point to point"):
        model.prepare(grid, variances=np.arange(12.0))


@pytest.mark.slow
def test_masked_rows_and_several_outputs():
    mask = np.arange(N) % 4 != 1
    model, both = bk.GPRegression(RBF(0.9), 0.1), np.column_stack([Y, 1.0 - Y])
    posterior = fit(model, both, variances=E2, mask=mask)
    parts = [by_hand(0.1 + E2[mask], y[mask], X[mask]) for y in both.T]
    assert posterior.log_evidence.value == pytest.approx(sum(p[0] for p in parts), rel=1e-10)
    prediction = posterior.predict(NEW, variances=NEW_E2)
    np.testing.assert_allclose(prediction.mean, np.stack([p[1] for p in parts], -1), rtol=1e-7)
    variance = np.stack([p[2] + 0.1 + NEW_E2 for p in parts], -1)
    np.testing.assert_allclose(prediction.variance, variance, rtol=1e-7)


@pytest.mark.slow
def test_leave_one_out_equals_refits():
    log_densities = fit(bk.GPRegression(RBF(0.9), 0.1), variances=E2).log_likelihood()["y"]
    for i in (0, 7, N - 1):
        rest = np.arange(N) != i
        _, mean, variance = by_hand(0.1 + E2[rest], Y[rest], X[rest], X[i : i + 1])
        expected = norm(mean, np.sqrt(variance + 0.1 + E2[i])).logpdf(Y[i])
        np.testing.assert_allclose(log_densities[..., i], expected.item(), rtol=1e-7)


# -- groups ----------------------------------------------------------------------------------------

GROUPED = bk.GPRegression(
    RBF(0.9), {"sensor A": bk.from_sd(dist.HalfNormal(0.5)), "b": dist.LogNormal(-3.0, 1.0), "c": 2}
)
DRAWS = {"noise.sensor A": np.array([0.04, 0.1]), "noise.b": np.array([0.02, 0.3])}


def test_density_with_a_noise_per_group():
    model, args = GROUPED.prepare(X, Y, groups=SENSORS, variances=E2)
    values = {name: draws[1] for name, draws in DRAWS.items()}
    noise = np.where(SENSORS == "b", 0.3, 0.1) + E2
    # d sqrt(v) / dv = 1 / (2 sqrt(v)).
    prior = halfnorm(0.0, 0.5).pdf(np.sqrt(0.1)) / (2.0 * np.sqrt(0.1))
    prior = np.log(prior) + lognorm(1.0, 0.0, np.exp(-3.0)).logpdf(0.3)
    found, trace = log_density(model, args, {}, values)
    np.testing.assert_allclose(found, prior + by_hand(noise)[0], rtol=1e-9)
    assert set(trace) == {*DRAWS, "y"}
    # The unprepared model takes labels too.
    unprepared = {"X": X, "y": Y, "groups": list(SENSORS), "variances": E2}
    np.testing.assert_allclose(log_density(GROUPED, (), unprepared, values)[0], found, rtol=1e-12)


def test_predictions_take_the_noise_of_their_group():
    model, args = GROUPED.prepare(X, Y, groups=SENSORS)
    prediction = model.predictive(DRAWS, args, NEW, groups=["c", "sensor A", "b"])
    means, variances = [], []
    for a, b in zip(*DRAWS.values(), strict=True):
        _, mean, variance = by_hand(np.where(SENSORS == "b", b, a))
        means.append(mean)
        variances.append(variance + np.array([2.0, a, b]))
    np.testing.assert_allclose(prediction.mean, np.mean(means, axis=0), rtol=1e-8)
    expected = np.mean(variances, axis=0) + np.var(means, axis=0)
    np.testing.assert_allclose(prediction.variance, expected, rtol=1e-8)


def test_names_and_values_of_groups():
    assert repr(GROUPED.at(dict.fromkeys(DRAWS, 0.5))) == (
        "GPRegression(RBF(lengthscale=0.9, variance=1.0), "
        "noise={'sensor A': 0.5, 'b': 0.5, 'c': 2.0}, mean=0.0)"
    )
    with pytest.raises(ValueError, match="hyperparameter='noise.d' is not known"):
        GROUPED.at({"noise.d": 1.0})
    whole = bk.GPRegression(RBF(), {2019: 0.1, 2020: 0.2}).prepare(X[:2], groups=[2020, 2019.0])
    np.testing.assert_array_equal(whole[1][3]["groups"], [1, 0])


@pytest.mark.parametrize(
    ("noise", "shown"),
    [
        (0.1, "0.1"),
        (np.array(0.1), "0.1"),
        (np.array([0.1, 0.2]), "<2 variances>"),
        (dist.HalfNormal(0.5), "HalfNormal(0.5)"),
        (bk.from_sd(dist.HalfNormal(0.5)), "from_sd(HalfNormal(0.5))"),
        (bk.Free(0.5), "Free(0.5)"),
        ({"a": 0.1, "b": dist.HalfNormal(0.5)}, "{'a': 0.1, 'b': HalfNormal(0.5)}"),
        (RBF(), "NoiseProcess(RBF(lengthscale=1.0, variance=1.0))"),
        (
            bk.NoiseProcess(RBF(), level=dist.Normal(0.0, 1.0)),
            "NoiseProcess(RBF(lengthscale=1.0, variance=1.0), level=Normal(0.0, 1.0))",
        ),
    ],
)
def test_repr_of_every_form_of_noise(noise, shown):
    wanted = f"GPRegression(RBF(lengthscale=1.0, variance=1.0), noise={shown}, mean=0.0)"
    assert repr(bk.GPRegression(RBF(), noise=noise)) == wanted


@pytest.mark.slow
def test_simulated_noise_of_two_groups_is_recovered(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 6.0, 160)
    groups = rng.choice(["cheap", "good"], 160)
    truth = {"cheap": 0.5**2, "good": 0.1**2}
    y = np.sin(2.0 * x) + np.sqrt([truth[g] for g in groups]) * rng.normal(size=160)
    prior = bk.from_sd(dist.HalfNormal(1.0))
    model = bk.GPRegression(RBF(dist.LogNormal(), 1.0), {"good": prior, "cheap": prior})
    posterior = bk.infer(model, x, y, groups=groups, method="laplace", progress=False)
    for name, value in truth.items():
        low, high = np.quantile(posterior.flat[f"noise.{name}"], [0.005, 0.995])
        assert low < value < high
    prediction = posterior.predict([1.0, 1.0], groups=["good", "cheap"])
    np.testing.assert_allclose(prediction.sd, [0.1, 0.5], rtol=0.3)
    posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc", model)
    again = loaded.predict([1.0, 1.0], groups=["good", "cheap"])
    np.testing.assert_array_equal(again.sd, prediction.sd)
    assert [*loaded.draws] == [*posterior.draws]
    replicates = posterior.to_arviz()["posterior_predictive"]["y"].to_numpy().reshape(-1, 160)
    # Replicates have the noise of their group, beside the uncertainty of f.
    variance = posterior.predict(x, groups=groups).variance
    for rows in (groups == "good", groups == "cheap"):
        np.testing.assert_allclose(replicates.var(0)[rows].mean(), variance[rows].mean(), rtol=0.1)


@pytest.mark.slow
def test_calibration_of_a_noise_per_group():
    model = bk.GPRegression(
        RBF(0.9), {"sensor A": dist.LogNormal(-2.0, 0.7), "b": dist.LogNormal(-3.0, 0.7)}
    )
    # With 100 data sets, Laplace's approximation is found to have the wrong shape here.
    options = {"method": "importance", "simulations": 40, "seed": 1, "progress": False}
    result = bk.calibrate(model, X, Y, groups=SENSORS, **options)
    assert set(result.ranks) >= {"noise.sensor A", "noise.b"}
    assert result.verdict == "calibrated as far as 40 simulations can tell."


# -- a process of the log noise --------------------------------------------------------------------

CURVE = bk.NoiseProcess(
    Matern12(dist.LogNormal(0.5, 0.5), variance=1.5), level=dist.Normal(-2.0, 1.0)
)
WITH_CURVE = bk.GPRegression(RBF(0.9), CURVE)
WHITE = np.random.default_rng(5).normal(size=N)
VALUES = {"noise.level": -1.5, "noise.lengthscale": 1.2, "noise.white": WHITE}


def covariance_of_log_noise(a, b):
    return 1.5 * np.exp(-np.abs(np.subtract.outer(a, b)) / 1.2)


def noise_by_hand():
    return np.exp(-1.5 + np.linalg.cholesky(covariance_of_log_noise(X, X)) @ WHITE)


def test_joint_density_with_a_noise_process():
    model, args = WITH_CURVE.prepare(X, Y)
    found, trace = log_density(model, args, {}, VALUES)
    noise = noise_by_hand()
    prior = norm(-2.0, 1.0).logpdf(-1.5) + lognorm(0.5, 0.0, np.exp(0.5)).logpdf(1.2)
    expected = prior + norm.logpdf(WHITE).sum() + by_hand(noise)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(trace["noise"]["value"], noise, rtol=1e-9)


@pytest.mark.slow
def test_noise_process_at_new_points():
    model, args = WITH_CURVE.prepare(X, Y)
    draws = {name: np.repeat(np.asarray(value)[None], 200, 0) for name, value in VALUES.items()}
    noise, new = noise_by_hand(), np.array([2.2, 4.6])
    _, _, latent = by_hand(noise, new=[*X[:3], *new])
    prediction = model.predictive(draws, args, [*X[:3], *new], seed=3)
    added = prediction.parts[1] - latent
    # At the data the noise is known given the draw, up to rounding.
    np.testing.assert_allclose(added[:, :3], np.tile(noise[:3], (200, 1)), rtol=1e-5)
    # Elsewhere its log is normal, given its values at the data.
    K, cross = covariance_of_log_noise(X, X), covariance_of_log_noise(X, new)
    mean = -1.5 + cross.T @ np.linalg.solve(K, np.log(noise) + 1.5)
    covariance = covariance_of_log_noise(new, new) - cross.T @ np.linalg.solve(K, cross)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (np.log(added[:, 3:]) - mean).T)
    assert np.abs(white.mean(axis=1)).max() < 4.0 / np.sqrt(200)
    assert np.abs(np.cov(white) - np.eye(2)).max() < 4.0 * np.sqrt(2.0 / 200)


@pytest.mark.slow
@pytest.mark.long
def test_simulated_noise_curve_is_recovered(tmp_path):
    rng = np.random.default_rng(11)
    x = np.sort(rng.uniform(0.0, 6.0, 120))
    sd = 0.1 + 0.4 / (1.0 + np.exp(-3.0 * (x - 3.0)))
    y = np.sin(2.0 * x) + sd * rng.normal(size=120)
    model = bk.GPRegression(RBF(0.8), RBF(dist.LogNormal(0.7, 0.5), 1.5))
    posterior = bk.infer(
        model, x, y, method=bk.NUTS(chains=2, warmup=200, draws=150), progress=False
    )
    assert posterior.flat["noise.white"].shape == (300, 120)
    low, high = np.quantile(np.sqrt(posterior.flat["noise"]), [0.025, 0.975], axis=0)
    # The curve is one draw of many: its band of 95 % covers most of it.
    assert np.mean((low < sd) & (sd < high)) > 0.7
    new = np.array([0.5, 5.5])
    np.testing.assert_allclose(posterior.predict(new).sd, [0.1, 0.5], rtol=0.35)
    posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc", model)
    np.testing.assert_array_equal(loaded.predict(new).sd, posterior.predict(new).sd)


@pytest.mark.slow
def test_a_point_estimate_averages_over_the_noise_at_new_points():
    model, args = WITH_CURVE.prepare(X, Y)
    draws = {name: np.asarray(value)[None] for name, value in VALUES.items()}
    prediction = model.predictive(draws, args, [5.0, 9.0])
    assert prediction.parts[1].shape == (200, 2)
    # Far from the data, the log noise is N(-1.5, 1.5), and f has the variance 1.
    log_noise = np.log(prediction.parts[1][:, 1] - 1.0)
    assert abs(log_noise.mean() + 1.5) < 4.0 * np.sqrt(1.5 / 200)
    assert model.predictive(draws, args, [5.0], latent=True).parts[1].shape == (1, 1)


def test_default_prior_on_the_level_is_from_the_scale_of_the_data():
    model, args = bk.GPRegression(RBF(), RBF()).prepare(X, 10.0 * Y)
    trace = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(*args)
    level = trace["noise.level"]["fn"]
    np.testing.assert_allclose(level.loc, np.log(0.1 * np.var(10.0 * Y)))
    assert level.scale == 2.0
    with pytest.raises(ValueError, match=r"y is constant.*level"):
        bk.GPRegression(RBF(), RBF()).prepare(X, np.ones(N))
    with pytest.raises(ValueError, match="noise.level has a default prior"):
        handlers.seed(bk.GPRegression(RBF(), RBF()), jax.random.key(0))(X)


# -- bad input -------------------------------------------------------------------------------------


def changed(value):
    return np.where(np.arange(N) == 4, value, E2)


BAD = {
    "zero": (lambda: bk.GPRegression(RBF(), [1.0, 0.0]), "noise must be above 0.*row 1 has 0"),
    "negative": (lambda: bk.GPRegression(RBF(), [1.0, -2.0]), "above 0.*row 1 has -2"),
    "nan": (lambda: bk.GPRegression(RBF(), [np.nan, 1.0]), "noise has 1 value .*row 0"),
    "length": (lambda: bk.GPRegression(RBF(), [1.0, 1.0]).prepare(X), r"\(2,\).* 25 points"),
    "no noise": (
        lambda: bk.GPRegression(RBF(), 0.0).prepare(X, variances=changed(0.0)),
        "row 4 has no noise",
    ),
    "negative variance": (
        lambda: NUMBER.prepare(X, variances=changed(-1.0)),
        "variances must be 0 or more.*row 4 has -1",
    ),
    "nan variance": (lambda: NUMBER.prepare(X, variances=changed(np.nan)), "variances.*row 4"),
    "length of variances": (
        lambda: NUMBER.prepare(X, variances=[1.0]),
        "variances has 1 values but X has 25 points",
    ),
    "unknown group": (
        lambda: GROUPED.prepare(X, groups=["d"] * N),
        "groups has a group that is not known, 'd'.*'sensor A', 'b', 'c'",
    ),
    "length of groups": (lambda: GROUPED.prepare(X, groups=["b"]), "groups has 1 values"),
    "no groups": (lambda: GROUPED.prepare(X), "give groups=.*'sensor A', 'b', 'c'"),
    "missing group": (lambda: GROUPED.prepare(X, groups=[None] * N), "groups has 25 missing"),
    "needless groups": (lambda: NUMBER.prepare(X, groups=SENSORS), "groups are for a noise"),
    "empty": (lambda: bk.GPRegression(RBF(), {}), "has no groups"),
    "group below 0": (lambda: bk.GPRegression(RBF(), {"a": -1.0}), "noise.a must be nonnegative"),
    "clash": (
        lambda: bk.GPRegression(RBF().named("noise"), RBF()),
        "a hyperparameter called 'noise.lengthscale'|a hyperparameter called 'noise.variance'",
    ),
    "groups at new points": (
        lambda: GROUPED.predictive(DRAWS, GROUPED.prepare(X, Y, groups=SENSORS)[1], NEW),
        "give groups=.*latent=True",
    ),
    "variances at new points": (
        lambda: NUMBER.predictive({}, NUMBER.prepare(X, Y, variances=E2)[1], NEW),
        "give variances=.*latent=True",
    ),
    "mle": (lambda: fit(WITH_CURVE, method="mle"), "method='mle' does not apply to noise="),
}  # fmt: skip


@pytest.mark.parametrize("call", BAD)
def test_bad_input_is_named(call):
    function, message = BAD[call]
    with pytest.raises(ValueError, match=message):
        function()


def test_zero_variances_are_fine_beside_another_noise():
    _, args = NUMBER.prepare(X, Y, variances=changed(0.0))
    assert args[3]["variances"][4] == 0.0


@pytest.mark.slow
def test_regression_with_correlated_noise():
    # Two instruments, each with an offset that its rows share.
    X = np.linspace(0.0, 4.0, 20)
    S = 0.04 * np.eye(20) + 0.3 * (np.arange(20)[:, None] % 2 == np.arange(20) % 2)
    y, new = np.sin(X), [0.5, 2.2]
    model = bk.GPRegression(RBF(), noise=S)
    posterior = bk.infer(model, X, y, method="exact")
    expected = bk.GaussianProcess(RBF(), X, S).condition(y)
    density = multivariate_normal(np.zeros(20), np.asarray(RBF()(X)) + S).logpdf(y)
    np.testing.assert_allclose(posterior.log_evidence.value, density, rtol=1e-12)
    found = posterior.predict(new, variances=0.04)
    np.testing.assert_allclose(found.mean, expected.predict(new, latent=True).mean, rtol=1e-10)
    np.testing.assert_allclose(found.sd, expected.predict(new, noise=0.04).sd, rtol=1e-10)
    # Known variances of the rows are added.
    both = model.condition(X, y, variances=0.5)
    np.testing.assert_allclose(
        both.weights, np.linalg.solve(np.asarray(RBF()(X)) + S + 0.5 * np.eye(20), y), atol=1e-10
    )
    with pytest.raises(ValueError, match="give variances="):
        posterior.predict(new)
    assert "covariance matrix" in repr(model)
