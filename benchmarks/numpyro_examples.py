"""NumPyro's examples beside NumPyro: verdicts, errors, CPU seconds, and what works afterwards.

    uv run python -m benchmarks.numpyro_examples [names]

Models are written from the published descriptions, data are simulated from them. Each is fitted by
NumPyro's NUTS (four chains, one after the other, its summary included), by `nuts` and by `auto`,
all in one process that compiles each of them for the first time. The error is the largest
difference of a mean from that of NumPyro's draws, in their sds, over all numbers of all latents;
two runs of 4,000 draws differ by about 0.1 where there are dozens of numbers.
"""

import sys
import tempfile
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.experimental.ode import odeint
from numpyro import infer
from numpyro.contrib.control_flow import scan
from numpyro.infer.reparam import LocScaleReparam

import bayeskern as bk

RNG = np.random.default_rng(0)


def baseball(at_bats, hits=None):
    """Efron and Morris (1975), partially pooled with logit."""
    loc = numpyro.sample("loc", dist.Normal(-1.0, 1.0))
    scale = numpyro.sample("scale", dist.HalfCauchy(1.0))
    with numpyro.plate("player", len(at_bats)):
        alpha = numpyro.sample("alpha", dist.Normal(loc, scale))
        numpyro.sample("hits", dist.Binomial(at_bats, logits=alpha), obs=hits)


@numpyro.handlers.reparam(config={"theta": LocScaleReparam(0)})
def eight_schools(error, effect=None):
    """Rubin (1981), non-centred by a reparametrisation."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(error)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("effect", dist.Normal(theta, error), obs=effect)


def divorce(marriage, age, divorce=None):
    """Regression of McElreath's "Statistical Rethinking"."""
    a = numpyro.sample("a", dist.Normal(0.0, 0.2))
    m, b = (numpyro.sample(name, dist.Normal(0.0, 0.5)) for name in ("bM", "bA"))
    sigma = numpyro.sample("sigma", dist.Exponential(1.0))
    numpyro.sample("divorce", dist.Normal(a + m * marriage + b * age, sigma), obs=divorce)


def admissions(department, male, applications, admitted=None):
    """Varying slopes with a correlated prior, as for UC Berkeley."""
    v_mu = numpyro.sample("v_mu", dist.Normal(0.0, jnp.array([4.0, 1.0])).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(jnp.ones(2)).to_event(1))
    factor = numpyro.sample("factor", dist.LKJCholesky(2, concentration=2.0))
    with numpyro.plate("department", 6):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    v = v_mu + z @ (sigma[:, None] * factor).T
    logits = v[department, 0] + v[department, 1] * male
    numpyro.sample("admitted", dist.Binomial(applications, logits=logits), obs=admitted)


def horseshoe(X, y=None):
    """Sparse regression, Carvalho, Polson and Scott (2010)."""
    local = numpyro.sample("local", dist.HalfCauchy(jnp.ones(X.shape[1])).to_event(1))
    tau = numpyro.sample("tau", dist.HalfCauchy(1.0))
    unscaled = numpyro.sample("unscaled", dist.Normal(0.0, jnp.ones(X.shape[1])).to_event(1))
    precision = numpyro.sample("precision", dist.Gamma(3.0, 1.0))
    mean = X @ (tau * local * unscaled)
    numpyro.sample("y", dist.Normal(mean, 1.0 / jnp.sqrt(precision)), obs=y)


