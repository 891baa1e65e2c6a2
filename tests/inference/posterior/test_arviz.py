"""The tree for ArviZ: groups, names, and ArviZ's own functions on it."""

import warnings

import arviz as az
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer import MCMC, NUTS
from scipy import stats

import bayeskern as bk
from bayeskern.inference import ImportanceSampling, Laplace
from bayeskern.inference.posterior import arviz
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust
from bayeskern.kernels import RBF
from tests.inference.any_draws import AnyDraws

RNG = np.random.default_rng(0)
X = RNG.normal(size=20)
GROUP = np.arange(20) % 3
COUNTS = RNG.poisson(np.exp(0.3 * X + 0.5))
FLAGS = (RNG.random(20) < 0.4).astype(int)
PAIRS = np.stack([X, -X], axis=1) + RNG.normal(size=(20, 2))
HOLES = np.where(np.arange(20) % 4 == 1, np.nan, X + RNG.normal(size=20))


def rich(x, group, counts=None, flags=None, pairs=None, holes=None):
    """Plates, a vector, a deterministic, a factor, counts, flags, events, masked observations."""
    b = numpyro.sample(
        "b", dist.Normal(0, 1).expand([2]).to_event(1), infer={"event_dims": ["coef"]}
    )
    with numpyro.plate("group", 3):
        a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.deterministic("rate", jnp.exp(a))
    numpyro.factor("shrink", -0.1 * jnp.sum(a**2))
    seen = True if holes is None else ~jnp.isnan(holes)
    with numpyro.plate("obs", len(x)):
        numpyro.sample("counts", dist.Poisson(jnp.exp(a[group] + b[0] * x)), obs=counts)
        numpyro.sample("flags", dist.Bernoulli(logits=a[group]), obs=flags)
        means = jnp.stack([b[0] * x, b[1] * x], axis=-1)
        numpyro.sample(
            "pairs",
            dist.Normal(means, 1.0).to_event(1),
            obs=pairs,
            infer={"event_dims": ["side"]},
        )
        with handlers.mask(mask=seen):
            filled = None if holes is None else jnp.nan_to_num(holes)
            numpyro.sample("holes", dist.Normal(b[1], 1.0), obs=filled)


DATA = {"counts": COUNTS, "flags": FLAGS, "pairs": PAIRS, "holes": HOLES}
COORDS = {"coef": ["slope", "other"], "group": ["A", "B", "C"], "obs": np.arange(100, 120)}


def plain(y, scale=1.0):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.deterministic("twice", 2.0 * mu)
    numpyro.sample("y", dist.Normal(mu, scale), obs=y)


def fit(model, *args, method=None, **kwargs):
    method = Laplace(draws=400) if method is None else method
    return bk.infer(model, *args, method=method, progress=False, **kwargs)


@pytest.fixture(scope="module")
def rich_posterior():
    return fit(rich, X, GROUP, **DATA, coords=COORDS)


@pytest.fixture(scope="module")
def rich_tree(rich_posterior):
    return rich_posterior.to_arviz()


@pytest.fixture(scope="module")
def chains():
    """Two chains of NumPyro's own NUTS, as a backend would hand them over."""
    mcmc = MCMC(
        NUTS(plain), num_warmup=200, num_samples=200, num_chains=2, progress_bar=False,
        chain_method="sequential",
    )  # fmt: skip
    mcmc.run(jax.random.key(0), X, extra_fields=("energy", "diverging", "potential_energy"))
    draws = jax.device_get(mcmc.get_samples(group_by_chain=True))
    stats = jax.device_get(mcmc.get_extra_fields(group_by_chain=True))
    stats["lp"] = -stats.pop("potential_energy")
    posterior = fit(plain, X)
    chains = Fit(
        z=draws["mu"][..., None],
        assess=lambda _: Trust("good", "As a test."),
        draws=draws,
        sample_stats=stats,
    )
    return bk.Posterior.from_fit(chains, posterior.target, "nuts")


# -- groups and names ----------------------------------------------------------------------------

PREDICTIVE = ("log_likelihood", "posterior_predictive", "prior_predictive")
ALL = {*PREDICTIVE, "posterior", "sample_stats", "prior", "observed_data", "constant_data"}
ALL |= {"log_prior"}


