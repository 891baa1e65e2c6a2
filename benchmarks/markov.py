"""Log marginal likelihood of long series and its gradient, beside other libraries.

    uv run --group bench python -m benchmarks.markov

Matern32 at irregular times in order, float64; the gradient is in the logs of lengthscale, variance
and noise. celerite2 approximates Matern32 and has no gradient outside of its own samplers. All in
one process; the ratios are what lasts.
"""

import celerite2
import jax
import jax.numpy as jnp
import numpy as np
import smolgp
import tinygp

import bayeskern as bk
from bayeskern.kernels import Matern32
from benchmarks.timing import best

SIZES = (10_000, 100_000, 1_000_000)
THETA = np.log([0.7, 1.3, 0.01])  # lengthscale, variance, noise


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


def main():
    print(f"{'N':>9} {'':12} {'evidence':>10} {'ratio':>6} {'+ gradient':>11} {'ratio':>6}")
    for n in SIZES:
        rng = np.random.default_rng(0)
        t = np.sort(rng.uniform(0.0, n / 50.0, n))
        y = np.sin(t) + 0.1 * rng.normal(size=n)
        arguments = (jnp.asarray(THETA), jnp.asarray(t), jnp.asarray(y))
        mine = None
        for name, density in (
            ("bayeskern", ours),
            ("tinygp", with_tinygp),
            ("smolgp", with_smolgp),
        ):
            value = best(jax.jit(density), *arguments, repeats=5)
            slope = best(jax.jit(jax.value_and_grad(density)), *arguments, repeats=5)
            mine = mine or (value, slope)
            print(
                f"{n:9,} {name:12} {value:10.4f} {value / mine[0]:6.2f} {slope:11.4f} "
                f"{slope / mine[1]:6.2f}",
                flush=True,
            )
        value = best(with_celerite2(t, y), repeats=5)
        print(f"{n:9,} {'celerite2':12} {value:10.4f} {value / mine[0]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
