"""Arguments of every kind that models are called with, against the same model in plain arrays."""

import argparse
import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.infer.autoguide import AutoMultivariateNormal, AutoNormal

import bayeskern as bk
from bayeskern.inference import Target
from tests.marks import slow

rng = np.random.default_rng(0)
GROUP = np.repeat([0, 1, 2], 8)
Y = np.array([1.0, -1.0, 0.5])[GROUP] + 0.5 * rng.normal(size=24)


def grouped(group, y=None):
    """As in NumPyro's tutorial on hierarchical regression: it looks at the values of its data."""
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
@pytest.mark.parametrize(
    "method", ["laplace", *map(slow, ("map", "importance", "svi", bk.NUTS(warmup=200)))]
)
def test_a_model_that_looks_at_the_values_of_its_data(method):
    posterior = bk.infer(grouped, GROUP, Y, method=method, progress=False)
    mean, sd = exact()
    assert posterior.target.holds_data
    np.testing.assert_array_less(np.abs(posterior.flat["a"].mean(axis=0) - mean) / sd, 0.12)


@pytest.mark.slow
def test_it_predicts_for_other_groups_and_is_kept(tmp_path):
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
def test_other_data_are_not_taken_for_the_same():
    first = bk.infer(grouped, GROUP, Y, method="laplace", progress=False).draws["a"]
    second = bk.infer(grouped, GROUP, Y + 1.0, method="laplace", progress=False).draws["a"]
    shift = (8 / 0.25) / (1 / 4 + 8 / 0.25)
    np.testing.assert_allclose((second - first).mean(axis=(0, 1)), shift, atol=1e-6)


@pytest.mark.parametrize("count", [3, np.int64(3), GROUP.max() + 1])
def test_whole_numbers_are_static(count):
    target = Target.of(counted, (count, GROUP, Y), {})
    assert target.size == 3
    assert not target.holds_data


@pytest.mark.parametrize("kind", [pd.Series, jnp.asarray])
def test_series_and_arrays_of_any_library(kind):
    target = Target.of(counted, (3, kind(GROUP), kind(Y)), {})
    z = jnp.array([0.3, -0.2, 0.1])
    plain = Target.of(counted, (3, GROUP, Y), {})
    np.testing.assert_allclose(target.log_density(z), plain.log_density(z), rtol=1e-14)


def test_a_logical_scalar_is_static():
    def model(y, shifted):
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.sample("y", dist.Normal(mu + 1.0 if shifted else mu, 1.0), obs=y)

    target = Target.of(model, (Y,), {"shifted": (Y > 0).any()})
    assert jnp.isfinite(target.log_density(jnp.zeros(1)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "guide", [AutoNormal, *map(slow, (AutoMultivariateNormal, AutoNormal(grouped)))]
)
def test_autoguides_are_guides(guide):
    posterior = bk.infer(grouped, GROUP, Y, method=bk.SVI(guide), progress=False)
    mean, sd = exact()
    np.testing.assert_array_less(np.abs(posterior.flat["a"].mean(axis=0) - mean) / sd, 0.12)
    np.testing.assert_allclose(posterior.flat["a"].std(axis=0), sd, rtol=0.1)


def test_sites_of_size_zero_and_truth_values():
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


@pytest.mark.parametrize("look", [float, bool, np.asarray, lambda mu: range(int(mu))])
def test_a_model_that_looks_at_what_it_draws_is_told_to_use_jax(look):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        look(mu)
        numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)

    for method in ("laplace", "nuts"):
        with pytest.raises(ValueError, match=r"looks at a value .* jnp.where"):
            bk.infer(model, np.zeros(3), method=method)


@pytest.mark.parametrize(
    "look",
    [
        lambda y, rows: bool(jnp.any(jnp.isnan(y))),
        lambda y, rows: int(jnp.max(y)),
        lambda y, rows: np.zeros(5)[np.asarray(rows)],
    ],
)
def test_one_that_looks_at_what_jax_makes_of_its_data_is_told_to_use_numpy(look):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate("rows", len(y)) as rows:
            look(y, rows)
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    with pytest.raises(ValueError, match=r"jax.numpy of its data. Use NumPy on data"):
        bk.infer(model, np.zeros(3), method="laplace")


# -- what cannot be hashed or traced ---------------------------------------------------------------


def options_model(y, options):
    sd = options.sd if hasattr(options, "sd") else float(len(options))
    mu = numpyro.sample("mu", dist.Normal(0.0, sd))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


@dataclasses.dataclass
class Options:
    """Has no hash, since it can be changed."""

    sd: float = 2.0


@pytest.mark.parametrize(
    "options", [argparse.Namespace(sd=2.0), Options(), {"a", "b"}], ids=["namespace", "data", "set"]
)
def test_objects_without_a_hash(options):
    posterior = bk.infer(options_model, Y, options, method="laplace", progress=False)
    # mu ~ N(0, 2^2), 24 values with sd 1.
    precision = 24 + 1 / 4
    assert abs(posterior.flat["mu"].mean() - Y.sum() / precision) < 4 * precision**-0.5 / 4000**0.5


def test_an_object_that_changes_is_seen():
    options = Options(sd=2.0)
    bk.infer(options_model, Y, options, method="laplace", progress=False)
    options.sd = 0.01
    changed = bk.infer(options_model, Y, options, method="laplace", progress=False)
    # The prior is so tight that the data hardly count.
    assert abs(changed.flat["mu"].mean()) < 0.01


def test_columns_of_a_data_frame_are_asked_for():
    def model(df):
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=df["y"])

    frame = pd.DataFrame({"x": Y, "y": Y})
    with pytest.raises(ValueError, match=r"gets a data frame as an array.*infer\(model, df\['x'\]"):
        bk.infer(model, frame, method="laplace", progress=False)


def test_a_scan_that_starts_with_32_bits_says_what_to_write():
    def model(y):
        s = numpyro.sample("s", dist.HalfNormal())

        def step(at, value):
            numpyro.sample("y", dist.Normal(0.0, s), obs=value)
            return jnp.argmax(jnp.stack([value, s])), None

        scan(step, jnp.zeros((), jnp.int32), y)

    with pytest.raises(TypeError, match="carry of a scan starts with 32 bits.*without a dtype"):
        bk.infer(model, Y, method="laplace", progress=False)


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
def test_a_density_without_sample_is_fitted_saved_and_converted(tmp_path):
    posterior = bk.infer(density_only, Y, method="laplace", progress=False)
    assert posterior.trust.verdict == "good"
    with pytest.raises(ValueError, match="'y' cannot be drawn: DensityOnly has no method sample"):
        posterior.predict(Y)
    assert posterior.replicates(3) == {}
    with pytest.warns(UserWarning, match="posterior_predictive, prior and .* are left out"):
        groups = posterior.to_arviz()
    assert set(groups.children) == {"posterior", "sample_stats", "log_likelihood", "observed_data"}
    with pytest.warns(UserWarning, match="left out"):
        posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc", model=density_only)
    np.testing.assert_array_equal(loaded.draws["mu"], posterior.draws["mu"])
