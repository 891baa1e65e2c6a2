"""Gauss-Newton's and Fisher's curvature against integrals, statsmodels and Hessians."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy.integrate import quad_vec

import bayeskern as bk
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.curvature import hessian_at
from bayeskern.inference.search.information import require_information
from bayeskern.inference.search.objective import NegativeLogDensity
from bayeskern.likelihoods import distributions as own
from bayeskern.likelihoods.ordered import OrderedCategorical
from bayeskern.protocols import DoesNotApplyError
from tests.marks import few

RNG = np.random.default_rng(0)


def curvature(model, args, z, kind):
    target = Target.from_model(model, args, {})
    return np.asarray(hessian_at(NegativeLogDensity(target, True), jnp.asarray(z), kind))


# -- one observation, against integrals over y -----------------------------------------------------

CUTS = jnp.array([-1.0, 0.2, 1.5])
POSITIVE, SHARE, REAL = (0.0, np.inf), (0.0, 1.0), (-np.inf, np.inf)


def product(z):
    return z[0] * z[1]


def log_probs(x):
    """Log probabilities of success and failure at log odds x."""
    return jax.nn.log_sigmoid(x), jax.nn.log_sigmoid(-x)


# Distributions of z (3,), and where they lie: an interval, or the number of values.
FAMILIES = {
    "Normal": (lambda z: dist.Normal(product(z), jnp.exp(z[2])), REAL),
    "LogNormal": (lambda z: dist.LogNormal(product(z), jnp.exp(z[2])), POSITIVE),
    "StudentT": (lambda z: dist.StudentT(jnp.exp(z[1]) + 2.0, z[0], jnp.exp(z[2] * z[0])), REAL),
    "Cauchy": (lambda z: dist.Cauchy(product(z), jnp.exp(z[2])), REAL),
    "Logistic": (lambda z: dist.Logistic(product(z), jnp.exp(z[2])), REAL),
    "Gamma": (lambda z: dist.Gamma(jnp.exp(product(z)) + 2.0, jnp.exp(z[2])), POSITIVE),
    "InverseGamma": (
        lambda z: dist.InverseGamma(jnp.exp(product(z)) + 2.0, jnp.exp(z[2])),
        POSITIVE,
    ),
    "GammaLogMean": (lambda z: own.GammaLogMean(product(z), jnp.exp(z[2]) + 2.0), POSITIVE),
    "Exponential": (lambda z: dist.Exponential(jnp.exp(product(z))), POSITIVE),
    "Beta": (lambda z: dist.Beta(jnp.exp(product(z)) + 2.0, jnp.exp(z[2]) + 2.0), SHARE),
    "BetaLogMean": (lambda z: own.BetaLogMean(*log_probs(product(z)), jnp.exp(z[2]) + 6.0), SHARE),
    "Poisson": (lambda z: dist.Poisson(jnp.square(product(z) + z[2])), 40),
    "PoissonLogMean": (lambda z: own.PoissonLogMean(product(z)), 40),
    "BernoulliProbs": (lambda z: dist.Bernoulli(probs=jax.nn.sigmoid(product(z))), 2),
    "BernoulliLogits": (lambda z: dist.Bernoulli(logits=jnp.sinh(product(z))), 2),
    "BernoulliLogProbs": (lambda z: own.BernoulliLogProbs(*log_probs(z[0])), 2),
    "BinomialProbs": (lambda z: dist.Binomial(5, probs=jax.nn.sigmoid(product(z))), 6),
    "BinomialLogits": (lambda z: dist.Binomial(5, logits=product(z)), 6),
    "BinomialLogProbs": (lambda z: own.BinomialLogProbs(*log_probs(product(z)), 5), 6),
    "GeometricLogits": (lambda z: dist.Geometric(logits=product(z)), 400),
    "GeometricProbs": (lambda z: dist.Geometric(probs=jax.nn.sigmoid(product(z))), 400),
    "CategoricalLogits": (lambda z: dist.Categorical(logits=z * z[0]), 3),
    "CategoricalProbs": (lambda z: dist.Categorical(probs=jax.nn.softmax(z * z[0])), 3),
    "OrderedLogistic": (lambda z: dist.OrderedLogistic(z[:1] * z[1], CUTS * jnp.exp(z[2])), 4),
    "OrderedCategorical": (
        lambda z: OrderedCategorical(product(z), CUTS * jnp.exp(z[2]), "probit"),
        4,
    ),
}
AT = np.array([0.7, -0.4, 0.3])


def model_of(make):
    def model(y):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
        numpyro.sample("y", make(z), obs=y)

    return model


def information_by_integral(make, where):
    """The mean over y of the squared score."""
    log_prob = jax.jit(lambda z, y: jnp.sum(make(z).log_prob(y)))
    score = jax.jit(jax.grad(log_prob))

    def integrand(y):
        slope = np.asarray(score(AT, y))
        return np.exp(log_prob(AT, y)) * np.outer(slope, slope)

    if isinstance(where, int):
        return sum(integrand(y) for y in range(where))
    return quad_vec(integrand, *where, epsabs=1e-9, epsrel=1e-9)[0]


@pytest.mark.parametrize("name", few(FAMILIES, "StudentT", "Poisson"))
def test_fisher_information_is_the_mean_of_the_squared_score(name):
    make, where = FAMILIES[name]
    # The prior adds 1 to the diagonal.
    y = jnp.array(1 if isinstance(where, int) else 0.5)
    information = curvature(model_of(make), (y,), AT, "fisher") - np.eye(3)
    np.testing.assert_allclose(information, information_by_integral(make, where), atol=2e-7)


def simplex(z):
    return jax.nn.softmax(jnp.stack([z[0] * z[1], z[2]]))


# A value, and distributions of z: of vectors, and of their first parts.
PAIRS = {
    "Dirichlet": (
        np.array([0.3, 0.7]),
        lambda z: dist.Dirichlet(5.0 * simplex(z)),
        lambda z: dist.Beta(*(5.0 * simplex(z))),
    ),
    "DirichletLogMean": (
        np.array([0.3, 0.7]),
        lambda z: own.DirichletLogMean(jnp.log(simplex(z)), jnp.exp(z[2])),
        lambda z: dist.Beta(*(jnp.exp(z[2]) * simplex(z))),
    ),
    "MultinomialProbs": (
        np.array([1, 3]),
        lambda z: dist.Multinomial(4, probs=simplex(z)),
        lambda z: dist.Binomial(4, probs=simplex(z)[0]),
    ),
    "MultinomialLogits": (
        np.array([1, 3]),
        lambda z: dist.Multinomial(4, logits=jnp.log(simplex(z))),
        lambda z: dist.Binomial(4, probs=simplex(z)[0]),
    ),
    "MultivariateNormal": (
        np.array([0.3]),
        lambda z: dist.MultivariateNormal(jnp.sin(z[:1]), jnp.exp(z[1] * z[2])[None, None]),
        lambda z: dist.Normal(jnp.sin(z[0]), jnp.exp(0.5 * z[1] * z[2])),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", few(PAIRS, "MultinomialLogits"))
def test_information_of_vectors_of_two_parts(name):
    y, parts, first_part = PAIRS[name]
    information = curvature(model_of(parts), (y,), AT, "fisher")
    np.testing.assert_allclose(
        information, curvature(model_of(first_part), (y[0],), AT, "fisher"), atol=1e-9
    )


# -- models --------------------------------------------------------------------------------------

X = RNG.normal(size=(40, 3))
Z = np.array([0.5, -0.3, 0.2])
BY_KIND = ["gauss_newton", "fisher"]
CANONICAL = {
    "linear": (lambda eta: dist.Normal(eta, 0.5), RNG.normal(size=40)),
    "logistic": (lambda eta: dist.Bernoulli(logits=eta), RNG.integers(0, 2, 40)),
    "log-linear": (lambda eta: dist.Poisson(jnp.exp(eta)), RNG.poisson(2.0, 40)),
    "classes": (
        lambda eta: dist.Categorical(logits=jnp.stack([0.0 * eta, eta, -2.0 * eta], -1)),
        RNG.integers(0, 3, 40),
    ),
}
CONCAVE = {
    "ordered": (lambda eta: dist.OrderedLogistic(eta, CUTS), RNG.integers(0, 4, 40)),
    "probit": (lambda eta: OrderedCategorical(eta, CUTS, "probit"), RNG.integers(0, 4, 40)),
    "logistic noise": (lambda eta: dist.Logistic(eta, 0.5), RNG.normal(size=40)),
}


def linear(make):
    def model(X, y):
        w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([3]).to_event(1))
        numpyro.sample("y", make(X @ w), obs=y)

    return model


@pytest.mark.parametrize("kind", few(BY_KIND, "gauss_newton"))
@pytest.mark.parametrize("name", few(CANONICAL, "log-linear"))
def test_curvature_of_a_canonical_model_is_its_hessian(name, kind):
    make, y = CANONICAL[name]
    exact, approximate = (curvature(linear(make), (X, y), Z, k) for k in ("exact", kind))
    np.testing.assert_allclose(approximate, exact, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", few(CONCAVE, "ordered"))
def test_gauss_newton_is_the_hessian_of_linear_parameters(name):
    make, y = CONCAVE[name]
    gauss_newton = curvature(linear(make), (X, y), Z, "gauss_newton")
    np.testing.assert_allclose(gauss_newton, curvature(linear(make), (X, y), Z, "exact"), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["Probit", "CLogLog", "Log"])
def test_expected_information_of_statsmodels(link):
    sm = pytest.importorskip("statsmodels.api")
    links, y = sm.families.links, RNG.integers(0, 2, 40)
    family = sm.families.Binomial(getattr(links, link)())
    make = {
        "Probit": lambda eta: dist.Bernoulli(probs=jax.scipy.stats.norm.cdf(eta)),
        "CLogLog": lambda eta: dist.Bernoulli(probs=-jnp.expm1(-jnp.exp(eta))),
    }.get(link, lambda eta: dist.Gamma(3.0, 3.0 * jnp.exp(-eta)))
    options = {}
    if link == "Log":
        family, y = sm.families.Gamma(links.Log()), RNG.gamma(3.0, 1.0, 40)
        options = {"scale": 1.0 / 3.0}
    expected = -sm.GLM(y, X, family=family).hessian(Z, observed=False, **options)
    for kind in BY_KIND:
        information = curvature(linear(make), (X, y), Z, kind) - np.eye(3) / 4.0
        np.testing.assert_allclose(information, expected, rtol=1e-8)


def network(x, y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([2, 3]).to_event(2))
    log_sd = numpyro.sample("log_sd", dist.Normal(0.0, 1.0))
    f = jnp.tanh(x[:, None] * w[0]) @ w[1]
    numpyro.sample("y", dist.Normal(f, jnp.exp(log_sd)), obs=y)


@pytest.mark.parametrize("kind", few(BY_KIND, "gauss_newton"))
@pytest.mark.slow
def test_gauss_newton_of_a_network_with_an_indefinite_hessian(kind):
    x = np.linspace(-2.0, 2.0, 30)
    y, z = 3.0 * np.sin(3.0 * x), np.array([0.5, -0.8, 0.3, 1.0, 0.4, -0.7, -1.0])
    matrix = curvature(network, (x, y), z, kind)
    assert np.linalg.eigvalsh(curvature(network, (x, y), z, "exact"))[0] < -1.0
    # By hand: J'J / sd^2 for the weights, two for each value along log sd; the priors add one.
    h = np.tanh(np.outer(x, z[:3]))
    J = np.hstack([(1.0 - h**2) * x[:, None] * z[3:6], h])
    expected = np.eye(7)
    expected[:6, :6] += J.T @ J / np.exp(2.0 * z[6])
    expected[6, 6] += 2.0 * len(x)
    # Columns of z go by the sites in the order of the model.
    np.testing.assert_allclose(matrix, expected, atol=1e-8 * expected.max())


def student_t(x, y):
    w = numpyro.sample("w", dist.Normal().expand([2]).to_event(1))
    numpyro.sample("y", dist.StudentT(4.0, w[1] * jnp.tanh(w[0] * x), 0.1), obs=y)


@pytest.mark.slow
def test_outliers_make_the_hessian_indefinite_and_not_fishers():
    x, y = np.linspace(-1.0, 1.0, 9), np.full(9, 3.0)
    assert np.linalg.eigvalsh(curvature(student_t, (x, y), [0.5, 0.5], "exact"))[0] < 0.0
    assert np.linalg.eigvalsh(curvature(student_t, (x, y), [0.5, 0.5], "fisher"))[0] >= 1.0 - 1e-9


# -- plates, masks, scales, events -----------------------------------------------------------------


def counts(y, rows=slice(None), mask=True, scale=1.0, event=False):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    fn = dist.Bernoulli(logits=jnp.sinh(X @ w)[rows]).mask(mask)
    with numpyro.handlers.scale(scale=scale):
        numpyro.sample("y", fn.to_event(1) if event else fn, obs=y[rows])


@pytest.mark.parametrize("kind", few(BY_KIND, "fisher"))
def test_masks_scales_and_events(kind):
    y, half = CANONICAL["logistic"][1], np.arange(40) < 20
    unmasked = {"rows": slice(0, 20), "scale": 2.0}
    options = {"mask": half, "scale": 2.0, "event": True}
    masked, expected = (
        curvature(lambda y, o=o: counts(y, **o), (y,), Z, kind) for o in (options, unmasked)
    )
    np.testing.assert_allclose(masked, expected, rtol=1e-10)


def in_part(X, y, size=None):
    w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([3]).to_event(1))
    with numpyro.plate("rows", len(X), subsample_size=size) as rows:
        numpyro.sample("y", dist.Poisson(jnp.exp(X[rows] @ w)), obs=y[rows])


@pytest.mark.slow
def test_subsampled_plates_count_all_rows():
    y = CANONICAL["log-linear"][1]
    of_parts = curvature(lambda X, y: in_part(X, y, 5), (X, y), Z, "fisher")
    np.testing.assert_allclose(of_parts, curvature(in_part, (X, y), Z, "exact"), rtol=1e-8)


def test_conditioned_parameters_are_no_observations():
    # Nor would its half normal distribution be known.
    def model(X, y):
        sd = numpyro.sample("sd", dist.HalfNormal(1.0))
        w = numpyro.sample("w", dist.Normal(0.0, 2.0).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(X @ w, sd), obs=y)

    held, y = numpyro.handlers.condition(model, {"sd": jnp.array(0.5)}), CANONICAL["linear"][1]
    require_information(Target.from_model(held, (X, y), {}), "fisher")
    exact = curvature(held, (X, y), Z, "exact")
    np.testing.assert_allclose(curvature(held, (X, y), Z, "fisher"), exact, rtol=1e-8)


# -- what is refused -------------------------------------------------------------------------------


def mixture(x, y):
    w = numpyro.sample("w", dist.Normal().expand([2]).to_event(1))
    which = numpyro.sample("which", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
    numpyro.sample("y", dist.Normal(w[which], 1.0), obs=y[0])


def process(x, y):
    variance = numpyro.sample("variance", dist.LogNormal())
    numpyro.sample("y", bk.GaussianProcess(bk.kernels.RBF(1.0, variance), x, 0.1), obs=y)


@pytest.mark.parametrize(
    ("model", "kind", "says"),
    [
        (student_t, "gauss_newton", "'y', a StudentT. Take hessian='fisher' or hessian='exact'"),
        (process, "fisher", "'y', a GaussianProcess. Take hessian='exact'"),
        (mixture, "fisher", "'which' is summed out of it. Take hessian='exact'"),
    ],
)
def test_unknown_curvatures_are_refused(model, kind, says):
    method = bk.Laplace(hessian=kind)
    with pytest.raises(DoesNotApplyError, match=says):
        bk.infer(model, np.arange(3.0), np.ones(3), method=method, progress=False)
