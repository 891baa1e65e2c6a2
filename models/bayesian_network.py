"""Two species of iris, told apart by a neural network of one hidden layer.

Neal (1996), "Bayesian learning for neural networks", chapter 2: hidden units tanh(b + x'u), their
outputs weighted by v with a prior variance of OMEGA^2 / H, so that the prior on functions does not
depend on the number H of hidden units, and is about a Gaussian process where there are many.

Two hidden units can change places, and one can change all of its signs, without a change of any
prediction: every mode of the weights has H! 2^H copies, and there are others beside. The mean of a
weight is 0; Laplace and SVI describe one copy of one mode, and their verdicts, which speak of the
weights, are bad. Chains cross from copy to copy where data say as little as here; where they say
more, as in the regression `curve_model`, they stay, and R-hat of the weights is large. What can be
compared then are the functions `f`, and predictions.

A network is curved across the Gaussian of Laplace's method, so that predictions from its draws
scatter widely. Those of the network that is linear in its weights around the mode do not
(`linearised`); they go with `bk.Laplace(hessian="gauss_newton")`, whose curvature is that of the
linear one.

The flowers are those of `gp_classification`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from sklearn.datasets import load_iris

import bayeskern as bk

HIDDEN, OMEGA = 5, 2.0


def data():
    """Petal length and width, standardised (100, 2), and whether it is a virginica (100,)."""
    iris = load_iris()
    rows = iris.target > 0
    X = iris.data[rows, 2:]
    return (X - X.mean(axis=0)) / X.std(axis=0), iris.target[rows] == 2


def network(X):
    """The function f at the rows of X (n, d): (n,)."""
    d = X.shape[1]
    u = numpyro.sample("u", dist.Normal(0.0, 2.0).expand([d, HIDDEN]).to_event(2))
    b = numpyro.sample("b", dist.Normal(0.0, 2.0).expand([HIDDEN]).to_event(1))
    v = numpyro.sample("v", dist.Normal(0.0, OMEGA / HIDDEN**0.5).expand([HIDDEN]).to_event(1))
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    return numpyro.deterministic("f", a + jnp.tanh(b + X @ u) @ v)


def model(X, y=None):
    numpyro.sample("y", dist.Bernoulli(logits=network(X)), obs=y)


def curve(x):
    """The mean of y at x."""
    return 0.3 + 0.4 * x + 0.5 * np.sin(2.7 * x) + 1.1 / (1.0 + x**2)


def curve_data(seed=0):
    """A hundred values of x ~ N(0, 1), and y with noise of sd 0.1 (100,)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=100)
    return x, curve(x) + 0.1 * rng.normal(size=100)


def curve_model(x, y=None):
    noise = numpyro.sample("noise", dist.HalfNormal(0.5))
    numpyro.sample("y", dist.Normal(network(x[:, None]), noise), obs=y)


def linearised(posterior, X):
    """Draws of f at X, linear in the weights around the mode of a Laplace posterior: (S, n).

    Immer, Korzepa and Bauer (2021), "Improving predictions of Bayesian neural nets via local
    linearization", equation 8.
    """
    target = posterior.fitted_target.with_arguments(X, jnp.zeros(len(X)))
    mode = jnp.asarray(posterior.optimum.z)
    f, along = jax.linearize(lambda z: target.constrain(z)["f"], mode)
    return np.asarray(f + jax.vmap(along)(posterior.z[0] - mode))


def problem():
    """To predict: a small flower, one in between, and a large one."""
    return bk.Problem(model, data(), predict=(np.array([[-1.1, -1.1], [0.0, 0.0], [1.3, 1.2]]),))
