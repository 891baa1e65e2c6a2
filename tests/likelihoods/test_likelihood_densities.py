"""Log densities, means and draws beside SciPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from bayeskern import likelihoods as lk
from tests.likelihoods.families import CASES, ETA3, REAL, SEVERAL, of_each_family
from tests.marks import slow

CUTPOINTS = np.array([-1.2, 0.1, 0.9])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_log_density_mean_and_variance_against_scipy(case):
    y = case.frozen().rvs((40, len(case.eta)), random_state=np.random.default_rng(0))
    distribution = case.likelihood.distribution(case.eta, **case.extra)
    np.testing.assert_allclose(
        distribution.log_prob(y), case.log_density(y), rtol=1e-11, atol=1e-11
    )
    np.testing.assert_allclose(
        case.likelihood.mean(case.eta, **case.extra), case.frozen().mean(), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(distribution.variance, case.frozen().var(), rtol=1e-12)
    assert distribution.batch_shape == case.eta.shape


@pytest.mark.slow
@of_each_family
def test_draws_have_the_mean_and_variance_of_scipy(case):
    distribution = case.likelihood.distribution(case.eta, **case.extra)
    draws = np.asarray(distribution.sample(jax.random.key(3), (20_000,)), float)
    mean, variance = case.frozen().mean(), case.frozen().var()
    squares = (draws - mean) ** 2
    root = np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(0) - mean) < 4.5 * np.sqrt(variance) / root)
    assert np.all(np.abs(squares.mean(0) - variance) <= 5.0 * squares.std(0) / root + 1e-12)
    if hasattr(case.frozen().dist, "pmf"):
        np.testing.assert_array_equal(draws, np.round(draws))


@of_each_family
def test_log_density_under_jit_and_vmap(case):
    y = jnp.asarray(case.frozen().rvs(random_state=np.random.default_rng(1)), float)
    extra = {name: jnp.asarray(value) for name, value in case.extra.items()}
    eta = jnp.stack([case.eta, 0.5 * case.eta])

    @jax.jit
    def both(likelihood, eta):
        return jax.vmap(lambda eta: likelihood.distribution(eta, **extra).log_prob(y))(eta)

    plain = [case.likelihood.distribution(row, **extra).log_prob(y) for row in eta]
    np.testing.assert_allclose(both(case.likelihood, eta), plain, rtol=1e-12, atol=1e-14)


def test_heteroscedastic_against_scipy():
    eta = np.stack([REAL, REAL[::-1]], 1)
    y = np.array([0.3, -1.0, 2.0, 0.0, 5.0, -3.0])
    likelihood = lk.Heteroscedastic()
    truth = stats.norm(eta[:, 0], np.exp(eta[:, 1]))
    assert likelihood.outputs == 2
    np.testing.assert_allclose(likelihood.distribution(eta).log_prob(y), truth.logpdf(y))
    np.testing.assert_array_equal(likelihood.mean(eta), eta[:, 0])
    np.testing.assert_allclose(likelihood.distribution(eta).variance, truth.var())


def test_categorical_is_softmax():
    likelihood = lk.Categorical(classes=("a", "b", "c"))
    chances = np.exp(ETA3) / np.exp(ETA3).sum(1, keepdims=True)
    for k in range(3):
        found = likelihood.distribution(ETA3).log_prob(np.full(4, k))
        np.testing.assert_allclose(found, np.log(chances[:, k]), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(likelihood.probabilities(ETA3), chances, rtol=1e-12)
    np.testing.assert_allclose(likelihood.mean(ETA3), chances, rtol=1e-12)
    assert likelihood.outputs == 3


@pytest.mark.parametrize(
    ("link", "cdf"), [slow("logit", stats.logistic.cdf), ("probit", stats.norm.cdf)]
)
def test_ordered_probabilities_are_differences_of_cdfs(link, cdf):
    likelihood = lk.Ordered(CUTPOINTS, classes=(1, 2, 3, 4), link=link)
    edges = np.concatenate([[-np.inf], CUTPOINTS, [np.inf]])
    truth = np.diff(cdf(edges - REAL[:, None]), axis=1)
    each = [likelihood.distribution(REAL).log_prob(np.full(6, k)) for k in range(4)]
    np.testing.assert_allclose(np.stack(each, 1), np.log(truth), rtol=1e-11)
    np.testing.assert_allclose(likelihood.probabilities(REAL), truth, rtol=1e-11)
    np.testing.assert_allclose(likelihood.mean(REAL), truth, rtol=1e-11)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_ordered_log_density_is_accurate_in_the_tails(link):
    # Beyond both cutpoints F rounds to 1; by symmetry this is the middle class at -eta.
    found = lk.Ordered([-1.0, 1.0], classes=(0, 1, 2), link=link).distribution(
        jnp.array([-40.0, 40.0])
    )
    middle = found.log_prob(np.array([1, 1]))
    # log(F(-39) - F(-41)) from logarithms in SciPy.
    log_cdf = stats.logistic.logcdf if link == "logit" else stats.norm.logcdf
    truth = special.logsumexp([log_cdf(-39.0), log_cdf(-41.0)], b=[1, -1])
    np.testing.assert_allclose(middle, truth, rtol=1e-12)


@pytest.mark.parametrize(
    "likelihood",
    [
        lk.Categorical(classes=(0, 1, 2)),
        slow(lk.Ordered([-1.0, 0.5], classes=(0, 1, 2))),
        lk.Ordered([-1.0, 0.5], classes=(0, 1, 2), link="probit"),
    ],
    ids=["categorical", "ordered logit", "ordered probit"],
)
def test_class_frequencies_match_probabilities(likelihood):
    eta = ETA3 if likelihood.outputs else REAL
    draws = np.asarray(likelihood.distribution(eta).sample(jax.random.key(1), (20_000,)))
    chances = np.asarray(likelihood.probabilities(eta))
    for k in range(3):
        error = np.sqrt(chances[:, k] * (1 - chances[:, k]) / len(draws))
        assert np.all(np.abs((draws == k).mean(0) - chances[:, k]) <= 4.5 * error + 1e-12)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_bernoulli_probabilities_are_accurate_in_the_tails(link):
    eta = np.array([-30.0, -3.0, 0.0, 2.0])
    found = np.asarray(lk.Bernoulli(link=link).probabilities(eta))
    log_p = {
        "logit": stats.logistic.logcdf(eta),
        "probit": stats.norm.logcdf(eta),
        "cloglog": np.log(-np.expm1(-np.exp(eta))),
    }[link]
    np.testing.assert_allclose(found[:, 1], np.exp(log_p), rtol=1e-8)
    np.testing.assert_allclose(found.sum(1), 1.0, rtol=1e-14)


@pytest.mark.slow
def test_dirichlet_against_scipy():
    eta = ETA3[:3]
    shares = np.exp(eta) / np.exp(eta).sum(1, keepdims=True)
    rng = np.random.default_rng(0)
    likelihood = lk.Dirichlet(precision=6.0, parts=3)
    for row in range(3):
        truth = stats.dirichlet(6.0 * shares[row])
        y = truth.rvs(5, random_state=rng)
        found = likelihood.distribution(np.tile(eta[row], (5, 1))).log_prob(y)
        np.testing.assert_allclose(found, [truth.logpdf(share) for share in y], rtol=1e-11)
        np.testing.assert_allclose(likelihood.distribution(eta).variance[row], truth.var())
    np.testing.assert_allclose(likelihood.mean(eta), shares, rtol=1e-13)
    draws = np.asarray(likelihood.distribution(eta).sample(jax.random.key(0), (20_000,)))
    error = np.sqrt(shares * (1 - shares) / 7.0 / len(draws))
    assert np.all(np.abs(draws.mean(0) - shares) < 4.5 * error)
    np.testing.assert_allclose(draws.sum(-1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("concentration", [0.01, 30.0, 999.0, 1001.0, 1e5])
def test_negative_binomial_log_density_for_all_concentrations(concentration):
    y, extra = np.array([0.0, 1.0, 12.0, 300.0]), {"exposure": np.ones(4)}
    likelihood = lk.NegativeBinomial(concentration=concentration)
    found = likelihood.distribution(np.full(4, 2.0), **extra).log_prob(y)
    # log Gamma(a + y) / Gamma(a) as a sum, which loses nothing.
    a, mean = concentration, np.exp(2.0)
    rising = np.array([np.log(a + np.arange(count)).sum() for count in y])
    truth = rising - special.gammaln(y + 1) - a * np.log1p(mean / a) - y * np.log1p(a / mean)
    np.testing.assert_allclose(found, truth, rtol=1e-12, atol=3e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n, c in CASES.items() if c.likelihood.link_name == "inverse"]
)
def test_density_is_zero_where_the_link_has_no_mean(name):
    case, eta = CASES[name], jnp.array([-30.0, -1e-9, 0.0, 2.0])

    def at(eta):
        return case.likelihood.distribution(eta).log_prob(1.3)

    found, slope = jax.vmap(jax.value_and_grad(at))(eta)
    curvature = jax.vmap(jax.grad(jax.grad(at)))(eta)
    np.testing.assert_array_equal(np.isneginf(found), [True, True, True, False])
    assert np.all(np.isfinite(slope)) and np.all(np.isfinite(curvature))
    assert np.all(np.isnan(case.likelihood.mean(eta)[:3]))
    draws = case.likelihood.distribution(eta).sample(jax.random.key(0))
    np.testing.assert_array_equal(np.isnan(draws), [True, True, True, False])


def test_student_t_mean_is_finite_for_every_df():
    eta = jnp.array([0.0, 1.5])
    np.testing.assert_array_equal(lk.StudentT(df=0.8, scale=1.0).mean(eta), eta)


# -- exponential families --------------------------------------------------------------------------

NOT_EXPONENTIAL = {"Censored", "StudentT", "Laplace", "ZeroInflated", "Ordered"}
FAMILIES = {
    **{
        name: (
            case.likelihood,
            case.eta,
            case.frozen().rvs(random_state=np.random.default_rng(3)),
            case.extra,
        )
        for name, case in CASES.items()
        if name.split("-")[0] not in NOT_EXPONENTIAL
    },
    **{n: (*case, {}) for n, case in SEVERAL.items() if n not in NOT_EXPONENTIAL},
}


@pytest.mark.parametrize(("likelihood", "eta", "y", "extra"), FAMILIES.values(), ids=FAMILIES)
def test_exponential_family_form_of_the_log_density(likelihood, eta, y, extra):
    eta, y = jnp.asarray(eta), jnp.asarray(y)
    theta, statistic = (
        likelihood.natural_parameter(eta, **extra),
        likelihood.sufficient_statistic(y),
    )
    assert theta.shape == statistic.shape
    inner = jnp.sum((theta * statistic).reshape(len(y), -1), 1)
    form = jnp.log(likelihood.base_measure(y, **extra)) + inner
    form -= likelihood.log_normalizer(theta, **extra)
    # `test_log_density_mean_and_variance_against_scipy` compares log_prob with SciPy.
    truth = likelihood.distribution(eta, **extra).log_prob(y)
    np.testing.assert_allclose(form, truth, rtol=1e-9, atol=1e-9)


EULER = 0.5772156649015329
NORMAL = stats.norm(REAL, np.exp(REAL[::-1]))
MEANS_OF_T = {
    "Gaussian-identity": lambda m: np.stack([m, m**2 + 1.7], -1),
    "Gamma-log": lambda m: np.stack([special.digamma(2.2) - np.log(2.2 / m), m], -1),
    "Beta-logit": lambda p: (
        special.digamma(4.0 * np.stack([p, 1.0 - p], -1)) - special.digamma(4.0)
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_gradient_of_the_log_normalizer_is_the_mean_of_the_statistic(name):
    likelihood, eta, _, extra = FAMILIES[name]
    theta = likelihood.natural_parameter(jnp.asarray(eta), **extra)
    gradient = jax.grad(lambda t: jnp.sum(likelihood.log_normalizer(t, **extra)))(theta)
    if name in SEVERAL:
        softmax = special.softmax(eta, 1)
        truth = {
            "Categorical": softmax,
            "Dirichlet": special.digamma(3.0 * softmax) - special.digamma(3.0),
            "Heteroscedastic": np.stack([NORMAL.mean(), NORMAL.mean() ** 2 + NORMAL.var()], -1),
        }[name]
    elif gradient.ndim == 1:
        truth = CASES[name].frozen().mean()
        hessian = jax.grad(
            lambda t: jnp.sum(jax.grad(lambda s: jnp.sum(likelihood.log_normalizer(s, **extra)))(t))
        )(theta)
        np.testing.assert_allclose(hessian, CASES[name].frozen().var(), rtol=1e-9)
    else:
        # T is nonlinear: the mean of T by quadrature, or in closed form.
        family = name.split("-")[0]
        mean = np.asarray(likelihood.mean(jnp.asarray(eta)))
        closed = next(f for key, f in MEANS_OF_T.items() if key.startswith(family))
        truth = closed(mean)
    np.testing.assert_allclose(gradient, truth, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "likelihood",
    [lk.StudentT(3.0, 1.0), lk.Laplace(1.0), lk.ZeroInflated(2.0, 0.3), lk.Ordered()],
    ids=lambda likelihood: type(likelihood).__name__,
)
def test_other_likelihoods_are_not_exponential_families(likelihood):
    for name in ("natural_parameter", "log_normalizer", "sufficient_statistic", "base_measure"):
        with pytest.raises(NotImplementedError, match="is not an exponential family.*log_prob"):
            getattr(likelihood, name)(jnp.zeros(3))


def test_censored_values_have_the_probability_of_a_half_line():
    y, eta = np.array([0.5, 2.0, -1.0, 40.0]), np.array([0.0, 1.0, 0.5, 0.0])
    normal = stats.norm(eta, np.sqrt(1.7))
    log_p = lk.Censored(1.7).distribution(eta, np.array([1.0, 2.0, 3.0, 2.0])).log_prob(y)
    expected = [normal.logpdf(y)[0], normal.logsf(y)[1], normal.logcdf(y)[2], normal.logsf(y)[3]]
    np.testing.assert_allclose(log_p, expected, rtol=1e-8)
