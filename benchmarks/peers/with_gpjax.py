"""GPJax's dense log marginal likelihood with its gradient: see benchmarks/elsewhere.py."""

import sys
import time

import equinox as eqx
import gpjax
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def main(file, repeats):
    given = np.load(file)
    data = gpjax.Dataset(X=jnp.asarray(given["X"]), y=jnp.asarray(given["y"])[:, None])
    theta = jnp.exp(given["theta"])
    kernel = gpjax.kernels.RBF(lengthscale=theta[:4], variance=theta[4])
    # Without its jitter, the same number as all others.
    prior = gpjax.gps.Prior(kernel, gpjax.mean_functions.Zero(), jitter=0.0)
    likelihood = gpjax.likelihoods.Gaussian(obs_stddev=jnp.sqrt(theta[5]))
    posterior = prior * likelihood
    evidence = eqx.filter_jit(eqx.filter_value_and_grad(gpjax.objectives.conjugate_mll))
    seconds = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        value, _ = jax.block_until_ready(evidence(posterior, data))
        seconds.append(time.perf_counter() - start)
    print(float(value), min(seconds[1:]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
