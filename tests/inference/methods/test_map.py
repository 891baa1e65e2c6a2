"""The posterior mode against closed forms, scikit-learn and SciPy, and its verdict."""

import re
import warnings

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from scipy.optimize import minimize_scalar
from scipy.stats import halfnorm, lognorm, norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.linear_model import LogisticRegression

import bayeskern as bk
from bayeskern import MAP, Free
from bayeskern.inference import Optimum
from bayeskern.inference.assessment.point import assess_point
from bayeskern.inference.search import search, starts
from bayeskern.kernels import RBF, Matern32, Periodic
from tests.compilations import compilations
from tests.inference.closed_forms import Regression, regression


def fit(model, *args, seed=0, **options):
    return bk.infer(model, *args, method=MAP(**options), seed=seed, progress=False)


def assert_sound(posterior):
    assert posterior.trust.verdict == "not assessable", posterior.trust
    assert posterior.optimum.gradient_norm < 1e-4
    assert posterior.trust.evidence["gradient_norm"] == posterior.optimum.gradient_norm


# -- known modes ---------------------------------------------------------------------------------


def normal_model(y, scale=0.5):
    mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
    numpyro.deterministic("double", 2.0 * mu)
    numpyro.sample("y", dist.Normal(mu, scale), obs=y)


def test_conjugate_normal():
    y = np.array([0.3, -1.2, 2.0, 0.7, 1.1])
    posterior = fit(normal_model, y)
    mode = (1 / 4 + y.sum() / 0.25) / (1 / 4 + 5 / 0.25)
    assert_sound(posterior)
    assert posterior.method == "map"
    assert posterior.trust.evidence["starts_agreeing"] == "4 of 4"
    assert list(posterior.draws) == ["mu", "double"]
    np.testing.assert_allclose(posterior.draws["mu"], [[mode]], atol=1e-6)
    np.testing.assert_allclose(posterior.draws["double"], [[2 * mode]], atol=2e-6)
    at_mode = norm(1, 2).logpdf(mode) + norm(mode, 0.5).logpdf(y).sum()
    np.testing.assert_allclose(posterior.optimum.log_density, at_mode, rtol=1e-12)


def test_linear_regression_mode_and_curvature():
    case = Regression()
    posterior = fit(regression, *case.data)
    assert_sound(posterior)
    # The gradient is below 1e-4, and the smallest curvature above 3.
    np.testing.assert_allclose(posterior.draws["w"][0, 0], case.mean, atol=3e-5)
    np.testing.assert_allclose(posterior.optimum.hessian, case.precision, rtol=1e-9, atol=1e-9)
    eigenvalues = np.linalg.eigvalsh(case.precision)
    np.testing.assert_allclose(posterior.optimum.eigenvalues, eigenvalues, rtol=1e-9)
    assert posterior.trust.evidence["smallest_eigenvalue"] == posterior.optimum.eigenvalues[0]


