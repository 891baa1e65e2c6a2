"""Numbers of the report against closed forms, refits, SciPy and ArviZ."""

from types import SimpleNamespace

import arviz as az
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.stats import beta, norm

import bayeskern as bk
from bayeskern import gallery
from bayeskern.diagnostics.priors import site_priors
from bayeskern.inference.assessment import power_scaling
from bayeskern.kernels import (
    RBF,
    Brownian,
    ChangePoint,
    Cosine,
    IntegratedBrownian,
    IntegratedOrnsteinUhlenbeck,
    Linear,
    Matern32,
    Periodic,
)
from bayeskern.kernels.description import InputAxis
from bayeskern.reports import kernel_description
from bayeskern.reports.observations import observations
from bayeskern.reports.sections import convergence, sensitivity
from bayeskern.reports.sections.answer import estimates
from bayeskern.reports.sections.fit import fit
from bayeskern.reports.sections.forecast import answer as answer_of_forecast
from bayeskern.reports.subject import ForecastSubject, Subject
from tests.reports.pages import page_of

rng = np.random.default_rng(0)
Y = rng.normal(1.0, 1.0, size=30)


def normal(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def pair(y):
    scale = numpyro.sample("scale", dist.HalfCauchy(1.0))
    with numpyro.plate("group", 3):
        theta = numpyro.sample("theta", dist.Normal(0.0, scale))
    numpyro.sample("y", dist.Normal(theta, 1.0).to_event(1), obs=y)


@pytest.fixture(scope="module")
def subject():
    return Subject(bk.infer(normal, Y, method="laplace", seed=0, progress=False))


@pytest.fixture(scope="module")
def process():
    x = np.linspace(0.0, 4.0, 32)
    y = np.sin(2.0 * np.pi * x) + 0.3 * x
    kernel = Periodic(1.0, 1.0).named("season") + RBF(5.0, 4.0).named("trend")
    model = bk.GPRegression(kernel, noise=0.05)
    return Subject(bk.infer(model, x, y, method="exact", seed=0, progress=False)), kernel, x, y


@pytest.mark.slow
def test_pit_matches_arviz(subject):
    (one,) = observations(subject)
    wanted = az.loo_pit(subject.tree)["y"].values
    np.testing.assert_allclose(one.pit, wanted, atol=2e-3)


@pytest.mark.slow
def test_leave_one_out_means_of_a_conjugate_model(subject):
    (one,) = observations(subject)
    # mu given all but y_i has precision n - 1 + 1/4.
    wanted = (Y.sum() - Y) / (len(Y) - 1 + 0.25)
    draws = subject.posterior.flat["mu"].size
    assert np.max(np.abs(one.mean - wanted)) < 5.0 / np.sqrt(draws)


@pytest.mark.slow
def test_leave_one_out_of_a_process_matches_refits(process):
    subject, kernel, x, y = process
    (one,) = observations(subject)
    for i in (0, 7, 31):
        rest = np.arange(len(x)) != i
        gp = bk.GaussianProcess(kernel, x[rest], 0.05).condition(y[rest])
        new = gp.predict(x[i : i + 1])
        np.testing.assert_allclose(one.mean[i], new.mean[0], rtol=1e-8)
        np.testing.assert_allclose(one.pit[i], norm.cdf((y[i] - new.mean) / new.sd)[0], rtol=1e-7)
        log_density = norm.logpdf(y[i], new.mean, new.sd)[0]
        np.testing.assert_allclose(one.log_density[i], log_density, rtol=1e-7)


@pytest.mark.slow
def test_components_of_a_process_add_up(process):
    subject, kernel, x, y = process
    (one,) = subject.processes
    X = x[:, None]
    parts = one.components(X)
    np.testing.assert_allclose(sum(p.mean for p in parts.values()), one.function(X).mean, atol=1e-8)
    np.testing.assert_allclose(one.function(X).mean, kernel_mean(kernel, x, y), atol=1e-8)
    changes = one.changes("trend", X[[0, -1]])
    assert np.all(changes > 0)
    np.testing.assert_allclose(changes.mean(), 0.3 * 4.0, atol=0.2)


def kernel_mean(kernel, x, y):
    K = np.asarray(kernel(x))
    return K @ np.linalg.solve(K + 0.05 * np.eye(len(x)), y)


def test_log_densities_match_scipy(subject):
    mu = subject.posterior.flat["mu"][:7]
    found = power_scaling.log_probs(subject.posterior.target, {"mu": mu})
    np.testing.assert_allclose(found["mu"], norm.logpdf(mu, 0.0, 2.0), rtol=1e-12)
    np.testing.assert_allclose(found["y"], norm.logpdf(Y[:, None], mu).sum(axis=0), rtol=1e-10)


@pytest.mark.slow
def test_power_scaling_finds_a_prior_in_conflict():
    def model(y, sd):
        mu = numpyro.sample("mu", dist.Normal(0.0, sd))
        numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]).to_event(1), obs=y)

    for sd, conflict in ((0.2, True), (50.0, False)):
        p = bk.infer(model, Y + 1.0, sd, method="laplace", seed=0, progress=False)
        ((head, first, *_),) = page_of(sensitivity.sensitivity(Subject(p))).tables
        row = dict(zip(head, first, strict=True))
        assert (float(row["prior"]) > 0.05) is conflict
        assert ("conflict" in row["diagnosis"]) is conflict


