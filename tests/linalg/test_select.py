"""Choice of the solver, and its explanation."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from bayeskern import Free
from bayeskern.core import validation
from bayeskern.kernels import (
    RBF,
    Brownian,
    Constant,
    Cosine,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    White,
)
from bayeskern.linalg import SOLVERS, NoisyGram, choose, solver_of
from tests.marks import few, slow

LONG = np.arange(1000.0)[:, None]
GRID = np.stack(np.meshgrid(np.arange(20.0), np.arange(30.0)), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize(
    ("kernel", "X", "solver", "why"),
    [
        (Matern32() + Linear(), LONG, "markov", "not dense: about 1 GFlop and 32 MB"),
        (Matern32(), LONG[:100], "dense", "not markov: about"),
        (RBF(), LONG, "dense", "RBF(lengthscale=1.0, variance=1.0) has no state-space form"),
        (Matern32() + White(), LONG, "markov", "not dense"),
        (White(), LONG, "dense", "white noise alone has no state"),
        (Matern32() * White(), LONG, "dense", "White has a state-space form in sums"),
        (Matern32(), np.ones((1000, 2)), "dense", "there are 2 inputs"),
        (Brownian(start=0.5), LONG, "dense", "a trend starts at 0.5"),
        (Brownian(start=0.0), LONG, "markov", "not dense"),
        (
            Brownian(start=dist.Normal(-9.0, 1.0)),
            LONG,
            "dense",
            "the start of a trend has no value yet",
        ),
        ((Matern52() + Matern12()) ** 4, LONG, "dense", "at least 256 numbers"),
        ((Matern52() + Matern12()) ** 20, LONG, "dense", "at least 256 numbers"),
        (Matern32(dist.LogNormal(0.0, 1.0)), LONG, "markov", "not dense"),
        # A line has a state and features: the cost decides.
        (Linear() + 1.0, LONG, "low_rank", "not markov: about"),
        (Linear(dist.HalfNormal(1.0)), GRID, "low_rank", "not kronecker: Linear"),
        (Linear() * Matern32(), LONG, "markov", "not low_rank: Matern32"),
        (Polynomial(12), GRID, "low_rank", "not markov: there are 2 inputs"),
        (Polynomial(40), GRID, "dense", "not low_rank: about"),
        (RBF(dist.LogNormal(0.0, 1.0)), GRID, "kronecker", "not low_rank: RBF"),
        (
            RBF(),
            GRID[:-1],
            "dense",
            "not kronecker: the grid of 20 x 30 lacks the cell (19.0, 29.0)",
        ),
        (RBF() + Constant(), GRID, "dense", "is not a product of kernels of different columns"),
        (Linear().on([0]) * Linear().on([1]), GRID, "low_rank", "not kronecker: about"),
        (2.0 * RBF().on([0]) * Matern52().on([1]), GRID, "kronecker", "not dense: about 216 M"),
        (Periodic(1.0, Free(1.0)) + Linear(), LONG, "dense", "set it, as in harmonics=20"),
        (Periodic(1.0, dist.HalfNormal(1.0)), LONG, "dense", "set it, as in harmonics=20"),
        (Periodic(1.0, 0.5) * Periodic(0.1, 0.5), LONG, "dense", "1,225 numbers"),
    ],
    ids=lambda value: f"{len(value)} points" if isinstance(value, np.ndarray) else str(value),
)
def test_solver_depends_on_kernel_and_inputs(kernel, X, solver, why):
    choice = choose(kernel, jnp.asarray(X))
    assert choice.solver == solver and choice.error is None
    first, *others = repr(choice).splitlines()
    assert "not neighbors: an approximation, used if no exact solver fits" in others[-1]
    assert first.startswith(f"{solver}: about") and f"for {len(X):,} points" in first
    assert len(others) == len(SOLVERS) - 1
    assert any(why in other for other in others)


@pytest.mark.parametrize(
    ("periodic", "harmonics", "least"),
    [
        (Periodic(1.0, 1.0), 11, "0.884"),
        (Periodic(dist.LogNormal(0.0, 1.0), dist.Uniform(0.5, 2.0)), 17, "0.484"),
        (Periodic(1.0, Free(1.0), harmonics=16), 16, "0.524"),
    ],
    ids=str,
)
def test_error_of_truncated_harmonics_is_stated(periodic, harmonics, least):
    choice = choose((periodic * Matern32()).named("season") + Linear(), LONG)
    assert choice.solver == "markov"
    for part in ("within 1e-10 of the variance", f"{harmonics} harmonics", least, "-inf"):
        assert part in repr(choice)
    assert solver_of(periodic, LONG).harmonics == (harmonics,)


def test_unknown_lengthscale_needs_the_number_of_harmonics():
    solvers = []

    @jax.jit
    def look(ell):
        solvers.append(choose(Periodic(1.0, ell) * Matern32(), LONG).solver)
        solvers.append(choose(Periodic(1.0, ell, harmonics=12) * Matern32(), LONG).solver)
        return ell

    look(1.0)
    assert solvers == ["dense", "markov"]
    with pytest.raises(ValueError, match=r"does not fit: Periodic.* set it, as in harmonics=20"):
        choose(Periodic(1.0, Free(1.0)), LONG, "markov")


def test_solver_by_name():
    assert choose(Matern32(), jnp.asarray(LONG[:10]), "markov").solver == "markov"
    dense = choose(Matern32(), jnp.asarray(LONG), "dense")
    assert dense.solver == "dense" and "solver='dense' was asked for" in repr(dense)


def test_unsuitable_and_unknown_solvers_are_refused():
    with pytest.raises(ValueError, match=r"solver='markov' does not fit: RBF"):
        choose(RBF(), jnp.asarray(LONG), "markov")
    with pytest.raises(ValueError, match=r"Did you mean 'markov'"):
        choose(RBF(), jnp.asarray(LONG), "marcov")


def test_problems_too_large_for_memory_are_refused():
    X = jax.ShapeDtypeStruct((10_000_000, 1), float)
    with pytest.raises(ValueError, match=r"3\.2 PB for 10,000,000 points.*neighbors.*SparseGP"):
        choose(RBF(), X, "dense")
    assert choose(RBF(), X).solver == "neighbors"


@pytest.mark.slow
def test_automatic_approximation_warns(monkeypatch):
    monkeypatch.setattr(validation, "machine_memory", lambda: 2e7)
    X = np.random.default_rng(0).normal(size=(1500, 2))
    with pytest.warns(UserWarning, match="for 1,500 points: 'neighbors', an approximation"):
        assert solver_of(Matern32(), X).name == "neighbors"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solver_of(Matern32(), X, "neighbors").name == "neighbors"


def test_start_of_a_trend_is_unknown_while_tracing():
    solvers = {}

    @jax.jit
    def look(X):
        solvers["trend"] = choose(Brownian(), X).solver
        solvers["matern"] = choose(Matern32(), X).solver
        return X

    look(LONG)
    assert solvers == {"trend": "dense", "matern": "markov"}


def composite(rng, depth):
    """A random kernel of time: sums, products, scales and powers of those with a state, and RBF."""
    if depth == 0:
        scale, variance = rng.uniform(0.5, 3.0), rng.uniform(0.2, 1.5)
        leaf = rng.choice([Matern12, Matern32, Matern52, Cosine, Brownian, Linear, RBF, White])
        if leaf is Brownian:
            return Brownian(variance, -scale)
        if leaf is White:
            return White(variance)
        return Linear(variance, scale) if leaf is Linear else leaf(scale, variance)
    a, b = composite(rng, depth - 1), composite(rng, depth - 1)
    return rng.choice([lambda: a + b, lambda: a * b, lambda: scale_of(a), lambda: a**2])()


def scale_of(kernel):
    return 0.7 * kernel.named("part") + 0.2


@pytest.mark.parametrize("seed", few(range(12), 0))
def test_chosen_solver_matches_the_dense_solver(seed):
    rng = np.random.default_rng(seed)
    kernel, n = composite(rng, 2), 270
    X, r = rng.uniform(0.0, 6.0, (n, 1)), rng.normal(size=n)
    chosen = choose(kernel, jnp.asarray(X)).solver
    found, expected = (
        SOLVERS[name].log_density(NoisyGram(kernel, jnp.asarray(X), 0.3), r)
        for name in (chosen, "dense")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        slow(Matern32(), np.arange(20_000.0)[:, None]),
        slow(Matern12() * Periodic(harmonics=11), np.arange(20_000.0)[:, None]),
        (RBF(), np.arange(1000.0)[:, None]),
        slow(Linear() + 1.0, np.ones((20_000, 2))),
        slow(Polynomial(3), np.ones((4000, 4))),
        (RBF(), GRID),
    ],
    ids=["markov", "season", "dense", "a line", "a cubic", "kronecker"],
)
def test_stated_memory_is_close_to_that_of_xla(kernel, X):
    X, y = jnp.asarray(X), np.ones(len(X))
    choice, solver = choose(kernel, X), solver_of(kernel, X)

    def density(kernel, X, y, solver):
        return solver.log_density(NoisyGram(kernel, X, 0.1), y)

    compiled = jax.jit(jax.value_and_grad(density)).lower(kernel, X, y, solver).compile()
    taken = compiled.memory_analysis().temp_size_in_bytes
    assert taken < choice.cost.bytes < 2.0 * taken