@pytest.mark.slow
def test_logistic_regression_against_scikit_learn():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 4))
    y = (X @ [1.0, -2.0, 0.0, 0.5] + rng.logistic(size=120) > 0).astype(int)

    def model(X, y):
        w = numpyro.sample("w", dist.Normal(0, 1.5).expand([4]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=X @ w), obs=y)

    posterior = fit(model, X, y)
    # |w|^2 / 2 + C sum of the losses: C is the variance of the prior.
    peer = LogisticRegression(C=1.5**2, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    assert_sound(posterior)
    np.testing.assert_allclose(posterior.draws["w"][0, 0], peer.coef_[0], atol=1e-5)


def gamma_model():
    numpyro.sample("s", dist.Gamma(3.0, 1.0))


@pytest.mark.parametrize(("jacobian", "mode"), [(False, 2.0), (True, 3.0)])
def test_jacobian_option_determines_the_parameters_of_the_mode(jacobian, mode):
    # s^2 e^-s has its mode at 2; in z = log s, e^(3 z - e^z) has it at s = 3, curvature 3.
    posterior = fit(gamma_model, jacobian=jacobian)
    assert_sound(posterior)
    np.testing.assert_allclose(posterior.draws["s"], mode, atol=1e-5)
    np.testing.assert_allclose(posterior.optimum.eigenvalues, [mode], rtol=1e-4)
    assert posterior.optimum.mode == ("unconstrained" if jacobian else "constrained")
    assert posterior.trust.evidence["mode"] == posterior.optimum.mode


@pytest.mark.slow
def test_params_without_priors_maximise_the_likelihood():
    y = np.array([0.3, -1.2, 2.0, 0.7, 1.1])

    def model(y):
        mu = numpyro.param("mu", 0.0)
        s = numpyro.param("s", 1.0, constraint=constraints.positive)
        numpyro.sample("y", dist.Normal(mu, s), obs=y)

    posterior = fit(model, y, jacobian=True)  # no prior, so no Jacobian either
    assert_sound(posterior)
    np.testing.assert_allclose(posterior.draws["mu"][0, 0], y.mean(), atol=1e-6)
    np.testing.assert_allclose(posterior.draws["s"][0, 0], y.std(), atol=1e-6)


def rosenbrock():
    # A curved valley; the mode is (1, 1), the Hessian [[802, -400], [-400, 200]].
    x = numpyro.sample("x", dist.ImproperUniform(constraints.real, (), (2,)))
    numpyro.factor("f", -((1 - x[0]) ** 2) - 100.0 * (x[1] - x[0] ** 2) ** 2)


@pytest.mark.slow
def test_rosenbrock():
    posterior = fit(rosenbrock)
    assert_sound(posterior)
    np.testing.assert_allclose(posterior.draws["x"][0, 0], [1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(posterior.optimum.hessian, [[802, -400], [-400, 200]], rtol=1e-5)


# -- the verdict ---------------------------------------------------------------------------------


def two_modes():
    x = numpyro.sample("x", dist.Normal(0.0, 4.0))
    numpyro.factor("f", jnp.logaddexp(-0.5 * (x + 5.0) ** 2, 1.0 - 0.5 * (x - 5.0) ** 2))


def two_modes_log_density(x):
    return norm(0, 4).logpdf(x) + np.logaddexp(-0.5 * (x + 5) ** 2, 1 - 0.5 * (x - 5) ** 2)


@pytest.mark.slow
def test_agreeing_starts_are_counted_with_two_modes():
    lower, higher = (
        -minimize_scalar(lambda x: -two_modes_log_density(x), bounds=bounds).fun
        for bounds in ((-6.0, -3.0), (3.0, 6.0))
    )
    posterior = fit(two_modes, starts=12)
    ends = posterior.optimum.start_log_densities
    high, low = (np.abs(ends - height) < 1e-6 for height in (higher, lower))
    assert ends.shape == (12,) and np.all(high | low)
    assert low.any() and 2 <= high.sum() < 12
    assert posterior.optimum.agreeing == high.sum()
    assert posterior.trust.evidence["starts_agreeing"] == f"{high.sum()} of 12"
    np.testing.assert_allclose(posterior.optimum.log_density, higher, atol=1e-9)
    # The lower mode is a rival, and with a third of the evidence it makes a point estimate bad.
    (rival,) = posterior.optimum.rivals
    np.testing.assert_allclose(rival.log_density, lower, atol=1e-9)
    assert posterior.trust.verdict == "bad"
    assert re.search("Another mode is only .*1 nats lower", posterior.trust.advice)


def test_costly_densities_are_searched_once(monkeypatch):
    monkeypatch.setattr(search, "MAX_COST_OF_POINT", 0)
    evidence = fit(two_modes).trust.evidence
    assert evidence["starts_agreeing"].endswith("of 4")
    assert evidence["unexplained_draws_followed"] == "not looked for"
    monkeypatch.setattr(starts, "MAX_COST_OF_STARTS", 0)
    trust = fit(two_modes).trust
    assert trust.evidence["starts_agreeing"] == "1 of 1" and "One search was made" in trust.advice
    # A number of starts that was asked for is kept.
    assert fit(two_modes, starts=4).trust.evidence["starts_agreeing"].endswith("of 4")


@pytest.mark.slow
def test_mode_with_negligible_evidence_is_not_a_rival():
    # Two Gaussians of equal width: the share of the lower one is that of its height, e^-4 or e^-6.
    def model(gap):
        x = numpyro.sample("x", dist.Normal(0.0, 100.0))
        numpyro.factor("f", jnp.logaddexp(-gap - 0.5 * (x + 10.0) ** 2, -0.5 * (x - 10.0) ** 2))

    for gap, verdict in ((4.0, "bad"), (6.0, "not assessable")):
        found = fit(model, gap, starts=12)
        assert np.isclose(found.optimum.start_log_densities, found.optimum.log_density - gap).any()
        assert len(found.optimum.others) == 1
        assert found.trust.verdict == verdict


@pytest.mark.parametrize(("b2", "verdict"), [(1.0, "not assessable"), (6.0, "bad")])
def test_modes_in_another_order_are_one_point(b2, verdict):
    """Two modes of equal height at (1, 4) and (4, b2), which are the same values if b2 = 1."""

    def model():
        a = numpyro.sample("a", dist.Normal(0.0, 1e3))
        b = numpyro.sample("b", dist.Normal(0.0, 1e3))
        one = -50.0 * ((a - 1.0) ** 2 + (b - 4.0) ** 2)
        other = -50.0 * ((a - 4.0) ** 2 + (b - b2) ** 2)
        numpyro.factor("f", jnp.logaddexp(one, other))

    found = fit(model, starts=12)
    ends = np.unique(np.round(found.optimum.ends, 1), axis=0)
    assert {tuple(end) for end in ends} >= {(1.0, 4.0), (4.0, b2)}
    assert len(found.optimum.others) == 1
    assert found.trust.verdict == verdict, found.trust.advice
    assert ("if a and b trade their values" in found.trust.advice) == (verdict != "bad")


def optimum(**changes):
    values = {
        "z": np.zeros(2),
        "log_density": -3.0,
        "gradient": np.array([1e-6, 0.0]),
        "curvature": lambda: np.diag([2.0, 3.0]),
        "ends": np.array([[0.0, 0.0], [0.01, 0.0], [9.0, 9.0], [0.0, 9.0]]),
        "start_log_densities": np.array([-3.0, -3.001, -9.0, -np.inf]),
        "coordinates": ("a", "b[1]"),
        "mode": "constrained",
        "at": lambda i: optimum(z=values["ends"][i], log_density=-9.0),
    }
    return Optimum(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"gradient": np.array([0.1, 0.2])}, r"did not converge.*along b\[1\]"),
        ({"gradient": np.array([0.0, np.nan])}, "did not converge"),
        ({"curvature": lambda: np.diag([np.nan, 1.0])}, "Not a maximum"),
        ({"curvature": lambda: np.diag([2.0, -1.0])}, r"rises along b\[1\]"),
        ({"curvature": lambda: np.diag([0.0, 1.0])}, "flat or rises along a;"),
        ({"start_log_densities": np.array([-3.0, -9.5, -9.0, -9.0])}, "Only one of 4 starts"),
        (
            {"at": lambda i: optimum(z=np.full(2, 9.0), log_density=-6.0)},
            "Another mode is only 3 nats lower",
        ),
    ],
)
def test_verdicts(changes, advice):
    trust = assess_point(optimum(**changes))
    assert trust.verdict == "bad" and re.search(advice, trust.advice)


