"""Missing observations: densities against those by hand, draws against closed forms, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy import stats

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.reports import report
from tests.compilations import compilations
from tests.marks import few

nan = np.nan
RNG = np.random.default_rng(0)
Y = np.array([0.4, nan, 1.9, nan, 0.9, 1.4])
SEEN = ~np.isnan(Y)
COVARIANCE = np.array([[1.0, 0.5, 0.2], [0.5, 2.0, 0.3], [0.2, 0.3, 1.5]])
EVENTS = RNG.multivariate_normal(np.zeros(3), COVARIANCE, size=5)
EVENTS[0, 1], EVENTS[2], EVENTS[3, :2] = nan, nan, nan
METHODS = ("laplace", "svi", "importance", "nuts")


def fit(model, *args, method="laplace", **options):
    options = {"missing": "impute", "progress": False, "seed": 0} | options
    return bk.infer(model, *args, method=method, **options)


def level(y):
    mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def line(x, y):
    """A regression whose covariate has a distribution."""
    centre = numpyro.sample("centre", dist.Normal(0.0, 1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0))
    with numpyro.plate("row", len(x)):
        x = numpyro.sample("x", dist.Normal(centre, 1.5), obs=x)
        numpyro.sample("y", dist.Normal(slope * x, sd), obs=y)


X_LINE = RNG.normal(size=12)
Y_LINE = 2.0 * X_LINE + 0.3 * RNG.normal(size=12)
X_LINE[[1, 4]], Y_LINE[[4, 7]] = nan, nan


# -- integrated out --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", few(METHODS, "laplace"))
def test_conjugate_level(method):
    """Posterior of the seen rows, and the missing rows from the posterior predictive."""
    posterior = fit(level, Y, method=method)
    variance = 1.0 / (1.0 / 4.0 + SEEN.sum())
    mean = variance * Y[SEEN].sum()
    missing = posterior.draws["y_missing"]
    assert missing.shape == (*posterior.shape, 2)
    error = 5.0 / np.sqrt(1_500)
    assert posterior.draws["mean"].mean() == pytest.approx(mean, abs=error * np.sqrt(variance))
    np.testing.assert_allclose(missing.mean((0, 1)), mean, atol=error * np.sqrt(1.0 + variance))
    np.testing.assert_allclose(missing.var((0, 1)), 1.0 + variance, rtol=0.15)
    # The rows share the mean, and nothing else.
    covariance = np.cov(missing.reshape(-1, 2).T)[0, 1]
    assert covariance == pytest.approx(variance, abs=5.0 * (1.0 + variance) / np.sqrt(1_500))


def likelihoods():
    """Likelihood given a number in (0, 1), observations, log density of one of them."""
    rates = np.array([1.0, 2.0, 5.0, 0.5])
    yield lambda p: dist.Poisson(3.0 * p * rates), [2.0, nan, 4.0, nan], None
    yield lambda p: dist.Bernoulli(p), [1.0, 0.0, nan, 1.0], None
    yield lambda p: dist.Uniform(0.0, p + rates), [0.3, 1.1, nan, nan], None
    yield lambda p: dist.LogNormal(p, 1.0).expand([2, 3]).to_event(1), [[1, nan, 2], [nan, 4, 3]], 0
    yield lambda p: dist.Normal(p, 1.0).mask(rates > 0.7), [0.2, nan, 0.1, 3.0], None


@pytest.mark.parametrize("case", few(range(5)))
def test_density_is_that_of_the_seen_values(case):
    likelihood, y, _ = list(likelihoods())[case]
    y = np.array(y)

    def model(y):
        p = numpyro.sample("p", dist.Beta(2.0, 2.0))
        numpyro.sample("y", likelihood(p), obs=y)

    posterior = fit(model, y, method=bk.Laplace(draws=50))
    z, p = 0.3, 1.0 / (1.0 + np.exp(-0.3))
    fn = likelihood(p)
    while isinstance(fn, dist.Independent | dist.ExpandedDistribution):
        fn = fn.base_dist
    seen = ~np.isnan(y)
    log_prob = np.broadcast_to(fn.log_prob(np.where(seen, y, 1.0)), y.shape)[seen].sum()
    log_prob += stats.beta(2, 2).logpdf(p) + np.log(p * (1.0 - p))
    assert float(posterior.target.log_density(np.array([z]))) == pytest.approx(log_prob, rel=1e-10)
    gradient = jax.grad(posterior.target.log_density)(np.array([z]))
    assert np.all(np.isfinite(gradient))
    values = posterior.draws["y_missing"]
    assert values.shape == (1, 50, (~seen).sum()) and np.all(np.isfinite(values))
    if case == 2:
        assert np.all(values > 0.0) and np.all(values < 6.0)


@pytest.mark.slow
def test_missing_counts():
    """Counts with a gamma rate: missing ones are negative binomial."""

    def counts(y):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        with numpyro.plate("row", len(y)):
            numpyro.sample("y", dist.Poisson(rate), obs=y)

    y = np.array([3.0, nan, 5.0, 2.0])
    posterior = fit(counts, y, method="importance")
    draws = posterior.draws["y_missing"].ravel()
    expected = stats.nbinom(12.0, 4.0 / 5.0)
    for k in range(7):
        assert np.mean(draws == k) == pytest.approx(expected.pmf(k), abs=0.02)
    point = fit(counts, y, method="map")
    # The mean given the mode of the rate.
    np.testing.assert_allclose(point.draws["y_missing"], 11.0 / 4.0, rtol=1e-4)


@pytest.mark.slow
def test_draws_of_a_mixture():
    """Discrete latents are summed out: a missing row is of either kind."""

    def mixture(y):
        share = numpyro.sample("share", dist.Beta(2.0, 2.0))
        with numpyro.plate("row", len(y)):
            kind = numpyro.sample("kind", dist.Bernoulli(share))
            numpyro.sample("y", dist.Normal(8.0 * kind, 1.0), obs=y)

    posterior = fit(mixture, np.array([0.0, 8.0, 8.1, nan, 0.2, 7.9]))
    share = np.mean(posterior.draws["y_missing"] > 4.0)
    assert share == pytest.approx(5.0 / 9.0, abs=0.04)
    assert posterior.log_likelihood()["y"].shape == (1, 4000, 5)


# -- events ----------------------------------------------------------------------------------------


def events(y):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.MultivariateNormal(mean, COVARIANCE), obs=y)


@pytest.mark.slow
def test_events_missing_in_part():
    """Marginal normal densities, and conditional normal draws."""
    posterior = fit(events, EVENTS)
    mean = np.array([0.3, -0.1, 0.2])
    expected = stats.norm.logpdf(mean).sum()
    for row in EVENTS:
        seen = np.flatnonzero(~np.isnan(row))
        if len(seen):
            part = stats.multivariate_normal(mean[seen], COVARIANCE[np.ix_(seen, seen)])
            expected += part.logpdf(row[seen])
    assert float(posterior.target.log_density(mean)) == pytest.approx(expected, rel=1e-12)
    # Row 0: the second coordinate given the others, at the draws of the mean.
    draws, means = posterior.flat["y_missing"][:, 0], posterior.flat["mean"]
    weights = np.linalg.solve(COVARIANCE[np.ix_([0, 2], [0, 2])], COVARIANCE[[0, 2], 1])
    residual = draws - means[:, 1] - (EVENTS[0, [0, 2]] - means[:, [0, 2]]) @ weights
    variance = COVARIANCE[1, 1] - COVARIANCE[1, [0, 2]] @ weights
    assert residual.mean() == pytest.approx(0.0, abs=4.0 * np.sqrt(variance / 4_000))
    assert residual.var() == pytest.approx(variance, rel=0.1)
    # One log likelihood for each event with a value; its row of data has NaN where it had.
    assert posterior.log_likelihood()["y"].shape == (1, 4000, 4)
    tree = posterior.to_arviz()
    np.testing.assert_array_equal(tree["observed_data"]["y"], EVENTS[[0, 1, 3, 4]])
    labels = list(tree["posterior"]["y_missing_row"].to_numpy())
    assert labels == ["0, 1", "2, 0", "2, 1", "2, 2", "3, 0", "3, 1"]


# -- latents ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_density_with_a_missing_covariate():
    """Density of all values, the missing covariates among the latents."""
    posterior = fit(line, X_LINE, Y_LINE, method=bk.Laplace(draws=50))
    values = {"centre": 0.2, "slope": 1.7, "sd": 0.6, "x_missing": np.array([0.5, -0.4])}
    assert {s.name for s in posterior.target.latents} == set(values)
    z, log_det = posterior.target.unconstrain(values)
    x = X_LINE.copy()
    x[[1, 4]] = values["x_missing"]
    seen = ~np.isnan(Y_LINE)
    expected = stats.norm.logpdf(0.2) + stats.norm(0, 2).logpdf(1.7) + stats.halfnorm.logpdf(0.6)
    expected += stats.norm(0.2, 1.5).logpdf(x).sum()
    expected += stats.norm(1.7 * x, 0.6).logpdf(Y_LINE)[seen].sum()
    found = float(posterior.target.log_density(z)) - float(log_det)
    assert found == pytest.approx(expected, rel=1e-12)
    likelihood = float(posterior.target.log_density(z, prior=False)) - float(log_det)
    prior = stats.norm.logpdf(0.2) + stats.norm(0, 2).logpdf(1.7) + stats.halfnorm.logpdf(0.6)
    prior += stats.norm(0.2, 1.5).logpdf(values["x_missing"]).sum()
    assert likelihood == pytest.approx(expected - prior, rel=1e-10)
    shapes = {name: v.shape[2:] for name, v in posterior.log_likelihood().items()}
    assert shapes == {"x": (10,), "y": (10,)}


@pytest.mark.slow
def test_density_with_covariates_missing_in_part():
    """Two correlated covariates, of which rows miss one or both."""
    cov = COVARIANCE[:2, :2]

    def pair(x, y):
        weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        with numpyro.plate("row", len(y)):
            x = numpyro.sample("x", dist.MultivariateNormal(jnp.zeros(2), cov), obs=x)
            numpyro.sample("y", dist.Normal(x @ weights, 0.5), obs=y)

    x = np.array([[0.1, nan], [nan, nan], [0.4, -0.2], [nan, 1.0]])
    y = np.array([0.3, 1.0, -0.5, 0.8])
    posterior = fit(pair, x, y, method=bk.Laplace(draws=50))
    weights, new = np.array([0.7, -0.4]), np.array([0.2, -1.0, 0.5, 1.3])
    full = x.copy()
    full[np.isnan(x)] = new
    expected = stats.norm.logpdf(weights).sum() + stats.norm(full @ weights, 0.5).logpdf(y).sum()
    expected += stats.multivariate_normal(np.zeros(2), cov).logpdf(full).sum()
    z, log_det = posterior.target.unconstrain({"weights": weights, "x_missing": new})
    found = float(posterior.target.log_density(z)) - float(log_det)
    assert found == pytest.approx(expected, rel=1e-12)
    # Draws of the prior given the observed coordinates.
    prior = np.array(
        [
            posterior.target.draw_prior(key, 1.0)
            for key in jax.random.split(jax.random.key(0), 2_000)
        ]
    )[:, 2:]
    regression = cov[0, 1] / cov[0, 0]
    assert prior[:, 0].mean() == pytest.approx(0.1 * regression, abs=0.12)
    assert prior[:, 0].var() == pytest.approx(cov[1, 1] - regression * cov[0, 1], rel=0.12)


@pytest.mark.parametrize("method", few(METHODS))
def test_missing_covariates_in_closed_form(method):
    """Known parameters: a missing x is normal given its y."""

    def known(x, y):
        with numpyro.plate("row", len(x)):
            x = numpyro.sample("x", dist.Normal(1.0, 2.0), obs=x)
            numpyro.sample("y", dist.Normal(3.0 * x, 1.5), obs=y)

    posterior = fit(known, np.array([nan, 0.5, nan]), np.array([2.0, 1.0, nan]), method=method)
    precision = 1.0 / 4.0 + 9.0 / 2.25
    mean, sd = (1.0 / 4.0 + 3.0 * 2.0 / 2.25) / precision, precision**-0.5
    draws = posterior.draws["x_missing"]
    assert draws[..., 0].mean() == pytest.approx(mean, abs=5.0 * sd / np.sqrt(1_000))
    assert draws[..., 0].std() == pytest.approx(sd, rel=0.1)
    # Without y, the prior of x; and y given the drawn x.
    assert draws[..., 1].std() == pytest.approx(2.0, rel=0.1)
    residual = posterior.draws["y_missing"][..., 0] - 3.0 * draws[..., 1]
    assert residual.std() == pytest.approx(1.5, rel=0.1)


@pytest.mark.slow
def test_autoregression_with_a_gap():
    """The smoothing distribution of a Gaussian AR(1), from its joint covariance."""
    rho, sd, n = 0.8, 0.5, 10
    covariance = sd**2 / (1.0 - rho**2) * rho ** np.abs(np.subtract.outer(range(n), range(n)))
    y = np.random.default_rng(1).multivariate_normal(np.zeros(n), covariance)
    y[[0, 4, 5, 9]] = nan

    def autoregression(y):
        value = numpyro.sample("y_0", dist.Normal(0.0, sd / np.sqrt(1.0 - rho**2)), obs=y[0])
        for t in range(1, n):
            value = numpyro.sample(f"y_{t}", dist.Normal(rho * value, sd), obs=y[t])

    posterior = fit(autoregression, y)
    gone = np.isnan(y)
    weights = np.linalg.solve(covariance[np.ix_(~gone, ~gone)], covariance[np.ix_(~gone, gone)])
    mean = weights.T @ y[~gone]
    smoothed = covariance[np.ix_(gone, gone)] - weights.T @ covariance[np.ix_(~gone, gone)]
    names = [f"y_{t}_missing" for t in np.flatnonzero(gone)]
    draws = np.concatenate([posterior.flat[name] for name in names], axis=1)
    np.testing.assert_allclose(draws.mean(0), mean, atol=4.0 * sd / np.sqrt(4_000))
    np.testing.assert_allclose(np.cov(draws.T), smoothed, atol=0.03)
    assert "4 values of y_0, y_4, y_5, ... are missing" in repr(posterior)


@pytest.mark.slow
def test_values_behind_a_deterministic_are_latents():
    def with_total(y):
        mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
        with numpyro.plate("row", len(y)):
            y = numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)
        numpyro.deterministic("total", y.sum())

    posterior = fit(with_total, Y)
    total = Y[SEEN].sum() + posterior.draws["y_missing"].sum(-1)
    np.testing.assert_allclose(posterior.draws["total"], total)


# -- what follows ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def posterior():
    return fit(line, X_LINE, Y_LINE, method="importance", coords={"row": list("abcdefghijkl")})


@pytest.mark.slow
def test_labels_and_remark(posterior):
    tree = posterior.to_arviz()["posterior"]
    assert list(tree["y_missing_row"].to_numpy()) == ["e", "h"]
    assert list(tree["x_missing_row"].to_numpy()) == ["b", "e"]
    assert {"x_missing[b]", "y_missing[h]"} <= set(posterior.summary().index)
    assert "4 values of x, y are missing" in posterior.remarks[0]
    np.testing.assert_array_equal(posterior.missing_values["x"], np.isnan(X_LINE))
    assert bk.infer(level, Y[SEEN], progress=False).remarks == ()


@pytest.mark.slow
def test_predictions(posterior):
    """At new covariates; a missing one is drawn from its distribution."""
    prediction = posterior.predict(np.array([1.0, nan]), None)
    slope, centre = posterior.draws["slope"].mean(), posterior.draws["centre"].mean()
    assert prediction.mean[0] == pytest.approx(slope, abs=0.05)
    assert prediction.sd[1] == pytest.approx(1.5 * slope, rel=0.1)
    assert prediction.mean[1] == pytest.approx(centre * slope, abs=0.2)
    # At the rows of the fit, draws of the missing covariate are used.
    again = posterior.predict(X_LINE, None)
    expected = (posterior.draws["slope"] * posterior.draws["x_missing"][..., 0]).mean()
    assert again.mean[1] == pytest.approx(expected, abs=0.1)


@pytest.mark.slow
def test_saved_and_loaded(posterior, tmp_path):
    posterior.save(tmp_path / "posterior.nc")
    alone = bk.load(tmp_path / "posterior.nc")
    assert alone.remarks == posterior.remarks
    np.testing.assert_array_equal(alone.draws["y_missing"], posterior.draws["y_missing"])
    loaded = bk.load(tmp_path / "posterior.nc", line)
    new = np.array([0.5, 1.0])
    np.testing.assert_allclose(loaded.predict(new, None).mean, posterior.predict(new, None).mean)


@pytest.mark.slow
def test_leave_one_out_is_that_of_the_seen_rows():
    found, expected = (bk.loo(fit(level, y)) for y in (Y, Y[SEEN]))
    assert found.elpd == pytest.approx(expected.elpd, rel=1e-6)
    assert found.labels == ("y[0]", "y[2]", "y[4]", "y[5]")


@pytest.mark.slow
def test_report(posterior, tmp_path):
    text = report(posterior, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "4 values of x, y are missing" in text
    page = report(fit(events, EVENTS), tmp_path / "events.html").read_text(encoding="utf-8")
    assert "6 values of y are missing" in page and ">nan<" not in page
    assert "could not be made" not in text + page


def test_same_pattern_does_not_compile_again():
    fit(level, Y, method=bk.Laplace(draws=20))
    before = len(compilations)
    fit(level, Y + 1.0, method=bk.Laplace(draws=20))
    assert len(compilations) == before


@pytest.mark.slow
def test_missing_values_of_frames_and_masked_arrays():
    expected = fit(level, Y, method="map").draws["mean"]
    integers = pd.Series([1, None, 3, 2], dtype="Int64")
    for y, same in (
        (np.ma.masked_invalid(Y), Y),
        (np.array([x if x == x else None for x in Y], object), Y),
        (integers, np.array([1.0, nan, 3.0, 2.0])),
    ):
        found = fit(level, y, method="map").draws["mean"]
        wanted = expected if same is Y else fit(level, same, method="map").draws["mean"]
        np.testing.assert_array_equal(found, wanted)


# -- bad input -------------------------------------------------------------------------------------


def scanned(y):
    def step(value, obs):
        value = numpyro.sample("y", dist.Normal(0.5 * value, 1.0), obs=obs)
        return value, value

    rate = numpyro.sample("rate", dist.Normal(0.0, 1.0))
    numpyro.contrib.control_flow.scan(step, rate, y)


def walk(y):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.GaussianRandomWalk(scale, len(y)), obs=y)


def process(y):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    x = np.arange(len(y), dtype=float)
    numpyro.sample("y", bk.GaussianProcess(bk.kernels.RBF(1.0), x, scale), obs=y)


def switch(x, y):
    effect = numpyro.sample("effect", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", len(y)):
        x = numpyro.sample("x", dist.Bernoulli(0.5), obs=x)
        numpyro.sample("y", dist.Normal(effect * x, 1.0), obs=y)


def two(y, w):
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)
    numpyro.sample("w", dist.Normal(mean, 1.0), obs=w)


def plain(x, y):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "args", "says"),
    [
        (level, (Y * nan,), "all values of 'y' are missing, so that there are no data"),
        (two, (Y, Y * nan), "all values of 'w' are missing: give it no obs="),
        (level, (np.array([1, 2, -999, 4]),), "no NaN, but 1 value of -999"),
        (level, (np.array([1.0, nan, np.inf]),), "'y' has 1 value that is infinite"),
        (scanned, (Y,), "'y' are in a scan.*Write the steps as a loop"),
        (walk, (Y,), "events of GaussianRandomWalk that are missing in part"),
        (process, (Y,), "'y' is a GaussianProcess.*mask=~jnp.isnan"),
        (switch, (np.array([1.0, nan, 0.0]), np.ones(3)), "cannot be one: Bernoulli is discrete"),
        (plain, (Y, np.ones(6)), "the argument 'x' has 2 values that are NaN.*numpyro.sample"),
        (bk.BayesianLinearRegression(), (np.ones((6, 1)), Y), "takes the rows without missing"),
    ],
)
def test_bad_input(model, args, says):
    with pytest.raises(ValueError, match=says):
        fit(model, *args)


@pytest.mark.slow
def test_other_bad_calls():
    with pytest.raises(ValueError, match="missing='drop' is not known"):
        fit(level, Y, missing="drop")
    with pytest.raises(ValueError, match="missing='impute' draws them"):
        fit(level, Y, missing=None)
    with pytest.raises(ValueError, match="mle.*drops the densities of latents"):
        fit(line, X_LINE, Y_LINE, method="mle")
    with pytest.raises(ValueError, match="no method exact"):
        fit(level, Y, method="exact")
    with pytest.raises(ValueError, match="missing values of 'x' are latents, which belong to one"):
        bk.calibrate(fit(line, X_LINE, Y_LINE, method=bk.Laplace(draws=200)))


def test_process_with_a_mask():
    """Follow the advice of the message about a GaussianProcess."""

    def masked(y):
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        x = jnp.arange(len(y), dtype=float)
        gp = bk.GaussianProcess(bk.kernels.RBF(1.0), x, noise, mask=~jnp.isnan(y))
        numpyro.sample("y", gp, obs=jnp.nan_to_num(y))

    x = np.flatnonzero(SEEN).astype(float)
    noise = 0.7
    expected = bk.GaussianProcess(bk.kernels.RBF(1.0), x, noise).log_prob(Y[SEEN])
    target = Target.from_model(masked, (Y,), {})
    z, log_det = target.unconstrain({"noise": noise})
    found = float(target.log_density(z, prior=False) - log_det)
    assert found == pytest.approx(float(expected), rel=1e-8)


# -- NumPyro's own masks ---------------------------------------------------------------------------


def masked_events(y, seen):
    mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
    with numpyro.plate("row", len(y)):
        normal = dist.Normal(mean, 1.0).expand([len(y), 2]).to_event(1)
        numpyro.sample("y", normal, obs=y, obs_mask=seen)


@pytest.mark.parametrize("method", few(["laplace", "nuts"], "laplace"))
def test_obs_mask_of_numpyro_in_closed_form(method):
    y = np.nan_to_num(np.column_stack([Y, Y + 1.0]))
    posterior = bk.infer(masked_events, y, SEEN, method=method, seed=0, progress=False)
    precision = 1.0 / 4.0 + 2.0 * SEEN.sum()
    mean, sd = y[SEEN].sum() / precision, precision**-0.5
    assert posterior.trust.verdict == "good", posterior.trust.advice
    draws = posterior.flat["mean"]
    assert abs(draws.mean() - mean) < 0.1 * sd and abs(draws.std() / sd - 1.0) < 0.1
    rows = posterior.flat["y"]
    np.testing.assert_allclose(rows[:, SEEN], np.broadcast_to(y[SEEN], (len(rows), 4, 2)))
    missing = np.sqrt(1.0 + sd**2)
    np.testing.assert_allclose(rows[:, ~SEEN].std(axis=0), missing, rtol=0.1)
