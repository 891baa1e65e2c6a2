"""Bad arguments, models and options of `infer`, and posteriors that are not good."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.reparam import ProjectedNormalReparam

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.model.checks.forgotten_data import forgets_data
from tests.marks import few

Y = np.array([0.3, -1.2, 2.0, 0.7, 1.1, -0.4])
X = np.linspace(-1.0, 1.0, 6)


def line(X, y, scale=1.0):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(slope * X, scale), obs=y)


def infer(model, *args, method="laplace", **options):
    return bk.infer(model, *args, method=method, progress=False, **options)


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


def unobserved(X, y):
    """Forgets to pass y to its site."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(slope * X, 1.0), obs=None)


@pytest.mark.slow
@pytest.mark.parametrize("method", few(["laplace", "nuts", "auto"], "laplace"))
def test_verdict_on_the_prior_is_saved(method, tmp_path):
    posterior = infer(unobserved, X, Y, method=method)
    assert posterior.trust.verdict == "caution" and "this is the prior" in posterior.trust.advice
    posterior.save(tmp_path / "prior.nc")
    assert bk.load(tmp_path / "prior.nc").trust.verdict == "caution"


def optional(X, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(slope * X, 1.0).to_event(1), obs=y)


def without_data(size=2):
    numpyro.sample("x", dist.Normal(0.0, 1.0).expand([size]).to_event(1))


def of_parameters(mean, sd):
    numpyro.sample("x", dist.Normal(mean, sd).to_event(1))


def by_factor(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.factor("likelihood", jnp.sum(dist.Normal(mu, 1.0).log_prob(y)))


@pytest.mark.parametrize(
    ("model", "args", "forgets"),
    [
        (unobserved, (X, Y), True),
        (optional, (X,), True),
        (optional, (X, None), True),
        (without_data, (), False),
        (of_parameters, (Y, np.ones(6)), False),
        (by_factor, (Y,), False),
        (line, (X, Y), False),
    ],
)
def test_data_that_the_density_does_not_depend_on(model, args, forgets):
    assert forgets_data(Target.from_model(model, args, {})) is forgets


def test_errors_of_the_model_are_unchanged():
    def model(y):
        raise RuntimeError("too few wells")

    with pytest.raises(RuntimeError, match="^too few wells"):
        infer(model, Y)


@pytest.mark.parametrize("method", ["map", "mle", "laplace", "importance", "nuts"])
def test_model_without_latents(method):
    def model():
        numpyro.deterministic("d", 1.0)
        numpyro.sample("y", dist.Normal(), obs=1.0)

    with pytest.raises(ValueError, match=r"no latent site.*Free\(init\)"):
        infer(model, method=method)


# -- what is not good ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["laplace", "importance", "nuts"])
def test_deterministic_that_is_nan_in_some_draws_is_bad(method):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.deterministic("log", jnp.log(mu))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    assert infer(model, Y, method=method).trust.verdict == "bad"


@pytest.mark.slow
def test_flat_direction_without_priors_is_bad():
    def model(y):
        flat = dist.ImproperUniform(dist.constraints.real, (), ())
        a, b = numpyro.sample("a", flat), numpyro.sample("b", flat)
        numpyro.sample("y", dist.Normal(a + b, 1.0), obs=y)

    posterior = infer(model, Y)
    assert posterior.trust.verdict == "bad"
    assert "Give that site a proper prior" in posterior.trust.advice


# -- options of infer ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": None}, "^method"),
        ({"method": bk.NUTS}, r"method.*NUTS\(\)"),
        ({"method": numpyro.infer.NUTS(line)}, "^method"),
        ({"seed": 1.5}, "^seed must be"),
        ({"seed": -1}, "^seed must be"),
        ({"seed": jax.random.key(0)}, "^seed must be"),
        ({"dims": {"slop": ["a"]}}, "^dims"),
        ({"coords": "a"}, "^coords"),
    ],
)
def test_bad_options_of_infer(options, match):
    with pytest.raises((TypeError, ValueError), match=match):
        infer(line, X, Y, **options)


def directions(y):
    direction = numpyro.sample("direction", dist.ProjectedNormal(jnp.zeros(2)))
    numpyro.sample("y", dist.Normal(direction, 0.3).to_event(1), obs=y)


def test_support_without_coordinates_names_the_reparametrisation():
    y = np.array([0.9, 0.7])
    with pytest.raises(
        ValueError, match=r"'direction' \(ProjectedNormal\).*'direction': Projected"
    ):
        infer(directions, y)


@pytest.mark.slow
def test_the_reparametrisation_that_is_named_works():
    y, config = np.array([0.9, 0.7]), {"direction": ProjectedNormalReparam()}
    posterior = infer(numpyro.handlers.reparam(directions, config=config), y, method="nuts", seed=0)
    # Quadrature over the angle.
    angle = np.linspace(-np.pi, np.pi, 10_001)
    on_circle = np.array([np.cos(angle), np.sin(angle)])
    density = np.exp(-np.sum((on_circle - y[:, None]) ** 2, axis=0) / (2.0 * 0.3**2))
    mean = posterior.flat["direction"].mean(axis=0)
    np.testing.assert_allclose(mean, on_circle @ density / density.sum(), atol=0.02)


@pytest.mark.parametrize("model", [None, "line"])
def test_model_that_is_no_function(model):
    with pytest.raises((TypeError, ValueError), match="^model must be"):
        infer(model, Y)
