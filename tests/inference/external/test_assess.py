"""Verdicts on draws of other programs, for posteriors in closed form."""

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS

import bayeskern as bk
from tests import posteriordb
from tests.inference.external.linear_gaussian import COVARIANCE, MEAN, Y, exact, mean_field, model
from tests.marks import slow

RNG = np.random.default_rng(1)


def assess(draws, model=model, args=(Y,), **given):
    return bk.assess(model, *args, draws=draws, progress=False, **given)


def chains(values):
    """Split draws into four chains."""
    return values.reshape(4, -1, *values.shape[1:])


@pytest.mark.parametrize("form", [slow(lambda w: w), chains])
@pytest.mark.parametrize(
    ("w", "verdict"),
    [
        (exact(), "good"),
        (mean_field(), "bad"),
        # Columns exchanged, one mean off by 0.6 sd, sds 30 % too large.
        (exact()[:, ::-1], "bad"),
        (exact() + np.array([0.6 * np.sqrt(COVARIANCE[0, 0]), 0.0]), "bad"),
        (MEAN + 1.3 * (exact() - MEAN), "caution"),
    ],
)
def test_draws_of_a_normal_posterior(w, verdict, form):
    posterior = assess({"w": form(w)})
    assert posterior.trust.verdict == verdict, posterior.trust
    assert posterior.is_mcmc == (form is chains)
    np.testing.assert_allclose(posterior.flat["w"], w)


@pytest.mark.slow
def test_draws_of_another_prior_are_found():
    precise = np.linalg.inv(np.linalg.inv(COVARIANCE) - 0.96 * np.eye(2))
    mean = precise @ np.linalg.inv(COVARIANCE) @ MEAN
    w = RNG.multivariate_normal(mean, precise, 4000)
    # These are draws for a prior sd of 5.
    assert assess({"w": chains(w)}, args=(Y, 5.0)).trust.verdict == "good"
    assert assess({"w": chains(w)}, args=(Y, 1.0)).trust.verdict == "bad"


