"""NUTS against closed forms and NumPyro's own."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from numpyro.distributions import constraints
from numpyro.infer import MCMC
from scipy.stats import beta

import bayeskern as bk
from bayeskern import NUTS, Free
from bayeskern.inference.mcmc import chains
from bayeskern.inference.mcmc.initialization import find_modes, initial_points
from bayeskern.inference.mcmc.mass_matrix import MetricShape
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.target import Target
from models import eight_schools, funnel
from tests.inference.closed_forms import COIN, HEADS, Regression, coin, regression
from tests.marks import slow

CASE = Regression()


def fit(model, *args, seed=0, **options):
    method = NUTS(**{"warmup": 500, "draws": 500, **options})
    return bk.infer(model, *args, method=method, seed=seed, progress=False)


def error_of_mean(x):
    """The Monte Carlo standard error of a mean over (chains, draws)."""
    return np.std(x) / np.sqrt(array_stats.ess(np.asarray(x), method="mean"))


def assert_moments(x, mean, sd):
    """x (chains, draws): its mean within 4 standard errors, its sd within 4 of its own."""
    assert abs(np.mean(x) - mean) < 4 * error_of_mean(x)
    spread = np.abs(x - mean)
    assert abs(np.sqrt(np.mean(spread**2)) / sd - 1) < 4 * error_of_mean(spread**2) / sd**2


# -- known posteriors ----------------------------------------------------------------------------


def coin_with_odds(heads):
    p = coin(heads)
    numpyro.deterministic("odds", p / (1.0 - p))


def test_beta_posterior_of_a_coin():
    posterior = fit(coin_with_odds, HEADS, draws=1000)
    assert_moments(posterior.draws["p"], COIN.mean(), COIN.std())
    # E[p / (1 - p)] = a / (b - 1).
    odds = posterior.draws["odds"]
    assert abs(odds.mean() - 9 / 5) < 4 * error_of_mean(odds)
    assert posterior.trust.verdict == "good", posterior.trust
    assert posterior.method == "nuts"
    assert posterior.log_evidence is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        slow({"mass_matrix": "diagonal"}),
        slow({"mass_matrix": "low_rank"}),
        {"chain_method": "vectorized"},
        slow({"chains": 1, "draws": 2000}),
    ],
    ids=["plain", "diagonal", "low rank", "vectorized", "one chain"],
)
def test_linear_regression(options):
    posterior = fit(regression, *CASE.data, **options)
    for i in range(3):
        assert_moments(posterior.draws["w"][..., i], CASE.mean[i], CASE.sd[i])
    assert posterior.z.shape == (options.get("chains", 4), options.get("draws", 500), 3)
    if "chains" in options:
        assert posterior.trust.verdict == "caution"
        assert "One chain cannot show that chains agree" in posterior.trust.advice


@pytest.mark.slow
def test_log_evidence_of_a_linear_regression():
    value, error = fit(regression, *CASE.data, evidence=True).log_evidence
    assert 0 < error < 0.05
    assert abs(value - CASE.log_evidence) < 3 * error


def flat_line(x, y):
    a = numpyro.sample("a", dist.ImproperUniform(constraints.real, (), ()))
    b = numpyro.sample("b", dist.ImproperUniform(constraints.real, (), ()))
    s = numpyro.sample("s", dist.ImproperUniform(constraints.positive, (), ()))
    numpyro.sample("y", dist.Normal(a + b * x, s), obs=y)


@pytest.mark.slow
def test_flat_priors_in_raw_units():
    rng = np.random.default_rng(0)
    x = rng.uniform(100.0, 200.0, 60)
    y = -8e4 + 1e3 * x + 2e4 * rng.normal(size=60)
    posterior = fit(flat_line, x, y, evidence=True, draws=1500)
    # p(s) = 1: the coefficients are Student t with n - p - 1 degrees of freedom around the fit.
    X = np.column_stack([np.ones(60), x])
    least = np.linalg.lstsq(X, y)[0]
    df, rest = 60 - 2 - 1, np.sum((y - X @ least) ** 2)
    sd = np.sqrt(np.diag(np.linalg.inv(X.T @ X)) * rest / (df - 2))
    assert_moments(posterior.draws["a"], least[0], sd[0])
    assert_moments(posterior.draws["b"], least[1], sd[1])
    assert posterior.trust.verdict == "good", posterior.trust
    # Without a prior the evidence has no scale.
    assert posterior.log_evidence is None


@pytest.mark.slow
def test_different_scales_take_short_trajectories():
    def model():
        numpyro.sample("large", dist.Normal(1e4, 3e3))
        numpyro.sample("small", dist.Normal(1e-3, 2e-4))
        numpyro.sample("log", dist.LogNormal(9.0, 1.0))

    posterior = fit(model)
    assert_moments(posterior.draws["large"], 1e4, 3e3)
    assert_moments(posterior.draws["small"], 1e-3, 2e-4)
    assert_moments(np.log(posterior.draws["log"]), 9.0, 1.0)
    # Three independent normals of unit size need 3 or 7 steps.
    assert np.mean(posterior.sample_stats["n_steps"]) < 8


@pytest.mark.slow
def test_simplex_has_the_dirichlet_posterior():
    counts = np.array([1, 0, 12, 27])

    def model(k):
        p = numpyro.sample("p", dist.Dirichlet(jnp.array([0.5, 1.0, 2.0, 4.0])))
        numpyro.sample("k", dist.Multinomial(40, p), obs=k)

    posterior = fit(model, counts)
    a = counts + np.array([0.5, 1.0, 2.0, 4.0])
    for i in range(4):
        exact = beta(a[i], a.sum() - a[i])
        assert_moments(posterior.draws["p"][..., i], exact.mean(), exact.std())
    assert posterior.trust.verdict == "good", posterior.trust


@pytest.mark.slow
def test_correlation_matrix_and_ordered_vector():
    def model():
        numpyro.sample("corr", dist.LKJ(3, 1.0))
        ordered = dist.transforms.OrderedTransform()
        base = dist.Normal(0.0, 1.0).expand([2]).to_event(1)
        numpyro.sample("cuts", dist.TransformedDistribution(base, ordered))

    posterior = fit(model, draws=1000)
    # Each correlation is 2 B - 1 with B ~ Beta(3/2, 3/2); the second cut is x + exp(y).
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert_moments(posterior.draws["corr"][..., i, j], 0.0, 0.5)
    cuts = posterior.draws["cuts"]
    assert_moments(cuts[..., 0], 0.0, 1.0)
    assert_moments(np.log(cuts[..., 1] - cuts[..., 0]), 0.0, 1.0)
    assert posterior.trust.verdict == "good", posterior.trust
    # The diagonal is constant.
    assert posterior.trust.evidence["constants_left_out"] == 3


@pytest.mark.slow
def test_means_agree_with_numpyro():
    model, data = eight_schools.noncentred, eight_schools.data()
    ours = fit(model, *data, draws=1000, target_accept=0.9)
    theirs = MCMC(
        numpyro.infer.NUTS(model, target_accept_prob=0.9),
        num_warmup=500,
        num_samples=4000,
        progress_bar=False,
    )
    theirs.run(jax.random.key(1), *data)
    for name, x in theirs.get_samples(group_by_chain=True).items():
        for i in np.ndindex(x.shape[2:]):
            a, b = ours.draws[name][(..., *i)], np.asarray(x[(..., *i)])
            error = np.hypot(error_of_mean(a), error_of_mean(b))
            assert abs(a.mean() - b.mean()) < 4.5 * error, (name, i)


# -- sampling ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_parallel_and_sequential_chains_are_equal():
    one, other = (fit(regression, *CASE.data, chain_method=m) for m in ("parallel", "sequential"))
    np.testing.assert_array_equal(one.z, other.z)
    again, different = (fit(regression, *CASE.data, seed=s) for s in (0, 1))
    np.testing.assert_array_equal(one.z, again.z)
    assert np.all(one.z != different.z)
    # No two chains are the same either.
    assert len(np.unique(one.z[:, 0, 0])) == 4


@pytest.mark.slow
def test_draws_do_not_depend_on_the_length_of_stretches(monkeypatch):
    long = fit(regression, *CASE.data, warmup=40, draws=30)
    monkeypatch.setattr(chains, "STRETCH_SECONDS", 1e-9)
    short = fit(regression, *CASE.data, warmup=40, draws=30)
    np.testing.assert_array_equal(long.z, short.z)
    for name, values in long.sample_stats.items():
        np.testing.assert_array_equal(values, short.sample_stats[name])


@pytest.mark.slow
def test_sample_stats_follow_their_definitions():
    posterior = fit(coin, HEADS, max_tree_depth=2, target_accept=0.99)
    stats = posterior.sample_stats
    assert set(stats) == {
        "diverging",
        "energy",
        "lp",
        "n_steps",
        "tree_depth",
        "acceptance_rate",
        "step_size",
        "reached_max_treedepth",
    }
    assert {values.shape for values in stats.values()} == {(4, 500)}
    lp = log_densities(posterior.target, posterior.z.reshape(-1, 1)).reshape(4, 500)
    np.testing.assert_allclose(stats["lp"], lp, rtol=1e-10)
    # The kinetic energy is what is left.
    assert np.all(stats["energy"] >= -stats["lp"])
    assert stats["n_steps"].max() == 3
    np.testing.assert_array_equal(stats["tree_depth"], np.where(stats["n_steps"] > 1, 2, 1))
    np.testing.assert_array_equal(stats["reached_max_treedepth"], stats["tree_depth"] == 2)
    assert np.all((stats["acceptance_rate"] > 0) & (stats["acceptance_rate"] <= 1))
    assert np.all(stats["step_size"] == stats["step_size"][:, :1])
    assert len(np.unique(stats["step_size"])) == 4


@pytest.mark.slow
def test_acceptance_rate_is_the_target():
    def normal():
        numpyro.sample("x", dist.Normal(0.0, 1.0).expand([50]).to_event(1))

    # Nothing diverges here, so that no chain draws again with smaller steps.
    for wanted in (0.6, 0.8, 0.95):
        posterior = fit(normal, target_accept=wanted)
        assert "target_accept" not in posterior.trust.evidence
        assert abs(np.mean(posterior.sample_stats["acceptance_rate"]) - wanted) < 0.04


# -- starts --------------------------------------------------------------------------------------


def two_modes():
    x = numpyro.sample("x", dist.Normal(0.0, 10.0))
    numpyro.factor("f", jnp.logaddexp(-2.5 * (x + 6.0) ** 2, -2.5 * (x - 6.0) ** 2))


def points(model, *args, count=16):
    target = Target.from_model(model, args, {})
    return initial_points(target, find_modes(target, 0, False), count, 0)


@pytest.mark.slow
def test_starts_have_twice_the_posterior_sd():
    starts = points(regression, *CASE.data, count=200)
    z = np.stack([p.z for p in starts])
    np.testing.assert_allclose(((z - CASE.mean) / CASE.sd).std(axis=0), 2.0, rtol=0.2)
    log_p = log_densities(Target.from_model(regression, CASE.data, {}), z)
    np.testing.assert_allclose([-p.potential for p in starts], log_p, rtol=1e-10)
    for p in starts[:3]:
        np.testing.assert_allclose(p.root @ p.root.T, CASE.covariance)


def blocked(covariance):
    """Normal draws with this covariance (4, 4), in four sites of which the second comes last."""
    a = numpyro.sample("a", dist.ImproperUniform(constraints.real, (), ()))
    c = numpyro.sample("c", dist.ImproperUniform(constraints.real_vector, (), (2,)))
    b = numpyro.sample("b", dist.ImproperUniform(constraints.real, (), ()))
    x = jnp.concatenate([a[None], c, b[None]])
    numpyro.factor("density", dist.MultivariateNormal(0.0, covariance).log_prob(x))


# a and b are nearly the same, the two of c are independent.
COVARIANCE = np.eye(4)
COVARIANCE[0, 3] = COVARIANCE[3, 0] = 0.995


def test_blocks_of_a_mass_matrix():
    shape = MetricShape.from_option(Target.from_model(blocked, (COVARIANCE,), {}), [("a", "b")])
    assert shape == (2, (0, -1, -1, 0))
    matrix = shape.metric(np.linalg.cholesky(COVARIANCE)).to_z(np.eye(4))
    np.testing.assert_allclose(matrix @ matrix.T, COVARIANCE, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"chain_method": "vectorized"}], ids=str)
def test_block_of_the_mass_matrix_shortens_trajectories(options):
    """With the mass matrix of a and b the density is that of independent normals."""
    data = [COVARIANCE]
    diagonal = fit(blocked, *data, mass_matrix="diagonal", **options)
    posterior = fit(blocked, *data, mass_matrix=[("a", "b")], **options)
    for i in range(4):
        assert_moments(posterior.z[..., i], 0.0, 1.0)
    steps = [np.mean(p.sample_stats["n_steps"]) for p in (posterior, diagonal)]
    assert steps[0] < 8 and 4 * steps[0] < steps[1]


@pytest.mark.parametrize(
    ("blocks", "says"),
    [
        ("ab", "mass_matrix='ab' is not known"),
        (True, "list of tuples of sites"),
        (["a", "b"], "list of tuples of sites"),
        ([()], "list of tuples of sites"),
        ([("a", "nowhere")], "names 'nowhere'; the latent sites are a, c, b"),
        ([("a", "b"), ("b",)], "'b' in two blocks"),
        ([("b", "b")], "'b' in two blocks, or twice"),
    ],
)
def test_invalid_blocks_are_refused(blocks, says):
    with pytest.raises(ValueError, match=says):
        fit(blocked, COVARIANCE, mass_matrix=blocks)


@pytest.mark.slow
def test_starts_are_at_both_modes():
    x = np.array([p.z[0] for p in points(two_modes)])
    assert np.all(np.abs(np.abs(x) - 6.0) < 3.0)
    assert 0 < np.sum(x > 0) < 16


@pytest.mark.slow
def test_starts_avoid_the_spike_of_a_funnel():
    # Its mode lies at v = -40.5, 13 sds from the mean.
    starts = points(funnel.model)
    assert np.all(np.abs([p.z[0] for p in starts]) <= 2.0)
    assert all(np.all(p.root == 1.0) for p in starts)


@pytest.mark.slow
def test_starts_avoid_modes_of_negligible_weight():
    # Equally wide, e^-8 as high: a share of 0.0003.
    def model():
        x = numpyro.sample("x", dist.Uniform(-20.0, 20.0))
        numpyro.factor("f", jnp.logaddexp(-2.5 * (x + 6.0) ** 2 - 8.0, -2.5 * (x - 6.0) ** 2))

    target = Target.from_model(model, (), {})
    z = np.stack([p.z for p in points(model)])
    x = np.array([target.constrain(one)["x"] for one in z])
    assert np.all(np.abs(x - 6.0) < 3.0)


@pytest.mark.filterwarnings("ignore:Out-of-support values")
def test_nan_data_name_the_site():
    def model():
        x = numpyro.sample("x", dist.Normal())
        numpyro.sample("spoilt", dist.Normal(x, 1.0), obs=np.array([1.0, np.nan]))

    with pytest.raises(ValueError, match="'spoilt' has 1 value that is NaN"):
        fit(model)


# -- the verdict ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_evidence_equals_arviz():
    posterior = fit(eight_schools.noncentred, *eight_schools.data())
    evidence, draws = posterior.trust.evidence, posterior.draws
    schools = [np.moveaxis(draws[name], -1, 0) for name in ("standardised", "theta")]
    every = np.concatenate([*schools, [draws["mu"]], [draws["tau"]]])
    assert evidence["rhat"] == pytest.approx(np.max([array_stats.rhat(x) for x in every]))
    assert evidence["ess_bulk"] == pytest.approx(np.min([array_stats.ess(x) for x in every]))
    assert evidence["bfmi"] == pytest.approx(
        np.min(array_stats.bfmi(posterior.sample_stats["energy"]))
    )
    assert evidence["divergences"] == posterior.sample_stats["diverging"].sum()


def test_free_value_is_refused():
    model = bk.GPRegression(bk.kernels.RBF(lengthscale=Free(1.0)), noise=0.1)
    with pytest.raises(ValueError, match="'lengthscale' has no prior.*NUTS"):
        fit(model, np.arange(5.0), np.arange(5.0))
