"""Calibration passes correct methods and names the faults of others."""

from functools import cache

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern import priors
from bayeskern.diagnostics.calibration.calibration import LIKELIHOOD
from bayeskern.diagnostics.calibration.simulation_based import calibrate
from bayeskern.protocols import DoesNotApplyError
from tests.diagnostics.calibration.known_posteriors import ROWS, FromPrior, Known, Y
from tests.marks import slow


@cache
def checked(simulations=200, **wrong):
    return calibrate(Known(**wrong), Y, method="exact", simulations=simulations, seed=4)


# -- correct methods -------------------------------------------------------------------------------


@pytest.mark.slow
def test_exact_posterior_is_calibrated():
    found = checked()
    assert found.verdict == "calibrated as far as 200 simulations can tell."
    assert not found.faults and min(found.p_values.values()) > 0.01
    assert found.verdicts == {"good": 200} and not found.failures


@pytest.mark.slow
def test_coverage_of_an_exact_posterior():
    for level in (0.5, 0.8, 0.95):
        share, error = checked().coverage(level)["mu"]
        assert error == pytest.approx(np.sqrt(level * (1 - level) / 200))
        assert abs(share - level) < 3.0 * error


@pytest.mark.slow
def test_z_scores_and_contraction_match_the_closed_form():
    found = checked()
    z, n = found.z_scores["mu"], 200
    assert abs(z.mean()) < 3.3 / np.sqrt(n) and abs(z.std() - 1) < 3.3 / np.sqrt(2 * n)
    # The variance falls from 1 to 1 / (rows + 1); that of the truths is known to 8 %.
    assert found.to_frame().loc["mu", "contraction"] == pytest.approx(ROWS / (ROWS + 1), abs=0.05)


@pytest.mark.slow
def test_ranks_count_draws_below_the_truth():
    found = checked()
    assert found.ranks["mu"].min() >= 0 and found.ranks["mu"].max() <= found.draws
    low = np.floor(found.uniforms["mu"] * (found.draws + 1))
    np.testing.assert_array_equal(low, found.ranks["mu"])
    # A truth far above its posterior mean has most draws below it.
    assert np.corrcoef(found.ranks["mu"], -found.z_scores["mu"])[0, 1] > 0.9


@pytest.mark.slow
def test_seed_determines_the_numbers():
    first, again = (calibrate(Known(), Y, method="exact", simulations=12, seed=5) for _ in range(2))
    other = calibrate(Known(), Y, method="exact", simulations=12, seed=6)
    for name in ("mu", LIKELIHOOD):
        np.testing.assert_array_equal(first.uniforms[name], again.uniforms[name])
        assert np.all(first.uniforms[name] != other.uniforms[name])


@pytest.mark.slow
def test_linear_regression_on_a_frame_is_calibrated():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(8, 2)) * [1.0, 5.0] + 3.0, columns=["a", "b"])
    y = 40.0 + 7.0 * rng.normal(size=8)
    # The prior of the weights has the scale of the given y, not of simulated data.
    model = bk.BayesianLinearRegression(noise_variance=30.0, prior=priors.Gaussian())
    found = calibrate(model, X, y, method="exact", simulations=100, seed=1)
    assert not found.faults and not found.failures
    assert list(found.uniforms) == ["weights[0]", "weights[1]", "intercept", LIKELIHOOD]
    sd = 2.5 * y.std() / X.std(ddof=0).to_numpy()
    for i in range(2):
        assert found.truth[f"weights[{i}]"].std() == pytest.approx(sd[i], rel=0.25)


# -- faulty methods --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"scale": 0.5}, "posterior too narrow"),
        slow({"scale": 2.0}, "posterior too wide"),
        slow({"shift": 0.7}, "posterior biased upwards"),
        slow({"shift": -0.7}, "posterior biased downwards"),
        slow({"scale": 0.4, "shift": 0.4}, "posterior too narrow and biased upwards"),
    ],
)
def test_fault_of_a_wrong_posterior(wrong, named):
    found = checked(120, **wrong)
    assert found.faults["mu"] == named
    assert f"mu: {named}" in found.verdict


@pytest.mark.slow
def test_coverage_of_half_the_sd():
    # 0.95 of N(0, (1/2)^2) reaches 0.98 sds: 0.673 of N(0, 1).
    share, error = checked(120, scale=0.5).coverage(0.95)["mu"]
    assert abs(share - 0.673) < 3.3 * np.sqrt(0.673 * 0.327 / 120)
    assert abs(share - 0.95) > 5 * error


@pytest.mark.slow
def test_log_likelihood_exposes_the_prior():
    found = checked(120, prior=True)
    assert list(found.faults) == [LIKELIHOOD]
    assert "fit worse than the truth" in found.faults[LIKELIHOOD]


