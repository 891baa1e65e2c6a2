"""Location-scale sites between their centred and non-centred form: densities, points, choices."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.infer import MCMC, NUTS
from scipy.stats import norm

import bayeskern as bk
from bayeskern.inference.mcmc.centring import informed_centredness
from bayeskern.inference.model.centring import noncentred, recentred
from bayeskern.inference.model.evaluation import log_densities
from bayeskern.inference.model.location_scale import location_scale
from bayeskern.inference.model.target import Target
from models import eight_schools
from tests.compilations import compilations

GROUP = np.repeat(np.arange(4), [1, 2, 5, 40])
Y = np.random.default_rng(0).normal(3.0, 2.0, len(GROUP))


def groups(prior):
    """Model of 48 values in groups with effects from a prior (m, tau) -> distribution."""

    def model():
        m = numpyro.sample("m", dist.Normal(0.0, 5.0))
        tau = numpyro.sample("tau", dist.LogNormal(0.0, 0.5))
        with numpyro.plate("group", 4):
            effect = numpyro.sample("effect", prior(m, tau))
        numpyro.deterministic("largest", jnp.max(effect))
        means = jnp.reshape(effect, (4, -1))[GROUP, 0]
        numpyro.sample("y", dist.Normal(means, 2.0), obs=Y)

    return model


def two_effects(m, tau):
    root = jnp.array([[1.0, 0.0], [0.3, 2.0]])
    return dist.MultivariateNormal(jnp.stack([m, 0.5 * m]), scale_tril=tau * root)


def standardised(y, prior=dist.Normal):
    """Effects tau z with z ~ N(0, 1), as models in the non-centred form have them."""
    m = numpyro.sample("m", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.LogNormal(0.0, 0.5))
    sd = numpyro.sample("sd", dist.LogNormal(0.0, 0.5))
    with numpyro.plate("group", 4):
        z = numpyro.sample("z", prior(0.0, 1.0))
    numpyro.deterministic("largest", jnp.max(m + tau * z))
    numpyro.sample("y", dist.Normal(m + tau * z[GROUP], sd), obs=y)


FAMILIES = {
    "normal": dist.Normal,
    "student": lambda m, tau: dist.StudentT(4.0, m, tau),
    "multivariate": two_effects,
    "independent": lambda m, tau: dist.Normal(m, tau).expand([4, 2]).to_event(1),
    "cauchy": dist.Cauchy,
    "laplace": dist.Laplace,
    "log-normal": dist.LogNormal,
    "walks": lambda m, tau: dist.GaussianRandomWalk(tau, num_steps=3),
}
STANDARDISED = {
    "standard normal": dist.Normal,
    "standard student": partial(dist.StudentT, 4.0),
    "standard laplace": dist.Laplace,
}


@cache
def forms(family):
    """The target of a model, its non-centred form, and a partly centred one."""
    if family in STANDARDISED:
        target = Target.from_model(partial(standardised, prior=STANDARDISED[family]), (Y,), {})
    else:
        target = Target.from_model(groups(FAMILIES[family]), (), {})
    marginal = noncentred(target)
    form = Target.from_model(marginal.model, marginal.args, marginal.kwargs or {})
    ((name, zeros),) = form.model.centredness.items()
    centredness = np.linspace(0.1, 1.0, zeros.size).reshape(zeros.shape)
    return target, form, form.model.with_centredness(form, {name: centredness})


def test_forms_of_one_model_share_their_programs():
    def density_of_new_form(y):
        marginal = noncentred(Target.from_model(standardised, (), {"y": y}))
        form = Target.from_model(marginal.model, marginal.args, marginal.kwargs or {})
        return log_densities(form, np.zeros((5, form.size)))

    before = len(compilations)
    first = density_of_new_form(Y)
    assert len(compilations) > before  # the compilations are counted
    before = len(compilations)
    assert np.all(density_of_new_form(2.0 * Y) < first)
    assert len(compilations) == before


def test_named_data_may_be_read_by_the_model():
    def model(group, y):
        tau = numpyro.sample("tau", dist.HalfNormal(2.0))
        with numpyro.plate("groups", len(np.unique(group))):
            effect = numpyro.sample("effect", dist.Normal(0.0, tau))
        numpyro.sample("y", dist.Normal(effect[group], 1.0), obs=y)

    method = bk.NUTS(chains=2, warmup=300, draws=100)
    posterior = bk.infer(model, group=GROUP, y=Y, method=method, seed=0, progress=False)
    assert "effect" in posterior.trust.evidence["centredness"]


@pytest.mark.parametrize("family", [*FAMILIES, *STANDARDISED])
def test_density_changes_by_the_jacobian_of_the_map(family):
    target, form, partly = forms(family)
    z = np.random.default_rng(1).normal(size=form.size)
    for other in (form, partly):

        def own(z, other=other):
            sites = other.constrain(z)
            return target.unconstrain({s.name: sites[s.name] for s in target.latents})[0]

        log_det = np.linalg.slogdet(jax.jacfwd(own)(z))[1]
        np.testing.assert_allclose(
            other.log_density(z), target.log_density(own(z)) + log_det, rtol=1e-10
        )


@pytest.mark.parametrize("family", [*FAMILIES, *STANDARDISED])
def test_recentred_points_have_the_same_sites(family):
    target, form, partly = forms(family)
    z = np.random.default_rng(2).normal(size=(3, form.size))
    there = recentred(form, partly, z)
    assert np.max(np.abs(there - z)) > 0.1
    for point, other in zip(z, there, strict=True):
        old, new = form.constrain(point), partly.constrain(other)
        for name in (*(s.name for s in target.latents), "largest"):
            np.testing.assert_allclose(new[name], old[name], rtol=1e-9)
    np.testing.assert_allclose(recentred(partly, form, there), z, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_long_walks_between_forms(scale):
    walk = location_scale(dist.GaussianRandomWalk(scale, num_steps=300))
    steps = np.random.default_rng(0).normal(size=(2, 300))
    np.testing.assert_allclose(walk.located(steps), scale * np.cumsum(steps, axis=1))
    for c in (np.zeros(300), np.linspace(0.0, 1.0, 300), np.ones(300)):
        partly = walk.decentred(c)
        np.testing.assert_allclose(partly.standardised(partly.located(steps)), steps, atol=1e-9)
        # The density of x' times the derivative of x', which is that of the steps.
        slope = jax.jacfwd(partly.located)(steps[0])
        density = np.sum(norm.logpdf(steps), axis=1)
        np.testing.assert_allclose(
            partly.fn.log_prob(partly.located(steps)) + np.linalg.slogdet(slope)[1], density
        )


def test_centredness_is_the_share_that_the_data_determine():
    form = forms("normal")[1]
    z = np.random.default_rng(3).normal(2.0, 0.5, size=(10, form.size))
    # n values with sd 2 and a prior sd tau: n tau^2 / (n tau^2 + 2^2), least for the smallest tau.
    tau = min(float(form.constrain(point)["tau"]) for point in z)
    ratio = np.bincount(GROUP) * (tau / 2.0) ** 2
    np.testing.assert_allclose(informed_centredness(form, z)["effect"], ratio / (1.0 + ratio))


def test_scales_of_standardised_sites():
    def products(x):
        tau = numpyro.sample("tau", dist.HalfNormal())
        sds = numpyro.sample("sds", dist.HalfNormal().expand([3]).to_event(1))
        own = numpyro.sample("own", dist.HalfNormal())
        size = numpyro.sample("size", dist.HalfNormal())
        z = numpyro.sample("z", dist.Normal().expand([3]).to_event(1))
        walk = numpyro.sample("walk", dist.Normal().expand([5]).to_event(1))
        late = numpyro.sample("late", dist.Normal())
        later = numpyro.sample("later", dist.HalfNormal())
        added = numpyro.sample("added", dist.Normal())
        factor = numpyro.sample("factor", dist.LogNormal())
        single = numpyro.sample("single", dist.MultivariateNormal(jnp.zeros(1), jnp.eye(1)))
        mean = jnp.sum(tau * sds * z) + own * jnp.cumsum(walk)[-1] + late * later + added
        mean = mean + size * (factor + single[0])
        numpyro.sample("x", dist.Normal(mean, 1.0 + own), obs=x)

    # `own` is in the noise too, `later` comes after its site, `added` has no scale; `factor` and
    # `single` have no standard distribution of one number.
    form = noncentred(Target.from_model(products, (1.0,), {})).model
    assert form.scales == {"z": ("tau", "sds")}
    assert list(form.centredness) == ["z"]


def test_sites_that_are_no_funnels_keep_their_form():
    def constant_scale():
        m = numpyro.sample("m", dist.Normal())
        numpyro.sample("x", dist.Normal(m, 2.0))

    def steps():
        tau = numpyro.sample("tau", dist.HalfNormal())

        def step(x, _):
            x = numpyro.sample("x", dist.Normal(x, tau))
            return x, x

        scan(step, 0.0, jnp.arange(3))

    def scaled():
        tau = numpyro.sample("tau", dist.HalfNormal())
        with handlers.scale(scale=0.5):
            numpyro.sample("x", dist.Normal(0.0, tau))

    def masked():
        tau = numpyro.sample("tau", dist.HalfNormal())
        numpyro.sample("x", dist.Normal(jnp.zeros(2), tau).mask(jnp.array([True, False])))

    for model in (constant_scale, steps, scaled, masked):
        assert noncentred(Target.from_model(model, (), {})) is None


@pytest.mark.slow
def test_centred_eight_schools_are_good():
    posterior = bk.infer(eight_schools.model, *eight_schools.data(), method="nuts", progress=False)
    assert posterior.trust.verdict == "good"
    assert list(posterior.draws) == ["mu", "tau", "theta"]
    # posteriordb, eight_schools_noncentered.
    for name, mean, sd in (("mu", 4.4, 3.3), ("tau", 3.6, 3.2)):
        draws = posterior.draws[name]
        assert abs(draws.mean() - mean) < 0.1 * sd
        assert abs(draws.std() / sd - 1.0) < 0.1
    assert posterior.marginalized is not None
    assert posterior.extend(200).draws["theta"].shape == (4, 1200, 8)


@pytest.mark.slow
def test_options_that_keep_the_form_of_the_model():
    for options in (
        {"centring": False},
        {"init": {"mu": 0.0}},
        {"mass_matrix": [("mu", "theta")]},
    ):
        method = bk.NUTS(warmup=300, draws=50, **options)
        posterior = bk.infer(
            eight_schools.model, *eight_schools.data(), method=method, progress=False
        )
        assert posterior.marginalized is None


@pytest.mark.slow
def test_correlated_effects_are_good():
    rng = np.random.default_rng(0)
    who, day = np.repeat(np.arange(18), 10), np.tile(np.arange(10.0) - 4.5, 18)
    effects = rng.multivariate_normal([250.0, 10.0], [[900.0, 54.0], [54.0, 36.0]], 18)
    y = effects[who, 0] + effects[who, 1] * day + rng.normal(0.0, 25.0, 180)

    def subjects():
        m = numpyro.sample("m", dist.Normal(jnp.array([250.0, 0.0]), 100.0).to_event(1))
        tau = numpyro.sample("tau", dist.HalfNormal(jnp.array([50.0, 20.0])).to_event(1))
        root = numpyro.sample("root", dist.LKJCholesky(2, 2.0))
        with numpyro.plate("subject", 18):
            b = numpyro.sample("b", dist.MultivariateNormal(m, scale_tril=tau[:, None] * root))
        sd = numpyro.sample("sd", dist.HalfNormal(50.0))
        numpyro.sample("y", dist.Normal(b[who, 0] + b[who, 1] * day, sd), obs=y)

    posterior = bk.infer(subjects, method="nuts", seed=0, progress=False)
    assert posterior.trust.verdict == "good"
    # NumPyro's NUTS samples the centred form.
    mcmc = MCMC(
        NUTS(subjects, target_accept_prob=0.95),
        num_warmup=1000,
        num_samples=1000,
        num_chains=4,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0))
    for site, expected in mcmc.get_samples().items():
        if site != "root":
            shift = np.abs(posterior.draws[site].mean((0, 1)) - expected.mean(0))
            assert np.max(shift / expected.std(0)) < 0.15
    # The log densities are those of the coordinates that the results have.
    z, lp = posterior.z.reshape(-1, posterior.z.shape[-1]), posterior.sample_stats["lp"]
    np.testing.assert_allclose(lp.ravel(), log_densities(posterior.fitted_target, z), rtol=1e-9)
    # The search for modes is evidence in this form, too.
    assert "unexplained_draws_followed" in posterior.trust.evidence