def predator_prey(count, y=None):
    """Lotka and Volterra, solved by odeint."""
    z_init = numpyro.sample("z_init", dist.LogNormal(jnp.log(10.0), 1.0).expand([2]).to_event(1))
    loc, scale = jnp.array([1.0, 0.05, 1.0, 0.05]), jnp.array([0.2, 0.01, 0.2, 0.01])
    low = dist.TruncatedNormal(low=0.0, loc=loc, scale=scale).to_event(1)
    theta = numpyro.sample("theta", low)

    def slope(z, t, theta):
        u, v = z
        alpha, beta, gamma, delta = theta
        return jnp.stack([(alpha - beta * v) * u, (-gamma + delta * u) * v])

    z = odeint(slope, z_init, jnp.arange(float(count)), theta, rtol=1e-6, atol=1e-5, mxstep=1000)
    sigma = numpyro.sample("sigma", dist.LogNormal(-1.0, 1.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.LogNormal(jnp.log(z), sigma), obs=y)


def volatility(count, r=None):
    """Stochastic volatility with a random walk, Hoffman and Gelman (2014)."""
    step = numpyro.sample("step", dist.Exponential(50.0))
    s = numpyro.sample("s", dist.GaussianRandomWalk(scale=step, num_steps=count))
    nu = numpyro.sample("nu", dist.Exponential(0.1))
    numpyro.sample("r", dist.StudentT(nu, loc=0.0, scale=jnp.exp(s)), obs=r)


def gaussian_process(X, y=None):
    """RBF kernel with its hyperparameters, the values of y jointly normal."""
    names = ("variance", "noise", "lengthscale")
    variance, noise, length = (numpyro.sample(n, dist.LogNormal(0.0, 1.0)) for n in names)
    square = jnp.square((X[:, None] - X) / length)
    K = variance * jnp.exp(-0.5 * square) + (noise + 1e-6) * jnp.eye(len(X))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(X)), covariance_matrix=K), obs=y)


def autoregression(y, count):
    """AR(2) by scan and condition, which goes on where the data end."""
    alpha_1, alpha_2, const = (
        numpyro.sample(n, dist.Normal(0.0, 1.0)) for n in ("alpha_1", "alpha_2", "const")
    )
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))

    def step(carry, _):
        before, last = carry
        mean = const + alpha_1 * last + alpha_2 * before
        new = numpyro.sample("y", dist.Normal(mean, sigma))
        return (last, new), new

    with numpyro.handlers.condition(data={"y": jnp.asarray(y)}):
        scan(step, (0.0, 0.0), jnp.arange(count))


def ordinal(X, y=None):
    """Ordered logistic regression with cutpoints."""
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    law = dist.TransformedDistribution(
        dist.Normal(0.0, 2.0).expand([2]).to_event(1), dist.transforms.OrderedTransform()
    )
    cutpoints = numpyro.sample("cutpoints", law)
    numpyro.sample("y", dist.OrderedLogistic(slope * X, cutpoints), obs=y)


def network(X, y=None):
    """One hidden layer of five units: weights with many modes."""
    w1 = numpyro.sample("w1", dist.Normal(0.0, 1.0).expand([X.shape[1], 5]).to_event(2))
    w2 = numpyro.sample("w2", dist.Normal(0.0, 1.0).expand([5]).to_event(1))
    precision = numpyro.sample("precision", dist.Gamma(3.0, 1.0))
    mean = jnp.tanh(X @ w1) @ w2
    numpyro.sample("y", dist.Normal(mean, 1.0 / jnp.sqrt(precision)), obs=y)


def mixture(y):
    """Two normal components with ordered means."""
    weight = numpyro.sample("weight", dist.Beta(2.0, 2.0))
    law = dist.TransformedDistribution(
        dist.Normal(0.0, 3.0).expand([2]).to_event(1), dist.transforms.OrderedTransform()
    )
    means = numpyro.sample("means", law)
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    which = dist.Categorical(probs=jnp.stack([weight, 1.0 - weight]))
    numpyro.sample("y", dist.MixtureSameFamily(which, dist.Normal(means, scale)), obs=y)


