"""Arguments of models: arrays that are traced, values that the model reads, static objects."""

import argparse
import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.infer.autoguide import AutoMultivariateNormal, AutoNormal
from scipy.stats import norm

import bayeskern as bk
from bayeskern.inference import Target

rng = np.random.default_rng(0)
GROUP = np.repeat([0, 1, 2], 8)
Y = np.array([1.0, -1.0, 0.5])[GROUP] + 0.5 * rng.normal(size=24)


def grouped(group, y=None):
    """As in NumPyro's tutorial on hierarchical regression: it reads the values of its data."""
    count = len(np.unique(group))
    with numpyro.plate("groups", count):
        a = numpyro.sample("a", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(a[group], 0.5), obs=y)


def counted(count, group, y=None):
    with numpyro.plate("groups", count):
        a = numpyro.sample("a", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(a[group], 0.5), obs=y)


def exact():
    precision = 1 / 4 + 8 / 0.25
    return np.array([Y[g == GROUP].sum() / 0.25 / precision for g in range(3)]), precision**-0.5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "map", "importance", "svi", bk.NUTS(warmup=200)])
def test_model_that_reads_the_values_of_its_data(method):
    posterior = bk.infer(grouped, GROUP, Y, method=method, progress=False)
    mean, sd = exact()
    assert posterior.target.holds_data
    np.testing.assert_array_less(np.abs(posterior.flat["a"].mean(axis=0) - mean) / sd, 0.12)


@pytest.mark.slow
def test_model_that_reads_its_data_predicts_other_groups_and_is_saved(tmp_path):
    posterior = bk.infer(grouped, GROUP, Y, method="laplace", progress=False)
    new = np.array([2, 2, 0, 1])
    mean, _ = exact()
    predicted = posterior.predict(new).mean
    np.testing.assert_allclose(predicted, mean[new], atol=0.1)
    assert posterior.log_likelihood()["y"].shape == (1, 4000, 24)
    posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc", model=grouped)
    np.testing.assert_array_equal(loaded.predict(new).mean, predicted)


@pytest.mark.slow
def test_other_data_that_the_model_reads_give_another_fit():
    first = bk.infer(grouped, GROUP, Y, method="laplace", progress=False).draws["a"]
    second = bk.infer(grouped, GROUP, Y + 1.0, method="laplace", progress=False).draws["a"]
    shift = (8 / 0.25) / (1 / 4 + 8 / 0.25)
    np.testing.assert_allclose((second - first).mean(axis=(0, 1)), shift, atol=1e-6)