def two_modes(share):
    weights = jnp.array([share, 1.0 - share])
    x = dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(jnp.array([-5.0, 5.0]), 1.0))
    numpyro.sample("x", x)
    numpyro.factor("data", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("form", [lambda x: x, chains])
def test_a_missing_mode_is_found(form):
    trust = assess({"x": form(5.0 + RNG.normal(size=4000))}, two_modes, (0.3,)).trust
    assert trust.verdict == "bad"
    # A mode that chains have not stayed in counts with the central half of its mass.
    assert 0.15 < trust.evidence["share_elsewhere"] < 0.33
    assert "no draws (x about -5" in trust.advice and "to other data" in trust.advice


@pytest.mark.slow
@pytest.mark.parametrize(("share", "verdict"), [(0.3, "good"), (0.6, "bad")])
def test_shares_of_modes_without_chains(share, verdict):
    x = np.where(RNG.uniform(size=4000) < 0.3, -5.0, 5.0) + RNG.normal(size=4000)
    assert assess({"x": x}, two_modes, (share,)).trust.verdict == verdict


def statistics(diverging=0):
    shape = (4, 1000)
    return {
        "diverging": RNG.uniform(size=shape) < diverging,
        "energy": RNG.normal(size=shape),
        "reached_max_treedepth": np.zeros(shape, bool),
    }


def test_a_tree_with_its_statistics():
    draws = {"w": chains(exact()), "lp__": np.zeros((4, 1000))}
    tree = az.from_dict({"posterior": draws, "sample_stats": statistics()})
    tree["posterior"].attrs["inference_library"] = "cmdstanpy"
    posterior = bk.assess(model, Y, idata=tree, progress=False)
    evidence = posterior.trust.evidence
    assert posterior.method == "cmdstanpy" and posterior.trust.verdict == "good"
    assert evidence["divergences"] == 0 and evidence["sites_ignored"] == "lp__"
    # Divergences of the tree count.
    tree = az.from_dict({"posterior": draws, "sample_stats": statistics(0.05)})
    trust = bk.assess(model, Y, idata=tree, progress=False).trust
    assert trust.verdict == "bad" and "draws diverged" in trust.advice


def test_a_tree_with_one_chain():
    tree = az.from_dict({"posterior": {"w": exact()[None]}})
    # Draws of a variational fit come as one chain without statistics.
    posterior = bk.assess(model, Y, idata=tree, progress=False)
    assert posterior.trust.verdict == "good" and "rhat" not in posterior.trust.evidence
    one = {name: value[:1] for name, value in statistics().items()}
    tree = az.from_dict({"posterior": {"w": exact(1000)[None]}, "sample_stats": one})
    trust = bk.assess(model, Y, idata=tree, progress=False).trust
    assert trust.verdict == "caution" and "One chain" in trust.advice


def test_many_short_chains():
    trust = assess({"w": exact(6400).reshape(64, 100, 2)}).trust
    assert trust.verdict == "good", trust


def test_chains_that_disagree_are_bad():
    w = chains(exact())
    w[0] += 1.0
    trust = assess({"w": w}).trust
    assert trust.verdict == "bad" and trust.evidence["rhat"] > 1.05


@pytest.mark.parametrize(
    ("w", "problem"),
    [
        (np.tile(MEAN, (4000, 1)), "The draws do not move in"),
        (np.column_stack([exact()[:, 0], np.ones(4000)]), r"do not move in w[1]"),
        (np.where(np.arange(4)[:, None, None] == 2, 0.1, chains(exact())), "Chain 2 does not move"),
    ],
)
def test_constant_draws_are_bad(w, problem):
    trust = assess({"w": w}).trust
    assert trust.verdict == "bad" and problem in trust.advice


def test_draws_without_density_are_bad():
    def bounded(y):
        x = numpyro.sample("x", dist.Normal(0.0, 1.0))
        numpyro.factor("data", jnp.where(x > y, 0.0, -jnp.inf))

    x = np.abs(RNG.normal(size=4000))
    trust = assess({"x": -x}, bounded, (0.0,)).trust
    assert trust.verdict == "bad" and "zero or not a number at every draw" in trust.advice
    some = assess({"x": np.where(np.arange(4000) < 3, -x, x)}, bounded, (0.0,)).trust
    assert some.verdict == "bad" and "at 3 of 4000 draws" in some.advice


@pytest.mark.parametrize("count", [4, 20])
def test_few_draws_are_never_good(count):
    assert assess({"w": exact(count)}).trust.verdict != "good"
    assert assess({"w": exact(4 * count).reshape(4, count, 2)}).trust.verdict != "good"


@pytest.mark.slow
def test_other_results_work_on_the_draws(tmp_path):
    posterior = assess({"w": chains(exact())})
    assert posterior.predict(None).mean == pytest.approx(MEAN @ [1.0, 2.0], abs=0.05)
    assert "r_hat" in posterior.summary().columns
    tree = posterior.to_arviz()
    assert {"posterior", "log_likelihood", "posterior_predictive"} <= set(tree.children)
    posterior.save(tmp_path / "draws.nc")
    loaded = bk.load(tmp_path / "draws.nc")
    assert loaded.trust.verdict == "good" and loaded.method == "draws" and loaded.is_mcmc
    comparison = bk.compare({"other": posterior, "narrow": assess({"w": mean_field()})})
    assert comparison.reference == "other"


def test_the_same_seed_gives_the_same_verdict():
    evidence = [assess({"w": exact()}, seed=3).trust.evidence for _ in range(2)]
    assert evidence[0] == evidence[1]


def test_a_param_without_prior_is_refused():
    def free(y):
        numpyro.sample("y", dist.Normal(numpyro.param("mu", 0.0), 1.0), obs=y)

    with pytest.raises(ValueError, match="'mu' has no prior"):
        assess({"mu": exact()[:, 0]}, free)


# -- plates, masks, discrete latents ---------------------------------------------------------------


def plated(x, y, observed):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("group", 2):
        level = numpyro.sample("level", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", len(x)), numpyro.handlers.mask(mask=observed):
        numpyro.sample("y", dist.Normal(level[jnp.arange(len(x)) % 2] + slope * x, 0.5), obs=y)


@pytest.mark.slow
def test_plates_and_masked_observations():
    x = np.linspace(-1.0, 1.0, 12)
    y, observed = np.where(np.arange(12) < 3, 99.0, x), np.arange(12) >= 3
    design = np.column_stack([x, np.arange(12) % 2 == 0, np.arange(12) % 2 == 1])[observed]
    covariance = np.linalg.inv(np.eye(3) + design.T @ design / 0.25)
    mean = covariance @ design.T @ y[observed] / 0.25
    z = RNG.multivariate_normal(mean, covariance, 4000)
    draws = {"slope": chains(z[:, 0]), "level": chains(z[:, 1:])}
    assert assess(draws, plated, (x, y, observed)).trust.verdict == "good"
    assert assess(draws, plated, (x, y, np.ones(12, bool))).trust.verdict == "bad"


@pytest.mark.slow
def test_discrete_latents_are_summed_out_and_their_draws_ignored():
    pytest.importorskip("funsor")

    def contaminated(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with numpyro.plate("row", len(y)):
            wide = numpyro.sample("wide", dist.Bernoulli(0.2), infer={"enumerate": "parallel"})
            numpyro.sample("y", dist.Normal(mu, 0.5 + 4.5 * wide), obs=y)

    y = np.array([0.2, 0.5, 0.9, 6.0])
    grid = np.linspace(-3.0, 3.0, 3001)
    normal = lambda x, sd: np.exp(-0.5 * (x / sd) ** 2) / sd  # noqa: E731
    density = normal(grid, 1.0) * np.prod(
        [0.8 * normal(v - grid, 0.5) + 0.2 * normal(v - grid, 5.0) for v in y], axis=0
    )
    cdf = np.cumsum(density) / density.sum()
    mu = np.interp(RNG.uniform(size=4000), cdf, grid)
    draws = {"mu": mu, "wide": np.zeros((4000, 4), int)}
    posterior = assess(draws, contaminated, (y,))
    assert posterior.trust.verdict == "good", posterior.trust
    assert posterior.trust.evidence["sites_ignored"] == "wide"


# -- NumPyro's own NUTS ----------------------------------------------------------------------------


def run_nuts(model, *args, **options):
    mcmc = MCMC(
        NUTS(model, **options),
        num_warmup=1000,
        num_samples=1000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *args, extra_fields=("energy",))
    return mcmc


EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def centred(effect, error):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(error)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effect", dist.Normal(theta, error), obs=effect)


@pytest.mark.slow
def test_divergent_chains_of_centred_schools_are_bad():
    tree = az.from_numpyro(run_nuts(centred, EFFECT, ERROR))
    posterior = bk.assess(centred, EFFECT, ERROR, idata=tree, progress=False)
    assert posterior.trust.verdict == "bad" and posterior.trust.evidence["divergences"] > 0


@pytest.mark.slow
@posteriordb.needed
@pytest.mark.parametrize("name", posteriordb.NAMES)
def test_chains_of_reference_posteriors_are_good(name):
    model, args, reference = posteriordb.load(name)
    mcmc = run_nuts(model, *args, target_accept_prob=0.95)
    posterior = bk.assess(model, *args, idata=az.from_numpyro(mcmc), progress=False)
    errors = posteriordb.errors(posterior, reference)
    assert np.max(errors.mean) < 0.25 and np.max(errors.sd) < 0.25, errors
    assert posterior.trust.verdict == "good", posterior.trust