def test_agreeing_starts_and_single_starts_are_sound():
    assert optimum().agreeing == 2
    single = optimum(ends=np.zeros((1, 2)), start_log_densities=np.array([-3.0]))
    for sound in (optimum(), single):
        assert assess_point(sound).verdict == "not assessable"


def test_modes_without_priors_are_compared_by_density():
    def beside(proper, **rival):
        other = optimum(proper=proper, z=np.full(2, 9.0), **rival)
        return optimum(proper=proper, at=lambda i: other).problem()

    # A variance that went to zero, and the density is all but flat: that is no room to be counted.
    collapsed = {"log_density": -50.0, "curvature": lambda: np.diag([2.0, 5e-41])}
    assert "Another mode" in beside(True, **collapsed)
    assert beside(False, **collapsed) is None
    assert "Another mode" in beside(False, log_density=-6.0)


def test_too_few_steps_is_bad():
    short = fit(rosenbrock, steps=1)
    assert short.trust.verdict == "bad"
    assert short.optimum.gradient_norm > 1e-4
    assert "did not converge" in short.trust.advice


def test_nan_density_names_the_site():
    def model():
        x = numpyro.sample("x", dist.Normal())
        numpyro.factor("f", jnp.nan * x)

    with pytest.raises(ValueError, match="log density is not finite.*at site 'f'"):
        fit(model, steps=5)