@pytest.mark.parametrize("kind", [pd.Series, jnp.asarray])
def test_numpy_numbers_are_static_and_arrays_of_any_library_are_traced(kind):
    def model(count, group, y, shifted):
        counted(count if shifted else 0, group, y)

    target = Target.from_model(model, (np.int64(3), kind(GROUP), kind(Y), (Y > 0).any()), {})
    z = jnp.array([0.3, -0.2, 0.1])
    plain = Target.from_model(counted, (3, GROUP, Y), {})
    assert target.size == 3 and not target.holds_data
    np.testing.assert_allclose(target.log_density(z), plain.log_density(z), rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("guide", [AutoNormal, AutoMultivariateNormal, AutoNormal(grouped)])
def test_autoguides_of_a_model_that_reads_its_data(guide):
    posterior = bk.infer(grouped, GROUP, Y, method=bk.SVI(guide), progress=False)
    mean, sd = exact()
    np.testing.assert_array_less(np.abs(posterior.flat["a"].mean(axis=0) - mean) / sd, 0.12)
    np.testing.assert_allclose(posterior.flat["a"].std(axis=0), sd, rtol=0.1)


def test_sites_of_size_zero_and_of_booleans():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.deterministic("none", jnp.zeros(0))
        numpyro.deterministic("positive", mu > 0)
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    posterior = bk.infer(model, Y, method="laplace", progress=False)
    assert posterior.draws["none"].shape == (1, 4000, 0)
    assert posterior.draws["positive"].dtype == bool
    share = posterior.summary().loc["positive", "mean"]
    assert float(share) == pytest.approx(posterior.draws["positive"].mean(), abs=0.01)


@pytest.mark.parametrize(
    "read",
    [
        lambda y, rows, mu: float(mu),
        lambda y, rows, mu: bool(mu),
        lambda y, rows, mu: np.asarray(mu),
        lambda y, rows, mu: range(int(mu)),
        lambda y, rows, mu: bool(jnp.any(jnp.isnan(y))),
        lambda y, rows, mu: int(jnp.max(y)),
        lambda y, rows, mu: np.zeros(5)[np.asarray(rows)],
    ],
)
def test_models_that_read_traced_values_are_refused(read):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate("rows", len(y)) as rows:
            read(y, rows, mu)
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    with pytest.raises(ValueError, match="looks at a value .* Use NumPy on data.* jnp.where"):
        Target.from_model(model, (np.zeros(3),), {})


# -- what cannot be hashed or traced ---------------------------------------------------------------


def options_model(y, options):
    sd = options.sd if hasattr(options, "sd") else float(len(options))
    mu = numpyro.sample("mu", dist.Normal(0.0, sd))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


@dataclasses.dataclass
class Options:
    """Mutable, and so without a hash."""

    sd: float = 2.0


@pytest.mark.parametrize("options", [argparse.Namespace(sd=2.0), {"a", "b"}])
def test_objects_without_a_hash(options):
    target, z = Target.from_model(options_model, (Y, options), {}), jnp.array([0.3])
    expected = norm.logpdf(0.3, scale=2.0) + norm.logpdf(Y, 0.3).sum()
    np.testing.assert_allclose(eqx.filter_jit(Target.log_density)(target, z), expected)


def test_changes_of_an_object_without_a_hash_are_noticed():
    options, log_density, z = Options(), eqx.filter_jit(Target.log_density), jnp.array([0.3])
    for sd in (2.0, 0.1):
        options.sd = sd
        expected = norm.logpdf(0.3, scale=sd) + norm.logpdf(Y, 0.3).sum()
        target = Target.from_model(options_model, (Y, options), {})
        np.testing.assert_allclose(log_density(target, z), expected)


def test_data_frames_that_a_model_indexes_are_refused():
    def model(df):
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=df["y"])

    with pytest.raises(
        ValueError, match=r"a data frame, which became an array.*infer\(model, df\['x'\]"
    ):
        Target.from_model(model, (pd.DataFrame({"x": Y, "y": Y}),), {})


def test_scans_that_start_with_32_bits_are_refused():
    def model(y):
        s = numpyro.sample("s", dist.HalfNormal())

        def step(at, value):
            numpyro.sample("y", dist.Normal(0.0, s), obs=value)
            return jnp.argmax(jnp.stack([value, s])), None

        scan(step, jnp.zeros((), jnp.int32), y)

    with pytest.raises(TypeError, match="carry of a scan starts with 32 bits"):
        Target.from_model(model, (Y,), {})


# -- observations that cannot be drawn -------------------------------------------------------------


class DensityOnly(dist.Distribution):
    """A normal density without `sample`."""

    support = dist.constraints.real
    pytree_data_fields = ("mu",)

    def __init__(self, mu):
        self.mu = mu
        super().__init__(jnp.shape(mu), ())

    def log_prob(self, value):
        return dist.Normal(self.mu, 1.0).log_prob(value)


def density_only(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    numpyro.sample("y", DensityOnly(jnp.full(len(y), mu)), obs=y)


@pytest.mark.slow
def test_distribution_without_sample_is_fitted_saved_and_converted(tmp_path):
    posterior = bk.infer(density_only, Y, method="laplace", progress=False)
    assert posterior.trust.verdict == "good"
    with pytest.raises(ValueError, match="'y' cannot be drawn: DensityOnly has no method sample"):
        posterior.predict(Y)
    assert posterior.replicates(3) == {}
    with pytest.warns(UserWarning, match="posterior_predictive, prior and .* are left out"):
        groups = posterior.to_arviz()
    kept = {"posterior", "sample_stats", "log_likelihood", "log_prior", "observed_data"}
    assert set(groups.children) == kept
    with pytest.warns(UserWarning, match="left out"):
        posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc", model=density_only)
    np.testing.assert_array_equal(loaded.draws["mu"], posterior.draws["mu"])