@pytest.mark.slow
def test_groups_and_their_variables(rich_tree, rich_posterior):
    assert set(rich_tree.children) == ALL
    assert list(rich_tree.posterior.data_vars) == ["b", "a", "rate"]
    assert list(rich_tree.prior.data_vars) == ["b", "a", "rate"]
    for group in (*PREDICTIVE, "observed_data"):
        assert list(rich_tree[group].data_vars) == list(DATA), group
    # Not the observed values, though they are arguments too, with holes or without.
    assert set(rich_tree.constant_data.data_vars) == {"x", "group"}
    np.testing.assert_array_equal(rich_tree.posterior["a"], rich_posterior.draws["a"])
    np.testing.assert_array_equal(rich_tree.constant_data["x"], X)


@pytest.mark.slow
def test_dimensions_have_names_and_labels(rich_tree):
    sample = ("chain", "draw")
    assert rich_tree.posterior["b"].dims == (*sample, "coef")
    assert rich_tree.prior["rate"].dims == (*sample, "group")
    for group in PREDICTIVE:
        assert rich_tree[group]["counts"].dims == (*sample, "obs"), group
        assert rich_tree[group]["pairs"].dims == (*sample, "obs", "side"), group
        np.testing.assert_array_equal(rich_tree[group]["obs"], COORDS["obs"])
    assert rich_tree.observed_data["pairs"].dims == ("obs", "side")
    np.testing.assert_array_equal(rich_tree.posterior["group"], COORDS["group"])
    assert rich_tree.observed_data["counts"].dtype.kind == "i"


@pytest.mark.slow
def test_masked_observations_are_left_out(rich_tree):
    kept = np.arange(20) % 4 != 1
    np.testing.assert_array_equal(rich_tree.observed_data["holes"], HOLES[kept])
    for group in (*PREDICTIVE, "observed_data"):
        assert rich_tree[group]["holes"].dims[-1] == "holes_observed", group
        np.testing.assert_array_equal(rich_tree[group]["holes_observed"], COORDS["obs"][kept])


@pytest.mark.slow
def test_predictive_groups_have_their_distributions(rich_tree, rich_posterior):
    b = rich_posterior.draws["b"][0]
    new = rich_tree.posterior_predictive["pairs"].to_numpy()[0]
    residual = new - np.stack([b[:, :1] * X, b[:, 1:] * X], axis=-1)
    # Draw by draw, N(0, 1) around the means of that very draw.
    assert stats.kstest(residual.ravel(), "norm").pvalue > 1e-3
    before = rich_tree.prior["b"].to_numpy()[0, :, 1]
    assert stats.kstest(before, "norm").pvalue > 1e-3
    holes = rich_tree.prior_predictive["holes"].to_numpy()[0]
    assert stats.kstest((holes - before[:, None]).ravel(), "norm").pvalue > 1e-3


@pytest.mark.slow
def test_lp_is_the_log_density(rich_tree, rich_posterior):
    z = rich_posterior.z[0, 7]
    truth = rich_posterior.target.log_density(jnp.asarray(z))
    np.testing.assert_allclose(rich_tree.sample_stats["lp"][0, 7], truth, rtol=1e-10)


@pytest.mark.slow
def test_dims_name_the_axes_of_a_model_without_plates():
    names = {"dims": {"y": ["when"]}, "coords": {"when": np.arange(20) + 5}}
    posterior = fit(plain, X, scale=2.0, method=AnyDraws(400), **names)
    found = posterior.to_arviz()
    for group in ("log_likelihood", "posterior_predictive", "observed_data"):
        assert found[group]["y"].dims[-1] == "when"
        np.testing.assert_array_equal(found[group]["when"], np.arange(20) + 5)
    assert "constant_data" not in found.children
    assert fit(plain, X).to_arviz().observed_data["y"].dims == ("y_dim_0",)


def test_names_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="names 2 axes of 'y'"):
        fit(plain, X, dims={"y": ["a", "b"]})
    with pytest.raises(ValueError, match="3 labels for 'a'"):
        fit(plain, X, dims={"y": ["a"]}, coords={"a": [1, 2, 3]})


def test_site_names_with_dots_and_slashes():
    def model(y):
        with handlers.scope(prefix="part"):
            mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("season.y", dist.Normal(mu, 1.0), obs=y)

    found = fit(model, X, method=AnyDraws(400)).to_arviz()
    assert list(found.posterior.data_vars) == ["part.mu"]
    assert list(found.observed_data.data_vars) == ["season.y"]


@pytest.mark.slow
def test_improper_prior_has_no_prior_groups():
    def model(y):
        mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    found = fit(model, X).to_arviz()
    assert set(found.children) == ALL - {"log_prior", "prior", "prior_predictive", "constant_data"}


