"""Draws from the prior, against closed forms and NumPyro."""

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import Predictive

import bayeskern as bk
from bayeskern import priors
from bayeskern.inference.prior_predictive import prior_predictive

Y = np.array([1.0, 2.0, 4.0])


def groups(y, group):
    mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
    with numpyro.plate("school", 3):
        effect = numpyro.sample("effect", dist.Normal(mu, 1.0))
        numpyro.deterministic("twice", 2.0 * effect)
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(effect[group], 0.5), obs=y)


GROUP = np.array([0, 2, 2])


@pytest.fixture(scope="module")
def tree():
    return prior_predictive(groups, Y, GROUP, draws=4000, seed=3)


def test_moments_equal_the_closed_form(tree):
    for values, variance in ((tree.prior["mu"], 4.0), (tree.prior_predictive["y"][0, :, 0], 5.25)):
        x = values.values.ravel()
        assert abs(x.mean() - 1.0) < 4 * np.sqrt(variance / 4000)
        assert x.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / 4000))


def test_parameters_and_data_are_drawn_jointly(tree):
    y, effect = tree.prior_predictive["y"].values[0], tree.prior["effect"].values[0]
    left = y - effect[:, GROUP]
    assert left.var() == pytest.approx(0.25, rel=4 * np.sqrt(2 / 12000))
    # Rows of one group share its effect.
    assert np.cov(y[:, 1], y[:, 2])[0, 1] == pytest.approx(5.0, rel=0.1)
    np.testing.assert_allclose(tree.prior["twice"].values[0], 2.0 * effect, rtol=1e-12)


def test_quantiles_agree_with_numpyro(tree):
    theirs = Predictive(groups, num_samples=4000)(jax.random.key(1), jnp.zeros(3), GROUP)
    for name in ("mu", "effect"):
        own = tree.prior[name].values.reshape(4000, -1)
        for q in (0.1, 0.5, 0.9):
            apart = np.quantile(own, q, axis=0) - np.quantile(theirs[name], q, axis=0).ravel()
            assert np.all(np.abs(apart) < 0.3)


def test_dimensions_have_the_names_of_plates(tree):
    assert list(tree.children) == ["prior", "prior_predictive", "observed_data"]
    assert tree.prior["effect"].dims == ("chain", "draw", "school")
    assert tree.prior_predictive["y"].dims == ("chain", "draw", "row")
    assert list(tree.prior.data_vars) == ["mu", "effect", "twice"]
    np.testing.assert_array_equal(tree.observed_data["y"], Y)
    assert tree.observed_data["y"].dims == ("row",)


def test_arviz_functions_accept_the_tree(tree):
    assert az.summary(tree, group="prior", kind="stats").loc["mu", "mean"] == pytest.approx(
        1.0, abs=0.15
    )
    az.plot_ppc_dist(tree, group="prior_predictive", backend="none")


def test_seed_determines_the_draws():
    first, again, other = (prior_predictive(groups, Y, GROUP, draws=5, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.prior["mu"], again.prior["mu"])
    assert np.all(first.prior["mu"] != other.prior["mu"])
    assert first.prior_predictive["y"].shape == (1, 5, 3)


def test_problem_passes_its_data_and_labels(tree):
    problem = bk.Problem(
        groups,
        {"y": Y, "group": GROUP},
        {"school": list("abc"), "when": [7, 8, 9]},
        {"y": ["when"]},
    )
    found = prior_predictive(problem, draws=4000, seed=3)
    np.testing.assert_array_equal(found.prior["mu"], tree.prior["mu"])
    assert list(found.prior["school"].values) == ["a", "b", "c"]
    assert list(found.prior_predictive["when"].values) == [7, 8, 9]
    with pytest.raises(TypeError, match="holds its own data"):
        prior_predictive(problem, Y)


def test_default_priors_have_the_scale_of_the_data():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 1)), 1000.0 + 100.0 * rng.normal(size=50)
    found = prior_predictive(bk.BayesianLinearRegression(prior=priors.Gaussian()), X, y)
    # The default is N(mean(y), (2.5 sd(y))^2) at the mean of x.
    slope = found.prior["weights"].values.ravel()
    assert slope.std() == pytest.approx(2.5 * y.std() / X.std(), rel=0.1)
    assert found.prior["weights"].dims == ("chain", "draw", "feature")


