"""Two species of iris, told apart by a neural network of one hidden layer.

Neal (1996), "Bayesian learning for neural networks", chapter 2: f(x) = a + sum_h v_h tanh(b_h +
x'u_h) with H hidden units. The prior variance of v is OMEGA^2 / H, so that the prior variance of f
does not depend on H; for large H the prior on f is close to a Gaussian process.

Predictions do not change if two hidden units change places, or if one unit changes all its signs:
every mode of the weights has H! 2^H copies, and there are several modes. By symmetry the posterior
mean of u, b and v is 0. Laplace and SVI describe one copy of one mode, so the verdicts on their
weights are bad. Few data, as here, let chains cross between copies. With more data, as in the
regression `curve_model`, each chain stays at one copy, and R-hat of the weights is large: compare
the functions `f` and the predictions instead.

Laplace's Gaussian is so wide that the network is not close to linear on it, and predictions from
its draws scatter widely. Predictions of the network linearised in its weights around the mode
(`linearised`) do not. Use them with `bk.Laplace(hessian="gauss_newton")`, whose Hessian is exact
for the linearised network.

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
    """Petal length and width, standardised (100, 2), and True for a virginica (100,)."""
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
    f, tangent = jax.linearize(lambda z: target.constrain(z)["f"], mode)
    return np.asarray(f + jax.vmap(tangent)(posterior.z[0] - mode))


def problem():
    """To predict: a small flower, one in between, and a large one."""
    return bk.Problem(model, data(), predict=(np.array([[-1.1, -1.1], [0.0, 0.0], [1.3, 1.2]]),))