# -- Gaussian processes --------------------------------------------------------------------------


def standardised(values):
    return (values - np.mean(values)) / np.std(values)


def motorcycle():
    # All 133 observations, with repeated times.
    data = bk.datasets.load("motorcycle")
    ours = Matern32(lengthscale=Free(1.0), variance=Free(1.0))
    peer = sk.ConstantKernel(1.0) * sk.Matern(1.0, nu=1.5)
    return standardised(data.times.astype(float)), standardised(data.values), ours, peer


def airline():
    data = bk.datasets.load("airline")
    t, y = data.times.astype(float), np.log(data.values)
    years = (t - t[0]) / 365.25
    ours = Periodic(period=1.0, lengthscale=Free(1.0), variance=Free(1.0)) * RBF(
        lengthscale=Free(5.0)
    ) + RBF(lengthscale=Free(5.0), variance=Free(1.0))
    peer = sk.ConstantKernel(1.0) * sk.ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
    peer = peer * sk.RBF(5.0) + sk.ConstantKernel(1.0) * sk.RBF(5.0)
    return years, standardised(y), ours, peer


@pytest.mark.slow
@pytest.mark.parametrize("problem", [motorcycle, airline])
def test_gp_evidence_reaches_scikit_learn(problem):
    X, y, ours, peer = problem()
    posterior = fit(bk.GPRegression(ours, noise=Free(0.1)), X, y)
    peer = GaussianProcessRegressor(
        peer + sk.WhiteKernel(0.1), alpha=0.0, n_restarts_optimizer=5, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a bound of a start that loses
        best = peer.fit(X[:, None], y).log_marginal_likelihood_value_
    assert posterior.optimum.log_density >= best - 1e-3
    assert posterior.optimum.gradient_norm < 1e-4
    assert posterior.optimum.eigenvalues[0] > 0
    # Sound if and only if another start says the same, and no other mode is nearly as high.
    ends = posterior.optimum.start_log_densities - posterior.optimum.log_density
    is_sound = np.sum(ends > -0.01) > 1 and not np.any((ends > np.log(0.01)) & (ends < -0.01))
    assert posterior.trust.verdict == ("not assessable" if is_sound else "bad")
    # The log density is scikit-learn's log marginal likelihood at our values.
    theta = [np.log(posterior.draws[name].item()) for name in order(posterior)]
    again = peer.log_marginal_likelihood(np.array(theta))
    np.testing.assert_allclose(posterior.optimum.log_density, again, atol=1e-7)


def order(posterior):
    """Our names in scikit-learn's order."""
    season = ["periodic.variance", "periodic.lengthscale", "rbf.lengthscale"]
    names = {
        2: ["variance", "lengthscale"],
        5: [f"product.{n}" for n in season] + ["rbf.variance", "rbf.lengthscale"],
    }
    return [*names[len(posterior.draws) - 1], "noise"]


@pytest.mark.slow
def test_seed_determines_the_search():
    first, again, other = (fit(two_modes, starts=12, seed=s).optimum for s in (3, 3, 4))
    np.testing.assert_array_equal(first.z, again.z)
    np.testing.assert_array_equal(first.start_log_densities, again.start_log_densities)
    assert first.log_density == again.log_density
    assert np.any(first.start_log_densities != other.start_log_densities)


@pytest.mark.slow
def test_new_values_of_the_same_shapes_do_not_recompile():
    rng = np.random.default_rng(0)
    X_new = np.array([0.5, 1.0])

    def run(seed, scale):
        X, y = np.sort(rng.uniform(0, 3, 23)), rng.normal(size=23)
        kernel = RBF(lengthscale=dist.LogNormal(0.0, scale), variance=Free(scale)).named("level")
        model = bk.GPRegression(kernel, noise=bk.from_sd(dist.HalfNormal(scale)))
        posterior = bk.infer(model, X, y, method="map", seed=seed, progress=False)
        # The verdict needs the curvature; so does a search whose starts disagree.
        assert posterior.trust.verdict in ("bad", "not assessable")
        prediction = posterior.predict(X_new)
        return X, y, posterior, prediction.mean, prediction.sd

    before = len(compilations)
    run(0, 1.0)
    assert len(compilations) > before  # compilations are counted
    before = len(compilations)
    X, y, posterior, mean, sd = run(1, 1.5)
    assert len(compilations) == before
    # The new values are used.
    assert list(posterior.draws) == ["level.lengthscale", "level.variance", "noise"]
    ell, v, noise = (posterior.draws[name].item() for name in posterior.draws)
    kernel = sk.ConstantKernel(v) * sk.RBF(ell)
    peer = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X[:, None], y)
    expected, latent_sd = peer.predict(X_new[:, None], return_std=True)
    np.testing.assert_allclose(mean, expected, atol=1e-8)
    np.testing.assert_allclose(sd, np.sqrt(latent_sd**2 + noise), atol=1e-8)
    # The objective is the evidence and the two priors, the second through its square root.
    log_prior = lognorm(1.5, scale=1.0).logpdf(ell) + halfnorm(scale=1.5).logpdf(np.sqrt(noise))
    objective = peer.log_marginal_likelihood() + log_prior - np.log(2 * np.sqrt(noise))
    np.testing.assert_allclose(posterior.optimum.log_density, objective, atol=1e-8)


