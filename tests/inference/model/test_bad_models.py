"""Bad input to `infer`: each mistake is refused, by name, before anything is fitted."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from tests.marks import slow

Y = np.array([0.3, -1.2, 2.0, 0.7, 1.1, -0.4])
X = np.linspace(-1.0, 1.0, 6)


def line(X, y, scale=1.0):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(slope * X, scale), obs=y)


def infer(model, *args, method="laplace", **options):
    return bk.infer(model, *args, method=method, progress=False, **options)


def counts(likelihood):
    def model(y):
        rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
        numpyro.sample("y", likelihood(rate), obs=y)

    return model


# -- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "options", "match"),
    [
        ((X,), {}, "missing 1 required positional argument: 'y'"),
        ((X, Y, 1.0, 2.0), {}, "takes from 2 to 3 positional arguments but 4"),
        ((X, Y), {"scal": 1.0}, "unexpected keyword argument 'scal'"),
    ],
)
def test_arguments_that_the_model_does_not_take(args, options, match):
    with pytest.raises(TypeError, match=match):
        infer(line, *args, **options)


@pytest.mark.parametrize("method", ["laplace", slow("nuts"), slow("auto")])
def test_data_that_no_site_observes_are_no_posterior(method, tmp_path):
    def forgotten(X, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
        numpyro.sample("y", dist.Normal(slope * X, 1.0), obs=None)

    posterior = infer(forgotten, X, Y, method=method)
    assert posterior.trust.verdict == "caution" and "this is the prior" in posterior.trust.advice
    # A loaded posterior has the verdict of then, with and without its model.
    posterior.save(tmp_path / "prior.nc")
    assert bk.load(tmp_path / "prior.nc").trust.verdict == "caution"
    fitted = infer(line, X, Y, method=method)
    fitted.save(tmp_path / "fit.nc")
    assert bk.load(tmp_path / "fit.nc").trust.verdict == fitted.trust.verdict == "good"


@pytest.mark.parametrize("args", [(X,), (X, None)])
def test_data_that_are_none_leave_the_prior(args):
    def model(X, y=None):
        slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
        numpyro.sample("y", dist.Normal(slope * X, 1.0).to_event(1), obs=y)

    trust = infer(model, *args).trust
    assert trust.verdict == "caution" and "this is the prior" in trust.advice


def test_a_density_without_data_is_what_it_is():
    def density(size=2):
        numpyro.sample("x", dist.Normal(0.0, 1.0).expand([size]).to_event(1))

    assert infer(density).trust.verdict == "good"


def test_arrays_that_the_density_depends_on_are_parameters():
    def normal(mean, sd):
        numpyro.sample("x", dist.Normal(mean, sd).to_event(1))

    assert infer(normal, Y, np.ones(6)).trust.verdict == "good"


def test_a_factor_stands_for_data():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.factor("likelihood", jnp.sum(dist.Normal(mu, 1.0).log_prob(y)))

    assert infer(model, Y).trust.verdict == "good"


def test_an_error_of_the_model_itself_is_shown_as_it_is():
    def model(y):
        raise RuntimeError("too few wells")

    with pytest.raises(RuntimeError, match="^too few wells"):
        infer(model, Y)


@pytest.mark.parametrize("method", ["hmc", "", "NUTs", "advi"])
def test_an_unknown_method_lists_those_that_there_are(method):
    with pytest.raises(ValueError, match="is not known.*Choose from auto, exact, map, mle"):
        infer(line, X, Y, method=method)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: bk.NUTS(draws=0), "draws must be a whole number of at least 1, got 0"),
        (lambda: bk.NUTS(draws=1e3), "draws must be a whole number of at least 1, got 1000.0"),
        (lambda: bk.NUTS(chains="4"), "chains must be a whole number of at least 1, got '4'"),
        (lambda: bk.NUTS(target_accept=1.5), "target_accept must be a probability.*got 1.5"),
        (lambda: bk.NUTS(chain_method="vectorised"), "Did you mean 'vectorized'"),
        (lambda: bk.SVI(guide="meanfield"), "Did you mean 'mean_field'"),
        (lambda: bk.SVI(guide=None), "guide=None is not known"),
        (lambda: bk.ImportanceSampling(proposal="laplce"), "Did you mean 'laplace'"),
        (lambda: bk.ImportanceSampling(tails=-1), "tails must be degrees of freedom above 0"),
        (lambda: bk.ImportanceSampling(adapt=1.5), "adapt must be a number of rounds"),
        (lambda: bk.Pathfinder(paths=0), "paths must be a whole number of at least 1"),
        (lambda: bk.Laplace(draws=True), "draws must be a whole number of at least 1, got True"),
    ],
)
def test_options_of_the_wrong_kind(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    ("proposal", "match"),
    [
        (3, "proposal must be one of laplace, svi, prior, a Posterior"),
        (dist.Normal(0.0, 1.0).expand([2]).to_event(1), r"event shape \(2,\).*1 unconstrained"),
    ],
)
def test_proposals_that_cannot_be_drawn_from(proposal, match):
    with pytest.raises((TypeError, ValueError), match=match):
        infer(line, X, Y, method=bk.ImportanceSampling(proposal=proposal))


@pytest.mark.slow
def test_a_guide_without_the_sites_of_the_model():
    def guide(X, y):
        numpyro.sample("slop", dist.Normal(0.0, 1.0))

    with pytest.raises(ValueError, match="guide has no site .*'slope'"):
        infer(line, X, Y, method=bk.SVI(guide=guide))


# -- data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "shapes"),
    [
        (X, Y[:4], r"\(4,\).*\(6,\)"),
        (X[:, None], Y, r"\(6,\).*\(6, 1\)"),
        (X, Y[:, None], r"\(6, 1\).*\(6,\)"),
        (X[None], Y, r"\(6,\).*\(1, 6\)"),
    ],
)
@pytest.mark.parametrize("method", ["laplace", "nuts", "map"])
def test_data_that_do_not_fit_their_distribution(X, y, shapes, method):
    with pytest.raises(ValueError, match=f"observed site 'y' has values of shape {shapes}"):
        infer(line, X, y, method=method)


def test_rows_of_events_in_the_wrong_order():
    def model(y):
        mean = numpyro.sample("mean", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
        numpyro.sample("y", dist.MultivariateNormal(mean, jnp.eye(2)), obs=y)

    for shape in ((2, 6), (6,)):
        with pytest.raises(ValueError, match="observed site 'y' has values of shape"):
            infer(model, np.ones(shape))


def test_a_plate_of_another_length_than_its_data():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        with numpyro.plate("rows", 4):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    with pytest.raises(ValueError, match=r"observed site 'y' has values of shape \(6,\)"):
        infer(model, Y)


# What lies outside the support has a density in NumPyro's formula, if not in the distribution.
@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        slow(dist.HalfNormal, -np.abs(Y)),
        (dist.Exponential, Y),
        slow(dist.Poisson, np.array([2, -1])),
        (dist.Poisson, np.array([2.0, 0.5])),
        slow(lambda rate: dist.Bernoulli(logits=jnp.log(rate)), np.array([1, 2])),
        slow(lambda rate: dist.Bernoulli(logits=jnp.log(rate)), np.array([-1, 1])),
        slow(lambda rate: dist.OrderedLogistic(rate, jnp.array([0.0, 1.0])), np.array([0, 7])),
        (lambda rate: dist.Binomial(3, logits=jnp.log(rate)), np.array([1, 5])),
        slow(lambda rate: dist.TruncatedNormal(rate, 1.0, low=0.0), Y),
        slow(dist.Exponential, np.array([1.0, np.inf])),
    ],
)
def test_data_outside_the_support_of_their_distribution(likelihood, y):
    with pytest.raises(
        ValueError, match=r"^y\[\d\] = .* is outside the support|'y' has .* infinite"
    ):
        infer(counts(likelihood), y, method="map")


@pytest.mark.parametrize(
    "method", ["laplace", *map(slow, ("map", "mle", "svi", "importance", "nuts"))]
)
def test_a_density_that_is_zero_everywhere_names_its_factor(method):
    def model(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        numpyro.factor("penalty", -jnp.inf * scale)
        numpyro.sample("y", dist.Normal(0.0, scale), obs=y)

    with pytest.raises(ValueError, match="not finite where the fit would start, at site 'penalty'"):
        infer(model, Y, method=method)


@pytest.mark.parametrize("method", ["nuts", *map(slow, ("svi", "pathfinder", "auto"))])
def test_nan_data_are_refused_by_every_method(method):
    bad = np.where(np.arange(6) == 2, np.nan, Y)
    with pytest.raises(ValueError, match="site 'y' has 1 value that is NaN.*row 2"):
        infer(line, X, bad, method=method)


# -- what is not good ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["map", slow("mle")])
def test_a_point_estimate_is_never_good_and_has_no_loo(method):
    posterior = infer(line, X, Y, method=method)
    assert posterior.trust.verdict != "good"
    with pytest.raises(ValueError, match="not offered for a point estimate"):
        posterior.log_likelihood()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", slow("importance"), slow("nuts")])
def test_a_deterministic_that_is_nan_in_some_draws_is_not_good(method):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.deterministic("log", jnp.log(mu))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    assert infer(model, Y, method=method).trust.verdict == "bad"


@pytest.mark.slow
def test_a_ridge_without_priors_is_not_good():
    def model(y):
        flat = dist.ImproperUniform(dist.constraints.real, (), ())
        a, b = numpyro.sample("a", flat), numpyro.sample("b", flat)
        numpyro.sample("y", dist.Normal(a + b, 1.0), obs=y)

    posterior = infer(model, Y)
    assert posterior.trust.verdict == "bad"
    assert "Give that site a proper prior" in posterior.trust.advice


# -- not refused clearly yet ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": None}, "^method"),
        ({"method": bk.NUTS}, r"method.*NUTS\(\)"),
        ({"method": ["nuts"]}, "^method"),
        ({"method": numpyro.infer.NUTS(line)}, "^method"),
        ({"seed": "a"}, "^seed must be"),
        ({"seed": 1.5}, "^seed must be"),
        ({"seed": None}, "^seed must be"),
        ({"seed": -1}, "^seed must be"),
        ({"seed": jax.random.key(0)}, "^seed must be"),
        ({"dims": {"slop": ["a"]}}, "^dims"),
        ({"coords": "a"}, "^coords"),
    ],
)
def test_options_of_infer_of_the_wrong_kind(options, match):
    with pytest.raises((TypeError, ValueError), match=match):
        infer(line, X, Y, **options)


@pytest.mark.parametrize("model", [None, "line", 3])
def test_a_model_that_is_no_function(model):
    with pytest.raises((TypeError, ValueError), match="^model must be"):
        infer(model, Y)