@pytest.mark.slow
def test_priors_as_source_code_and_density():
    p = bk.infer(pair, jnp.array([0.1, 0.2, 0.3]), method="laplace", seed=0, progress=False)
    found = {prior.site: prior for prior in site_priors(p.target)}
    (on_sd,) = site_priors(bk.infer(from_sd, 0.3, method="map", progress=False).target)
    assert on_sd.text == "HalfNormal(0.5) on the sd"
    assert found["scale"].text == "HalfCauchy(1)" and found["scale"].is_unconditional
    assert not found["theta"].is_unconditional and "depends on other sites" in found["theta"].text
    assert found["theta"].in_plate and not found["scale"].in_plate
    x = np.array([-1.0, 0.5, 2.0])
    density = [np.nan, *(2.0 / np.pi / (1.0 + x[1:] ** 2))]
    np.testing.assert_allclose(Subject(p).prior_density("scale", x), density, rtol=1e-6)


def from_sd(y):
    variance = numpyro.sample("variance", bk.from_sd(dist.HalfNormal(0.5)))
    numpyro.sample("y", dist.Normal(0.0, jnp.sqrt(variance)), obs=y)


def test_density_of_a_beta_prior_is_exact():
    """NumPyro's Beta has the parameters of a Dirichlet distribution, with a further axis."""
    subject = Subject(gallery.load("coin").fit("exact", progress=False))
    x = np.array([-0.1, 0.2, 0.9])
    np.testing.assert_allclose(subject.prior_density("p", x), [np.nan, *beta(2, 2).pdf(x[1:])])


def between(y):
    ends = [numpyro.sample(name, dist.Normal(0.0, 1.0)) for name in ("low", "high")]
    numpyro.factor("order", jnp.where(ends[0] < ends[1], 0.0, -jnp.inf))
    inside = numpyro.sample("inside", dist.Uniform(*ends))
    numpyro.sample("y", dist.Normal(inside, 1.0), obs=y)


@pytest.mark.slow
def test_priors_where_two_parameters_must_differ():
    p = bk.infer(between, 0.3, method=bk.NUTS(warmup=50, draws=50, chains=1), progress=False)
    told = {prior.site: prior.text for prior in site_priors(p.target)}
    assert told["low"] == "Normal(0, 1)"
    assert told["inside"] == "Uniform, which depends on other sites"


def stacked(kernel):
    import jax

    return jax.tree.map(lambda leaf: np.asarray(leaf, float)[None], kernel)


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (RBF(0.5), "varies very smoothly over about 6 months"),
        (RBF(20.0), "longer than the data"),
        (Matern32(2.0).named("a"), "varies with some roughness over about 2 years"),
        (Periodic(1.0, 2.0), "repeats every 1 year"),
        (Periodic(7.0 / 365.25, 0.2), "repeats every 7 days"),
        (2.0 * Periodic(1.0) * RBF(5.0), "repeats every 1 year; it changes over about 5 years"),
        (Cosine(4.0) * RBF(9.0), "a period of 4 years; it changes over about 9 years"),
        (IntegratedOrnsteinUhlenbeck(2.0), "has a slope that it forgets over about 2 years"),
        (
            ChangePoint(Brownian(), IntegratedBrownian(), 3.0),
            "wanders like a random walk until about 3 years, and has a slope that wanders like a"
            " random walk from then on",
        ),
        (Matern32(2.0).modulate(np.sin), "over about 2 years, times a given function"),
        (Linear() + RBF(1.0), "follows a straight line, and varies very smoothly"),
    ],
)  # fmt: skip
def test_kernels_in_words(kernel, said):
    assert said in stacked(kernel).describe(InputAxis("years", (10.0,)))


