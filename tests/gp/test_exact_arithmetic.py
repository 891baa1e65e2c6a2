"""Every solver against 60-digit arithmetic, on problems of very different scales.

What differs by more than the condition of the matrix allows is a mistake of the solver.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import bayeskern as bk
from bayeskern.linalg import inverse_and_logdet, lapack
from tests.gp.random_processes import KERNELS, NOISES, Problem
from tests.marks import few, slow

ALL_CASES = [
    (solver, kernel, noise)
    for solver, kernels in KERNELS.items()
    for kernel in range(len(kernels))
    for noise in (NOISES if solver != "kronecker" else ("number",))
]
# Every solver and every form of the noise; kernels that compile fast.
CASES = [
    ("dense", 0, "number"),
    ("dense", 1, "each"),
    ("dense", 2, "masked"),
    ("dense", 3, "each"),
    ("markov", 0, "each"),
    ("low_rank", 0, "each"),
    ("low_rank", 1, "masked"),
    ("kronecker", 0, "number"),
    ("neighbors", 0, "each"),
]
# At least 200 problems by default, and 20,000 at night.
PROBLEMS, NIGHTLY_PROBLEMS = -(-200 // len(CASES)), -(-20_000 // len(ALL_CASES))
DRAWS = 200
# Errors of moments of draws in standard errors.
Z = 6.0


def excesses(problem):
    """Largest error of each quantity in units of its bound."""
    process = bk.GaussianProcess(
        problem.pair.kernel, problem.X, problem.noise, mask=problem.mask, solver=problem.solver
    )
    conditioned = process.condition(problem.y)
    latent = conditioned.predict(problem.X_new, latent=True)
    loo, exact, rows = conditioned.loo(), problem.exact, problem.rows
    mean, variance = exact.leave_one_out()
    return {
        "mean": exact.mean().excess(latent.mean),
        "sd": exact.variance().excess(latent.sd**2),
        "covariance": exact.covariance().excess(conditioned.covariance(problem.X_new)),
        "log density": exact.log_density().excess(process.log_prob(problem.y)),
        "leave-one-out mean": mean.excess(np.asarray(loo.mean)[rows]),
        "leave-one-out variance": variance.excess(np.asarray(loo.variance)[rows]),
        "draws": excess_of_draws(exact, latent.sample(DRAWS, seed=0)),
    }


def excess_of_draws(exact, draws):
    """Largest error of the moments of draws in units of `Z` standard errors."""
    mean, covariance = exact.mean(), exact.covariance()
    sd = np.sqrt(covariance.value.diagonal())
    pairs = np.outer(sd, sd)
    of_mean = Z * sd / np.sqrt(DRAWS) + mean.bound
    # The standard error of a sample covariance is at most sqrt(2 / DRAWS) sd_i sd_j.
    of_covariance = Z * np.sqrt(2.0 / DRAWS) * pairs + covariance.bound
    errors = np.abs(draws.mean(0) - mean.value) / of_mean
    cross = np.abs(np.cov(draws.T) - covariance.value) / of_covariance
    return max(errors.max(), cross.max())


def excesses_of_ridge(problem):
    """Largest errors of kernel ridge regression, the same equations with noise alpha / weight."""
    each = np.ndim(problem.noise) > 0
    alpha, weight = (1.0, 1.0 / problem.noise) if each else (problem.noise, None)
    ridge = bk.KernelRidge(problem.pair.kernel, alpha=alpha, solver=problem.solver)
    ridge.fit(problem.X, problem.y, sample_weight=weight)
    mean, sd = ridge.predict(problem.X_new, return_std=True)
    exact = problem.exact
    loo, _ = exact.leave_one_out()
    return {
        "mean": exact.mean().excess(mean),
        "sd": exact.variance(noise=alpha).excess(sd**2),
        "leave-one-out": loo.excess(ridge.loo_predict()),
    }


def excesses_of_inverse(problem):
    """Largest errors of the inverse behind the gradient of the dense log density, by LAPACK."""
    C, y = problem.matrix().dense(), jnp.asarray(problem.y[problem.rows])
    inverse, weights, logdet = inverse_and_logdet(C, y)
    exact = problem.exact
    return {
        "inverse": exact.inverse().excess(inverse),
        "weights": exact.weights().excess(weights),
        "log determinant": exact.logdet().excess(logdet),
    }


def check(solver, kernel, noise, seeds, excesses=excesses):
    solved = 0
    for seed in seeds:
        problem = Problem(solver, kernel, noise, seed)
        if not problem.exact.is_solvable:
            continue
        solved += 1
        found = excesses(problem)
        too_large = {name: excess for name, excess in found.items() if not excess < 1.0}
        assert not too_large, f"seed {seed}: errors in units of their bounds {too_large}"
    # The problems are hard, not impossible.
    assert solved > len(seeds) / 2


@pytest.mark.parametrize(("solver", "kernel", "noise"), CASES)
def test_every_number_is_right(solver, kernel, noise):
    check(solver, kernel, noise, range(PROBLEMS))


@pytest.mark.slow
def test_two_precise_values_at_the_same_time():
    # The filter added 1 / noise to the information of later values and took it out again.
    check("markov", 0, "masked", [106])


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "kernel"), [slow("dense", 0), ("dense", 3), ("markov", 0)])
@pytest.mark.parametrize("noise", few(["number", "each"], "each"))
def test_kernel_ridge_is_right(solver, kernel, noise):
    check(solver, kernel, noise, range(PROBLEMS), excesses_of_ridge)


@pytest.mark.slow
@pytest.mark.parametrize("by_lapack", [True, False])
@pytest.mark.parametrize("kernel", few(range(len(KERNELS["dense"])), 3))
def test_inverse_is_right(kernel, by_lapack, monkeypatch):
    monkeypatch.setattr(lapack, "MIN_CALLBACK_SIZE", 1 if by_lapack else 1_000)
    check("dense", kernel, "each", range(PROBLEMS), excesses_of_inverse)


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "kernel", "noise"), ALL_CASES)
def test_every_number_is_right_at_night(solver, kernel, noise):
    check(solver, kernel, noise, range(PROBLEMS, PROBLEMS + NIGHTLY_PROBLEMS))