@pytest.mark.slow
def test_counts_stay_integers_and_masked_rows_are_drawn():
    def counts(y):
        rate = numpyro.sample("rate", dist.Gamma(4.0, 2.0))
        numpyro.sample("y", dist.Poisson(rate).mask(y >= 0), obs=jnp.maximum(y, 0))

    found = prior_predictive(counts, np.array([3, -1, 2]), draws=2000)
    y = found.prior_predictive["y"].values
    assert y.dtype.kind == "i" and y.shape == (1, 2000, 3)
    assert abs(y[0, :, 1].mean() - 2.0) < 4 * np.sqrt(3.0 / 2000)


def test_model_with_static_data():
    def model(group, y):
        with numpyro.plate("group", len(np.unique(group))):
            level = numpyro.sample("level", dist.Normal())
        numpyro.sample("y", dist.Normal(level[group], 1.0), obs=y)

    found = prior_predictive(model, GROUP // 2, Y, draws=10)
    assert found.prior["level"].shape == (1, 10, 2)


def test_gaussian_process_is_drawn_with_its_covariance():
    kernel = bk.kernels.RBF(lengthscale=1.0, variance=dist.LogNormal(0.0, 1e-6))
    X = np.array([0.0, 1.0])
    found = prior_predictive(bk.GPRegression(kernel, noise=0.5), X, np.zeros(2), draws=4000)
    expected = [[1.5, np.exp(-0.5)], [np.exp(-0.5), 1.5]]
    covariance = np.cov(found.prior_predictive["y"].values[0].T)
    np.testing.assert_allclose(covariance, expected, atol=4 * 1.5 * np.sqrt(2 / 4000))


@pytest.mark.parametrize(
    ("model", "args", "options", "message"),
    [
        (
            bk.BayesianLinearRegression(prior=priors.Flat(), noise_variance=1.0),
            (Y, Y),
            {},
            "'weights'",
        ),
        (bk.GPRegression(bk.kernels.RBF(bk.Free(1.0)), 0.1), (Y, Y), {}, "'lengthscale' has no"),
        (bk.GPRegression(bk.kernels.RBF(dist.HalfNormal()), 0.1), (Y,), {}, "observes nothing"),
        (groups, (Y, GROUP), {"draws": 0}, "draws must be"),
        (groups, (Y, GROUP), {"seed": -1}, "seed must be"),
    ],
)
def test_invalid_models_and_options_are_refused(model, args, options, message):
    with pytest.raises(ValueError, match=message):
        prior_predictive(model, *args, **options)


@pytest.mark.slow
def test_discrete_latents_are_drawn():
    pytest.importorskip("funsor")

    def model(y):
        p = numpyro.sample("p", dist.Beta(2.0, 3.0))
        with numpyro.plate("row", len(y)):
            k = numpyro.sample("k", dist.Bernoulli(p))
            numpyro.deterministic("level", 10.0 * k)
            numpyro.sample("y", dist.Normal(10.0 * k, 0.1), obs=y)

    found = prior_predictive(model, Y, draws=2000, seed=1)
    assert list(found.prior.data_vars) == ["p", "k", "level"]
    k = found.prior["k"]
    assert k.dims == ("chain", "draw", "row") and set(np.unique(k)) == {0, 1}
    assert abs(k.values.mean() - 0.4) < 4 * np.sqrt(0.24 / 2000)
    np.testing.assert_array_equal(found.prior["level"], 10.0 * k)
    # The data are drawn with the same k.
    np.testing.assert_allclose(found.prior_predictive["y"].values, 10.0 * k.values, atol=0.6)


def test_labels_that_do_not_match_are_refused():
    problem = bk.Problem(
        groups, {"y": Y, "group": GROUP}, {"school": list("ab"), "when": [7, 8, 9]}, {"y": ["when"]}
    )
    with pytest.raises(ValueError, match="2 labels for 'school'.*size 3"):
        prior_predictive(problem)
