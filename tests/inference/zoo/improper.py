"""Models without a posterior: improper and random densities, no observed site."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from tests.inference.zoo.posterior import ZooPosterior

X = np.column_stack([np.ones(20), np.linspace(-1.0, 1.0, 20)])
EFFECTS = np.array([1.2, -0.4, 0.3, 2.0, -1.1])


def flat(name, shape=()):
    if shape:
        return numpyro.sample(
            name, dist.ImproperUniform(dist.constraints.real_vector, (), event_shape=shape)
        )
    return numpyro.sample(name, dist.ImproperUniform(dist.constraints.real, (), ()))


def separable(X, y):
    """The likelihood of separable classes rises for ever."""
    w = flat("w", (X.shape[1],))
    numpyro.sample("y", dist.Bernoulli(logits=X @ w), obs=y)


def unidentified(y):
    """Only the sum of a and b is known."""
    a, b = flat("a"), flat("b")
    numpyro.sample("y", dist.Normal(a + b, 1.0), obs=y)


def unrelated(y):
    """No datum depends on b."""
    a, _ = flat("a"), flat("b")
    numpyro.sample("y", dist.Normal(a, 1.0), obs=y)


def haldane(y):
    """A prior of 1 / (p (1 - p)), without a success."""
    p = numpyro.sample("p", dist.Uniform(0.0, 1.0))
    numpyro.factor("prior", -jnp.log(p) - jnp.log1p(-p))
    numpyro.sample("y", dist.Binomial(10, p), obs=y)


def log_flat_scale(y):
    """A prior of 1 / tau: the density has no integral at tau = 0."""
    tau = numpyro.sample("tau", dist.ImproperUniform(dist.constraints.positive, (), ()))
    numpyro.factor("prior", -jnp.log(tau))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(tau * z, 1.0), obs=y)


def unobserved(y):
    """Data, and no `obs=`."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]))


def only_prior(y=None):
    """`obs=None`."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def random_density(y):
    """Another density at each evaluation."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    noise = np.random.normal(size=len(y))  # noqa: NPY002
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y + noise)


def zoo_posterior(name, model, *args) -> ZooPosterior:
    return ZooPosterior(name, "no posterior", model, args)


POSTERIORS = [
    zoo_posterior("separable logistic regression", separable, X, (X[:, 1] > 0.0).astype(int)),
    zoo_posterior("sum of two flat sites", unidentified, EFFECTS),
    zoo_posterior("unrelated flat site", unrelated, EFFECTS),
    zoo_posterior("Haldane's prior, no success", haldane, 0),
    zoo_posterior("log-flat scale", log_flat_scale, EFFECTS),
    zoo_posterior("no site observed", unobserved, EFFECTS),
    zoo_posterior("obs=None", only_prior),
    zoo_posterior("random density", random_density, EFFECTS),
]