def test_lengths_and_directions_with_their_uncertainty():
    kernel = RBF(np.linspace(1.0, 3.0, 101))
    assert "about 2 (1.1 to 2.9) steps" in kernel.describe(InputAxis("steps", (10.0,)))
    draws = norm.ppf((np.arange(1000) + 0.5) / 1000)
    assert kernel_description.direction(draws + 10.0).startswith(
        "over the data it rises by 10 (8.36 to 11.6;"
    )
    assert "it falls by 10" in kernel_description.direction(draws - 10.0)
    assert "chance of a fall more than 99 %" in kernel_description.direction(draws - 10.0)
    assert "is uncertain (chance of a rise 69 %)" in kernel_description.direction(draws + 0.5)
    assert "rises by a factor of 2" in kernel_description.direction(
        2.0 * np.exp(0.01 * draws), factor=True
    )


def table(section, *head):
    return page_of(section).table(*head)


def decimals(text):
    return len(text.partition(".")[2])


def far(y):
    mu = numpyro.sample("mu", dist.Normal(1200.0, 100.0))
    numpyro.sample("y", dist.Normal(mu, 0.05).expand([len(y)]).to_event(1), obs=y)


@pytest.fixture(scope="module")
def distant():
    # The posterior of mu is N(1234.56, 0.0144^2), far narrower than the prior.
    y = 1234.56 + 0.05 * np.array([-1.0, 1.0] * 6)
    return Subject(bk.infer(far, y, method="laplace", seed=0, progress=False))


@pytest.mark.slow
def test_mean_far_from_zero_has_the_digits_of_its_sd(distant):
    row = table(estimates(distant), "parameter")["mu"]
    shown = [row["mean"], row["sd"], *row["89 % interval"].split(" to ")]
    mean, sd, low, high = (float(text.replace(",", "")) for text in shown)
    assert {decimals(text) for text in shown} == {4}
    assert abs(mean - 1234.56) < 0.001 and sd == pytest.approx(0.01443, rel=0.05)
    # The interval has 89 %.
    assert high - low == pytest.approx(2 * 1.598 * 0.01443, rel=0.05)


@pytest.mark.slow
def test_predictions_have_the_digits_of_residuals(distant):
    worst = table(fit(distant), "observation")
    for row in worst.values():
        apart = float(row["observed"].replace(",", "")) - float(row["predicted"].replace(",", ""))
        assert abs(apart) == pytest.approx(0.05, abs=0.02)


def test_means_of_divergent_draws_have_the_digits_of_the_sd():
    mu = np.random.default_rng(0).normal(1234.5678, 0.01, size=(2, 50))
    diverging = mu > 1234.58
    subject = SimpleNamespace(varying={"mu": mu})
    (row,) = table(convergence._divergences(subject, diverging), "parameter").values()
    inside, every, _ = (float(text.replace(",", "")) for text in list(row.values())[1:])
    assert inside == pytest.approx(mu[diverging].mean(), abs=1e-4)
    assert every == pytest.approx(mu.mean(), abs=1e-4)


@pytest.mark.slow
def test_forecast_table_has_equal_decimals():
    y = 1e4 + np.cumsum(np.random.default_rng(0).normal(size=40))
    f = bk.forecast(y, 8, season=0)
    rows = table(answer_of_forecast(ForecastSubject(f)), "time").values()
    texts = [text for row in rows for text in [row["median"], *row["95 % interval"].split(" to ")]]
    (places,) = {decimals(text) for text in texts}
    lower, upper = f.interval(0.8)
    sd = np.min(upper - lower) / (2.0 * norm.ppf(0.9))
    assert 10.0**-places <= sd / 10.0 < 10.0 ** (1 - places)
    lower, upper = f.interval(0.95)
    found = np.reshape([float(text.replace(",", "")) for text in texts], (8, 3))
    np.testing.assert_allclose(
        found, np.stack([f.median, lower, upper], axis=1), atol=0.51 * 10.0**-places
    )


@pytest.mark.parametrize("wave", [Cosine(11.0), Periodic(11.0)])
def test_wave_needs_half_a_period_of_memory(wave):
    axis = InputAxis("years", (60.0,))
    said = stacked(RBF(5.4) * wave).describe(axis)
    assert said == "wanders, with a memory of about 5.4 years"
    said = stacked(RBF(5.6) * wave).describe(axis)
    assert "11 years" in said and said.endswith("it changes over about 5.6 years")


@pytest.mark.parametrize("wave", [Cosine, Periodic])
def test_wave_longer_than_the_data_is_marked(wave):
    axis = InputAxis("steps", (3.0,))
    for period, long in ((30.0, True), (2.0, False)):
        said = stacked(wave(period) * RBF(period)).describe(axis)
        assert ("longer than the data" in said) is long
