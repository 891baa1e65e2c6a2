"""Log marginal likelihood of long series and its gradient, beside other libraries.

    uv run --group bench python -m benchmarks.markov

Irregular times in order, float64; the gradient is in the logs of the hyperparameters and the noise.

- Matern32. celerite2 approximates it and has no gradient outside of its own samplers.
- A season that changes slowly, Matern32 x Periodic by 11 harmonics, with a Matern32 and a trend, a
  Matern52 of a long lengthscale: a state of 51 numbers. smolgp keeps s x s matrices for every time,
  and is left out where its gradient would take more memory than there is.

All in one process; the ratios are what lasts.
"""

import jax
import jax.numpy as jnp
import numpy as np

import bayeskern as bk
from bayeskern.core.validation import machine_memory
from bayeskern.kernels import Matern32, Matern52, Periodic
from benchmarks.table import OURS, Row, peer, show
from benchmarks.timing import best

celerite2, smolgp, tinygp = map(peer, ("celerite2", "smolgp", "tinygp"))

SIZES = (10_000, 100_000, 1_000_000)
THETA = np.log([0.7, 1.3, 0.01])  # lengthscale, variance, noise
SEASON_SIZES = (1_000, 10_000, 100_000)
# lengthscale, variance, period and lengthscale within it, noise
SEASON = np.log([30.0, 1.3, 1.1, 1.0, 0.01])
HARMONICS = 11


def ours(theta, t, y):
    scale, variance, noise = jnp.exp(theta)
    return bk.GaussianProcess(Matern32(scale, variance), t, noise, solver="markov").log_prob(y)


def with_tinygp(theta, t, y):
    scale, variance, noise = jnp.exp(theta)
    kernel = tinygp.kernels.quasisep.Matern32(scale=scale, sigma=jnp.sqrt(variance))
    return tinygp.GaussianProcess(kernel, t, diag=noise).log_probability(y)


def with_smolgp(theta, t, y):
    scale, variance, noise = jnp.exp(theta)
    kernel = smolgp.kernels.Matern32(scale=scale, sigma=jnp.sqrt(variance))
    return smolgp.GaussianProcess(kernel, t, noise=noise).log_probability(y)


def with_celerite2(t, y):
    scale, variance, noise = np.exp(THETA)
    term = celerite2.terms.Matern32Term(sigma=np.sqrt(variance), rho=scale)

    def evidence():
        process = celerite2.GaussianProcess(term)
        process.compute(t, diag=np.full_like(t, noise), check_sorted=False)
        return process.log_likelihood(y)

    return evidence


def season(theta, t, y):
    scale, variance, period, ell, noise = jnp.exp(theta)
    slowly = Matern32(scale, variance) * Periodic(period, ell, harmonics=HARMONICS)
    kernel = slowly + Matern32(0.1 * scale) + Matern52(10.0 * scale)
    return bk.GaussianProcess(kernel, t, noise, solver="markov").log_prob(y)


def season_with_smolgp(theta, t, y):
    scale, variance, period, ell, noise = jnp.exp(theta)
    slowly = smolgp.kernels.Matern32(scale, sigma=jnp.sqrt(variance))
    slowly *= smolgp.kernels.ExpSineSquared(period, 2.0 / ell**2, order=HARMONICS + 1)
    kernel = slowly + smolgp.kernels.Matern32(0.1 * scale) + smolgp.kernels.Matern52(10.0 * scale)
    return smolgp.GaussianProcess(kernel, t, noise=noise).log_probability(y)


def data(n):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, n / 50.0, n))
    return t, np.sin(t) + 0.1 * rng.normal(size=n)


def compare(task, n, theta, densities):
    """The seconds of evidence and gradient by each of the libraries."""
    t, y = data(n)
    arguments = (jnp.asarray(theta), jnp.asarray(t), jnp.asarray(y))
    for name, density in densities.items():
        slope = jax.jit(jax.value_and_grad(density)).lower(*arguments).compile()
        memory = slope.memory_analysis().temp_size_in_bytes
        if memory > 0.5 * machine_memory():
            print(f"{n:9,} {name:12} would take {memory / 1e9:.0f} GB")
            continue
        yield Row(
            task, n, name, *(best(f, *arguments, repeats=5) for f in (jax.jit(density), slope))
        )


def rows():
    task = "Matern32, irregular times: evidence"
    libraries = {OURS: ours, "tinygp": tinygp and with_tinygp, "smolgp": smolgp and with_smolgp}
    for n in SIZES:
        yield from compare(task, n, THETA, {k: v for k, v in libraries.items() if v})
        if celerite2:
            yield Row(task, n, "celerite2", best(with_celerite2(*data(n)), repeats=5))
    task = "a season that changes slowly, a Matern32, and a trend: evidence"
    libraries = {OURS: season, "smolgp": smolgp and season_with_smolgp}
    for n in SEASON_SIZES:
        yield from compare(task, n, SEASON, {k: v for k, v in libraries.items() if v})


if __name__ == "__main__":
    show(rows())