def test_log_prior_is_that_of_scipy():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(1.0, 2.0).expand([3]).to_event(1))
        flat = numpyro.sample("flat", dist.ImproperUniform(dist.constraints.real, (), ()))
        with handlers.scope(prefix="part"):
            s = numpyro.sample("s", dist.HalfNormal(3.0))
        numpyro.sample("y", dist.Normal(mu.sum() + flat, s), obs=y)

    posterior = fit(model, X, method=AnyDraws(50), dims={"mu": ["part"]})
    found, draws = posterior.to_arviz().log_prior, posterior.draws
    assert set(found.data_vars) == {"mu", "part.s"}
    truth = stats.norm(1.0, 2.0).logpdf(draws["mu"]).sum(axis=-1)
    np.testing.assert_allclose(found["mu"], truth, rtol=1e-10)
    truth = stats.halfnorm(scale=3.0).logpdf(draws["part/s"])
    np.testing.assert_allclose(found["part.s"], truth, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "conflict"), [(0.0, False), (4.0, True)])
def test_psense_of_a_saved_file_finds_a_conflict_of_prior_and_data(shift, conflict, tmp_path):
    fit(plain, X + shift, method=Laplace(draws=4000)).save(tmp_path / "p.nc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = az.psense_summary(az.from_netcdf(tmp_path / "p.nc"), var_names=["mu"])
    assert table.loc["mu", "likelihood"] > 0.0
    assert ("conflict" in table.loc["mu", "diagnosis"]) == conflict


@pytest.mark.slow
def test_no_log_prior_without_a_pointwise_sum():
    """log p(y_i | others) do not add up to log p(y), so psense would scale a wrong likelihood."""
    y = np.sin(X)
    process = bk.GPRegression(RBF(lengthscale=dist.LogNormal(0.0, 0.3)), noise=0.1)
    assert "log_prior" not in fit(process, X, y, method=AnyDraws(30)).to_arviz().children


@pytest.mark.slow
def test_large_predictives_are_thinned(monkeypatch):
    monkeypatch.setattr(arviz, "MAX_REPLICATE_NUMBERS", 20 * 100)
    posterior = fit(plain, X)
    found = posterior.to_arviz().posterior_predictive
    assert found.sizes["draw"] == 100 and found.attrs["thinned"].startswith("100 of 400 draws")
    assert (found["draw"][0], found["draw"][-1]) == (0, 399)
    mu = posterior.draws["mu"][0][found["draw"].to_numpy()]
    residual = found["y"].to_numpy()[0] - mu[:, None]
    assert stats.kstest(residual.ravel(), "norm").pvalue > 1e-3


def test_groups_and_summary_of_a_point_estimate():
    posterior = fit(plain, X, method="map")
    found, table = posterior.to_arviz(), posterior.summary()
    assert set(found.children) == {"posterior", "prior", "prior_predictive", "observed_data"}
    assert found.posterior["mu"].shape == (1, 1)
    assert list(table.columns) == ["value"]
    np.testing.assert_allclose(table["value"], X.sum() / 21 * np.array([1.0, 2.0]), atol=1e-6)


@pytest.mark.slow
def test_subsampled_plates_are_complete():
    def model(x, y):
        b = numpyro.sample("b", dist.Normal(0.0, 1.0))
        with numpyro.plate("rows", 20, subsample_size=5) as rows:
            numpyro.sample("y", dist.Normal(b * x[rows], 1.0), obs=y[rows])

    found = fit(model, jnp.asarray(X), jnp.asarray(X), method=AnyDraws(400)).to_arviz()
    for group in PREDICTIVE:
        assert found[group]["y"].shape[2:] == (20,)
    assert found.observed_data.sizes == {"rows": 20}


@pytest.mark.slow
def test_replicates_of_a_process_are_conditioned_on_its_data():
    y = np.sin(X) + 0.05 * RNG.normal(size=20)
    model = bk.GPRegression(RBF(lengthscale=dist.LogNormal(0.0, 0.3)), noise=0.05**2)
    found = fit(model, X, y).to_arviz()
    new = found.posterior_predictive["y"].to_numpy()[0]
    assert new.shape == (200, 20) == found.log_likelihood["y"].shape[1:]
    # Draws from the prior would be an sd of one away.
    assert np.max(np.abs(new.mean(axis=0) - y)) < 0.15
    assert np.max(np.abs(new.std(axis=0) - 0.06)) < 0.03
    assert 0.5 < found.prior_predictive["y"].to_numpy().std() < 2.0
    np.testing.assert_array_equal(found.constant_data["X"], X[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(az.loo(found).elpd)
        assert az.loo_pit(found)["y"].shape == (20,)


# -- ArviZ's own functions -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape", "ignore:Variables .* look")
@pytest.mark.parametrize("which", ["plates", "none", "importance", "chains"])
def test_arviz_functions_accept_the_tree(which, rich_tree, chains):
    trees = {
        "plates": lambda: rich_tree,
        "none": lambda: fit(plain, X).to_arviz(),
        "importance": lambda: fit(plain, X, method=ImportanceSampling(draws=500)).to_arviz(),
        "chains": chains.to_arviz,
    }
    found = trees[which]()
    names = list(found.observed_data.data_vars)
    assert len(az.summary(found)) == (8 if which == "plates" else 2)
    for name in names:
        loo = az.loo(found, var_name=name)
        assert np.isfinite(loo.elpd) and loo.n_data_points == found.observed_data[name].size
        assert np.all(np.isfinite(az.loo_pit(found, var_names=name)[name]))
        az.plot_ppc_dist(found, var_names=[name], num_samples=10)
    az.plot_trace(found)
    az.plot_forest(found)
    if which == "chains":
        az.plot_energy(found)
    plt.close("all")


@pytest.mark.slow
def test_loo_of_a_conjugate_model_equals_the_closed_form():
    found = fit(plain, X, method=Laplace(draws=4000)).to_arviz()
    truth = 0.0
    for i in range(20):
        rest = np.delete(X, i)
        variance = 1.0 / (1.0 + len(rest))
        truth += stats.norm(variance * rest.sum(), np.sqrt(1.0 + variance)).logpdf(X[i])
    np.testing.assert_allclose(az.loo(found).elpd, truth, atol=0.05)


@pytest.mark.slow
def test_loo_of_an_uninformative_observation():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        # A row of zeros in the design, and its log likelihood is the same at every draw.
        numpyro.sample("y", dist.Normal(mu * jnp.array([0.0, 1.0]), 1.0), obs=y)

    posterior = fit(model, np.array([0.3, -0.2]), method=Laplace(draws=1000))
    assert np.ptp(posterior.log_likelihood()["y"][..., 0]) == 0.0
    loo = az.loo(posterior.to_arviz(), pointwise=True)
    np.testing.assert_allclose(loo.elpd_i[0], stats.norm.logpdf(0.3), rtol=1e-8)
    assert loo.pareto_k[0] < 0.5


@pytest.mark.slow
def test_loo_of_an_exact_process_is_exact():
    y = np.sin(X)
    found = fit(bk.GPRegression(RBF(), noise=0.1), X, y, method="exact").to_arviz()
    truth = bk.GaussianProcess(RBF(), X, 0.1).condition(y).loo().log_density
    np.testing.assert_allclose(az.loo(found).elpd, np.sum(truth), rtol=1e-8)


# -- summary -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_convergence_columns_are_for_mcmc_only(rich_posterior, chains):
    for kind in ("stats", "all", "diagnostics", "all_median"):
        table = rich_posterior.summary(kind=kind)
        assert not any("hat" in c or "ess" in c or "mcse" in c for c in table.columns), kind
    table = rich_posterior.summary(round_to="none")
    assert list(table.index) == [
        "b[slope]", "b[other]", "a[A]", "a[B]", "a[C]", "rate[A]", "rate[B]", "rate[C]",
    ]  # fmt: skip
    np.testing.assert_allclose(table.loc["a[B]", "mean"], rich_posterior.flat["a"][:, 1].mean())
    assert {"r_hat", "ess_bulk", "ess_tail"} <= set(chains.summary().columns)


@pytest.mark.slow
def test_point_is_the_mean_or_the_median():
    posterior = bk.infer(lambda: numpyro.sample("s", dist.LogNormal(0.3, 0.5)), method="laplace")
    assert posterior.point()["s"] == pytest.approx(np.exp(0.3 + 0.125), rel=0.05)
    assert posterior.point("median")["s"] == pytest.approx(np.exp(0.3), rel=0.05)
    with pytest.raises(ValueError, match="Choose from mean, median"):
        posterior.point("mode")


@pytest.mark.slow
@pytest.mark.slow
def test_replicates_of_a_model_without_latents():
    model = bk.GPRegression(RBF(1.0), noise=0.01)
    tree = fit(model, np.arange(8.0), np.zeros(8), method="exact").to_arviz()
    assert tree["posterior_predictive"]["y"].shape == (1, 200, 8)