def examples() -> dict:
    """Name -> model, arguments to fit, arguments to predict."""
    at_bats = np.full(18, 45)
    hits = RNG.binomial(at_bats, 1.0 / (1.0 + np.exp(1.0 - 0.3 * RNG.normal(size=18))))
    error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    marriage, age = RNG.normal(size=(2, 50))
    rate = -0.6 * age + 0.8 * RNG.normal(size=50)
    department, male = np.repeat(np.arange(6), 2), np.tile([1, 0], 6)
    applications = RNG.integers(50, 400, size=12)
    chance = 1.0 / (1.0 + np.exp(0.5 * department - 1.0 + 0.1 * male))
    X = RNG.normal(size=(100, 10))
    sparse = X[:, :3] @ [2.0, -1.0, 0.5] + 0.3 * RNG.normal(size=100)
    theta = (1.0, 0.05, 1.0, 0.05)
    t = jnp.arange(20.0)
    z = odeint(
        lambda z, t: jnp.stack(
            [(theta[0] - theta[1] * z[1]) * z[0], (-theta[2] + theta[3] * z[0]) * z[1]]
        ),
        jnp.array([30.0, 5.0]),
        t,
    )
    animals = np.asarray(z) * np.exp(0.2 * RNG.normal(size=(20, 2)))
    s = np.cumsum(0.1 * RNG.normal(size=200)) - 4.0
    returns = np.exp(s) * RNG.standard_t(10.0, size=200)
    x = np.linspace(-1.0, 1.0, 40)
    wave = np.sin(4.0 * x) + 0.2 * RNG.normal(size=40)
    y = np.zeros(100)
    for i in range(2, 100):
        y[i] = 0.5 + 0.5 * y[i - 1] - 0.3 * y[i - 2] + 0.4 * RNG.normal()
    level = 1.5 * X[:, 0] + RNG.logistic(size=100)
    grades = np.digitize(level, [-1.0, 1.0])
    two = np.where(RNG.random(100) < 0.4, -1.5, 1.0) + 0.5 * RNG.normal(size=100)
    bent = np.tanh(X[:, 0]) - 0.5 * X[:, 1] + 0.2 * RNG.normal(size=100)
    return {
        "baseball": (baseball, (at_bats, hits), (at_bats,)),
        "eight schools": (eight_schools, (error, effect), (error,)),
        "divorce": (divorce, (marriage, age, rate), (marriage[:5], age[:5])),
        "admissions": (
            admissions,
            (department, male, applications, RNG.binomial(applications, chance)),
            (department, male, applications),
        ),
        "horseshoe": (horseshoe, (X, sparse), (X[:5],)),
        "predator and prey": (predator_prey, (20, animals), (25,)),
        "volatility": (volatility, (200, returns), (200,)),
        "gaussian process": (gaussian_process, (x, wave), (x,)),
        "autoregression": (autoregression, (y, 100), (y, 112)),
        "ordinal": (ordinal, (X[:, 0], grades), (X[:5, 0],)),
        "mixture": (mixture, (two,), (two,)),
        "network": (network, (X[:, :2], bent), (X[:5, :2],)),
    }


def peer(model, args) -> tuple[dict, float]:
    """Means and sds by site of NumPyro's NUTS, and its CPU seconds."""
    start = time.process_time()
    mcmc = infer.MCMC(
        infer.NUTS(model),
        num_warmup=1000,
        num_samples=1000,
        num_chains=4,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *args)
    numpyro.diagnostics.summary(mcmc.get_samples(group_by_chain=True))
    seconds = time.process_time() - start
    draws = mcmc.get_samples()
    return {k: (np.mean(v, axis=0), np.std(v, axis=0)) for k, v in draws.items()}, seconds


def error_of(posterior, truth) -> float:
    latents = [site.name for site in posterior.target.latents]
    return max(
        float(np.max(np.abs(posterior.flat[k].mean(axis=0) - truth[k][0]) / truth[k][1]))
        for k in latents
    )


def works(posterior, args) -> str:
    """Actions that work on the posterior, and the class of the error of each other one."""
    with tempfile.TemporaryDirectory() as folder:
        actions = {
            "predict": lambda: posterior.predict(*args),
            "arviz": posterior.to_arviz,
            "save": lambda: posterior.save(Path(folder) / "posterior.nc"),
            "report": lambda: bk.report(posterior, Path(folder) / "report.html"),
        }
        results = []
        for name, action in actions.items():
            try:
                action()
                results.append(name)
            except Exception as failed:
                results.append(f"{name}: {type(failed).__name__}")
    return " ".join(results)


def main(names=()):
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_compilation_cache", False)
    print(f"{'':20}{'method':8}{'verdict':16}{'error':>6}{'CPU s':>7}{'ratio':>7}  works")
    for name, (model, args, new) in examples().items():
        if names and name not in names:
            continue
        truth, theirs = peer(model, args)
        print(f"{name:20}{'NumPyro':8}{'':16}{'':>6}{theirs:7.1f}", flush=True)
        for method in ("nuts", "auto"):
            start = time.process_time()
            posterior = bk.infer(model, *args, method=method, progress=False)
            verdict = posterior.trust.verdict
            seconds = time.process_time() - start
            ended = f"{method}" if method != "auto" else posterior.attempts[-1].method
            print(
                f"{'':20}{method:8}{verdict:16}{error_of(posterior, truth):6.2f}{seconds:7.1f}"
                f"{seconds / theirs:7.2f}  {works(posterior, new)}"
                f"{'' if ended == method else f'  (by {ended})'}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