def counts(y):
    rate = numpyro.sample("rate", dist.Exponential(1.0))
    numpyro.sample("y", dist.Poisson(rate), obs=y)


@pytest.mark.slow
def test_bias_of_laplace_matches_the_closed_form():
    # rate | y ~ Gamma(y + 1, 2); Laplace: log(rate) ~ N(log((y + 1) / 2), 1 / (y + 1)).
    rng = np.random.default_rng(0)
    rate = rng.exponential(size=10**5)
    a = rng.poisson(rate) + 1.0
    below = np.sqrt(a) * (np.log(rate) - np.log(a / 2.0))
    method = bk.Laplace(draws=1000, starts=1)
    found = calibrate(counts, 3, method=method, simulations=100, seed=2)
    z = found.z_scores["rate"]
    share = np.mean(below < 0)
    # Share of truths below the median of Laplace, its mean on the log scale.
    assert abs(np.mean(found.uniforms["rate"] < 0.5) - share) < 3.3 * 0.5 / np.sqrt(len(z))
    assert "posterior biased upwards" in found.faults["rate"] and share > 0.55


# -- failures --------------------------------------------------------------------------------------


# Compiled code raises RuntimeError.
@pytest.mark.parametrize("error", [ValueError, slow(RuntimeError)])
@pytest.mark.slow
def test_failed_fits_are_counted(error):
    method = FromPrior(fails=lambda target: target.args[0].mean() > 1.0, error=error)
    found = calibrate(Known(), Y, method=method, simulations=40)
    # The mean of the data is N(0, 1 + 1/4).
    assert 1 <= len(found.failures) <= 18
    assert found.simulations == 40 and found.fitted == 40 - len(found.failures)
    assert f"{len(found.failures)} of 40 could not be fitted" in found.verdict
    assert "it would not be fitted" in found.verdict
    assert f"{found.fitted} of 40 fitted" in repr(found)


class FailsAfter:
    """True once `count` fits have succeeded."""

    def __init__(self, count):
        self.left = count

    def __call__(self, target):
        self.left -= 1
        return self.left < 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fitted", [1, 9])
def test_few_fits_have_no_verdict(fitted):
    found = calibrate(Known(), Y, method=FromPrior(FailsAfter(fitted)), simulations=12)
    assert found.fitted == fitted and not found.faults
    assert found.verdict.startswith(f"not assessable: only {fitted} of 12 simulations could be")
    assert "it would not be fitted" in found.verdict and "calibrated as far" not in repr(found)
    assert np.isfinite(found.shrinkage["mu"]).all() == (fitted > 1)
    assert len(found.to_frame()) == 2


@pytest.mark.slow
def test_first_error_is_reported_if_all_fits_fail():
    with pytest.raises(ValueError, match=r"none of the 10 .* it would not be fitted"):
        calibrate(Known(), Y, method=FromPrior(lambda target: True), simulations=10)


def test_infinite_draws_are_failures():
    with pytest.raises(ValueError, match="'mu' are not finite"):
        calibrate(Known(), Y, method=FromPrior(value=np.nan), simulations=10)


# -- problems --------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [(Y,), {"y": Y}])
def test_problem_is_calibrated_like_its_model(data):
    found = calibrate(bk.Problem(Known(), data), method="exact", simulations=12, seed=5)
    expected = calibrate(Known(), Y, method="exact", simulations=12, seed=5)
    np.testing.assert_array_equal(found.uniforms["mu"], expected.uniforms["mu"])


# -- bad input -------------------------------------------------------------------------------------


def flat(y):
    mu = numpyro.sample("level", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)


def free(y):
    mu = numpyro.param("level", 0.0)
    numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)


def factor(y):
    mu = numpyro.sample("mu", dist.Normal())
    numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)
    numpyro.factor("penalty", -(mu**2))


def taken(y):
    mu = numpyro.sample(LIKELIHOOD, dist.Normal())
    numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)


def nothing(y):
    numpyro.sample("mu", dist.Normal())


def from_two(y):
    # NumPyro 0.22 sums over values other than 2 to 5.
    mu = numpyro.sample("mu", dist.Normal())
    k = numpyro.sample("k", dist.DiscreteUniform(2, 5))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(mu + k, 1.0), obs=y)


def looking(y):
    mu = numpyro.sample("mu", dist.Normal())
    if np.asarray(mu) > 100.0:
        mu = mu - 100.0
    numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)


def looking_at_data(y):
    mu = numpyro.sample("mu", dist.Normal())
    drawn = numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)
    numpyro.deterministic("largest", float(max(drawn)))