def test_short_newton_step_excuses_a_rounded_gradient():
    # sqrt(g' H^-1 g) by hand: 0.002 posterior sds away, though the gradient is above 1e-4; then
    # 0.02; then no distance at all.
    gradient = np.array([2e-3, 0.0])
    for curvature, verdict in ((1.0, "not assessable"), (0.01, "bad"), (-1.0, "bad")):
        found = optimum(gradient=gradient, curvature=lambda c=curvature: np.diag([c, 1.0]))
        assert assess_point(found).verdict == verdict


@pytest.mark.slow
def test_distance_to_the_mode_of_a_gaussian():
    # One step of L-BFGS on a Gaussian of sds 1 and 1e4 stops short; the distance is the truth.
    def model():
        numpyro.sample("a", dist.Normal(3.0, 1.0))
        numpyro.sample("b", dist.Normal(5e4, 1e4))

    found = bk.infer(model, method=bk.MAP(starts=1, steps=1)).optimum
    gap = (found.z - [3.0, 5e4]) / [1.0, 1e4]
    np.testing.assert_allclose(found.distance, np.linalg.norm(gap), rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_unbounded_density_is_bad_and_names_the_site():
    # A variance whose sd is half-normal has density v^-1/2 near 0, and nothing here keeps it away.
    def model():
        numpyro.sample("v", bk.from_sd(dist.HalfNormal(1.0)))
        numpyro.sample("a", dist.Normal(0.0, 1.0))

    found = bk.infer(model, method=bk.MAP())
    assert found.trust.verdict == "bad"
    assert "along v" in found.trust.advice
    assert "MAP(jacobian=True)" in found.trust.advice
    assert all(np.all(np.isfinite(x)) for x in found.draws.values())
    # In log v the same density is v^1/2 exp(-v / 2), with its mode at v = 1.
    sound = bk.infer(model, method=bk.MAP(jacobian=True))
    assert sound.trust.verdict == "not assessable"
    np.testing.assert_allclose(sound.draws["v"].item(), 1.0, rtol=1e-6)
