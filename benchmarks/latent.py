"""Gaussian-process classification beside scikit-learn's, both by Laplace's approximation.

    uv run python -m benchmarks.latent

The log evidence and its derivatives, a fit at fixed hyperparameters with its predictions, and a fit
that finds them, from the same start.
"""

import time

import equinox as eqx
import jax
import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier, kernels

import bayeskern as bk
from bayeskern.kernels import RBF
from benchmarks.timing import best

NEW = 1000


def data(n: int):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    chance = 1.0 / (1.0 + np.exp(-4.0 * np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1])))
    return X, rng.random(n) < chance


def evidence(n: int):
    """One log evidence with its derivatives, compiled."""
    X, y = data(n)
    theirs = GaussianProcessClassifier(
        kernels.ConstantKernel(4.0) * kernels.RBF(0.8), optimizer=None
    ).fit(X, y)
    theta = theirs.base_estimator_.kernel_.theta

    @eqx.filter_jit
    def ours(log, X, y):
        kernel = RBF(jax.numpy.exp(log[1]), variance=jax.numpy.exp(log[0]))
        return bk.LatentProcess(kernel, X, bk.likelihoods.Bernoulli()).log_prob(y)

    both = eqx.filter_jit(lambda log: jax.value_and_grad(ours)(log, X, y))
    value, slope = both(jax.numpy.asarray(theta))
    wanted, wanted_slope = theirs.log_marginal_likelihood(theta, eval_gradient=True)
    np.testing.assert_allclose(value, wanted, rtol=1e-6)
    np.testing.assert_allclose(slope, wanted_slope, rtol=1e-4, atol=1e-4)
    mine = best(lambda: jax.block_until_ready(both(jax.numpy.asarray(theta))))
    other = best(lambda: theirs.log_marginal_likelihood(theta, eval_gradient=True))
    print(f"evidence and derivatives, n = {n:5}: {mine:6.3f} s, {mine / other:.2f} x scikit-learn")


def fixed(n: int):
    """Conditioned at fixed hyperparameters, and the chances at new points."""
    X, y = data(n)
    new = data(n + NEW)[0][:NEW]
    given = RBF(0.8, variance=4.0)

    def ours():
        process = bk.LatentProcess(given, X, bk.likelihoods.Bernoulli())
        return process.condition(y.astype(float)).predict(new).probabilities

    def theirs():
        kernel = kernels.ConstantKernel(4.0) * kernels.RBF(0.8)
        return GaussianProcessClassifier(kernel, optimizer=None).fit(X, y).predict_proba(new)

    apart = np.abs(ours() - theirs()).max()
    mine, other = best(ours), best(theirs)
    print(
        f"fixed, with {NEW} predictions, n = {n:5}: {mine:6.3f} s, {mine / other:.2f} x "
        f"scikit-learn (chances at most {apart:.4f} apart)"
    )


def optimised(n: int):
    """The maximum of the evidence; ours the first time, compiling, and again on other data."""
    X, y = data(n)
    model = bk.LatentGP(
        RBF(bk.Free(0.8), variance=bk.Free(4.0)), bk.likelihoods.Bernoulli(), integrate=True
    )

    def ours(shift):
        return bk.infer(model, X + shift, y, method=bk.MLE(starts=1), progress=False)

    started = time.perf_counter()
    posterior = ours(0.0)
    first = time.perf_counter() - started
    again = best(lambda: ours(1e-3), repeats=1)
    started = time.perf_counter()
    theirs = GaussianProcessClassifier(kernels.ConstantKernel(4.0) * kernels.RBF(0.8)).fit(X, y)
    other = time.perf_counter() - started
    log = np.log([posterior.draws["variance"].item(), posterior.draws["lengthscale"].item()])
    gap = theirs.log_marginal_likelihood(log) - theirs.log_marginal_likelihood_value_
    print(
        f"optimised, n = {n:5}: first {first:5.1f} s, {first / other:.2f} x, again {again:5.1f} s, "
        f"{again / other:.2f} x scikit-learn (evidence {gap:+.4f})"
    )


def main():
    jax.config.update("jax_enable_compilation_cache", False)
    for n in (500, 2000):
        evidence(n)
        fixed(n)
        optimised(n)


if __name__ == "__main__":
    main()