@pytest.mark.filterwarnings("ignore:Out-of-support values")
@pytest.mark.parametrize(
    ("model", "said"),
    [
        (flat, "'level' has no prior"),
        (free, "'level' has no prior"),
        (factor, "'penalty' is a numpyro.factor"),
        (nothing, "observes nothing"),
        (taken, "the name 'log likelihood' is reserved"),
        (from_two, "'y' has another density"),
        (looking, "looks at a value"),
        (looking_at_data, "looks at a value"),
    ],
)
def test_models_that_cannot_be_simulated_are_refused(model, said):
    with pytest.raises(ValueError, match=said):
        calibrate(model, Y, method="laplace")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "laplac"}, "Did you mean 'laplace'"),
        ({"method": "map"}, "'map' gives a point"),
        ({"method": bk.MLE()}, "'mle' gives a point"),
        ({"simulations": 3}, "at least 10"),
        ({"simulations": 0.5}, "simulations must be a whole number"),
        ({"draws": 0}, "draws must be"),
        ({"level": 95}, "level must be a probability"),
        ({"seed": -1}, "seed must be"),
        ({"method": bk.Exact(draws=50)}, "exact gives 50 draws, but the truth"),
    ],
)
def test_bad_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        calibrate(Known(), Y, **options)


def test_bad_types_are_refused():
    with pytest.raises(TypeError, match=r"bk\.NUTS\(\), with the parentheses"):
        calibrate(counts, 3, method=bk.NUTS)
    with pytest.raises(TypeError, match="holds its own data"):
        calibrate(bk.Problem(Known(), (Y,)), Y)


def test_method_that_does_not_apply_is_refused():
    method = FromPrior(lambda target: True, error=DoesNotApplyError)
    with pytest.raises(DoesNotApplyError, match="it would not be fitted"):
        calibrate(Known(), Y, method=method, simulations=10)


# -- tables and figures ----------------------------------------------------------------------------


@pytest.mark.slow
def test_table():
    text = repr(checked(120, scale=0.5))
    assert text.startswith("exact: mu: posterior too narrow")
    assert "50 % interval" in text and "120 good" in text
    starts = [
        line.split()[0] for line in text.splitlines() if "±" in line or "likelihood  " in line
    ]
    assert starts == ["mu", "log"]
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.slow
def test_discrete_latents_have_no_row():
    pytest.importorskip("funsor")

    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate("row", len(y)):
            k = numpyro.sample("k", dist.Bernoulli(0.5))
            numpyro.sample("y", dist.Normal(mu + 3.0 * k, 1.0), obs=y)

    method = FromPrior()
    found = calibrate(model, Y, method=method, simulations=10, draws=9)
    assert list(found.uniforms) == ["mu", LIKELIHOOD] and found.left_out == ("k",)
    assert repr(found).splitlines()[-1] == "Not in the table: k (discrete, summed out)."
    assert checked().left_out == () and "Not in the table" not in repr(checked())


def test_figure_has_a_panel_for_each_parameter():
    found = checked(120, scale=0.5)
    made = found.plot()
    titles = [axis.get_title() for axis in made.axes if axis.get_visible()]
    assert [t.split("\n")[0] for t in titles] == ["mu", LIKELIHOOD]
    assert "too narrow" in titles[0]
    assert len(found.plot(["mu"]).axes) == 1
    assert plt.get_fignums() == []
    with pytest.raises(ValueError, match="parameter='mo' is not known"):
        found.plot(["mo"])


def test_curve_is_the_ecdf_minus_the_diagonal():
    found = checked(120, scale=0.5)
    _, curve = found.plot(["mu"]).axes[0].get_lines()
    at, height = curve.get_data()
    expected = [np.mean(found.uniforms["mu"] <= x) - x for x in at]
    np.testing.assert_allclose(height, expected, atol=1e-12)


@pytest.mark.slow
def test_arviz_tests_the_same_ranks():
    shown = az.plot_ecdf_pit(checked(120, scale=0.5).to_arviz(), backend="none")
    assert set(shown.viz["ecdf_lines"].data_vars) == {"mu", LIKELIHOOD}
    for found, right in ((checked(), True), (checked(120, scale=0.5), False)):
        p, *_ = found.to_arviz()["prior_sbc"].to_dataset().azstats.uniformity_test(method="pot_c")
        assert (float(p["mu"]) > 0.01) == right


# -- longer runs -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [bk.NUTS(chains=1, warmup=300, draws=600), bk.ImportanceSampling(draws=2000)],
    ids=["nuts", "importance"],
)
def test_methods_on_a_skewed_posterior_are_calibrated(method):
    found = calibrate(counts, 3, method=method, simulations=200, seed=3)
    assert not found.faults and not found.failures
