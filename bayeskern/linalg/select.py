"""Which solver a covariance matrix takes: seen from the kernel and its inputs, and told."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from bayeskern.core import validation
from bayeskern.hyperparameters import is_specified
from bayeskern.hyperparameters.names import get, replace, sites
from bayeskern.hyperparameters.values import shape
from bayeskern.kernels.truncation import harmonics_of, with_harmonics
from bayeskern.linalg.dense import DenseSolver
from bayeskern.linalg.factor import Cost, Solver
from bayeskern.linalg.kronecker.solver import KroneckerSolver
from bayeskern.linalg.low_rank import LowRankSolver
from bayeskern.linalg.markov.solver import MarkovSolver
from bayeskern.linalg.neighbors.solver import NeighborsSolver

SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        MarkovSolver(),
        LowRankSolver(),
        KroneckerSolver(),
        DenseSolver(),
        NeighborsSolver(),
    )
}
# For fewer points no solver is faster than the dense one by so much that it would be felt.
FEW = 256


class TooLargeError(ValueError):
    """No solver that fits does with the memory of this machine."""


class Choice(NamedTuple):
    """The solver of a kernel at n inputs, what it costs, and what became of the others.

    Attributes:
        solver: Its name.
        n: How many inputs.
        cost: About what an evaluation with its gradient takes.
        others: (name, why it was not taken) of each of the others.
        error: How near its covariances are to those of the kernel; None if they are these.
        loss: What the log density loses to an approximation, on average per point; `choose`, which
            has no numbers, leaves it 0.
    """

    solver: str
    n: int
    cost: Cost
    others: tuple[tuple[str, str], ...]
    error: str | None = None
    loss: float = 0.0

    def __repr__(self) -> str:
        loss = f"; it loses about {self.loss:.2g} of log density per point" if self.loss else ""
        lines = [f"{self.solver}: {_costs(self.cost)} for {self.n:,} points{loss}"]
        lines += [] if self.error is None else [f"  covariances {self.error}"]
        lines += [f"  not {name}: {reason}" for name, reason in self.others]
        return "\n".join(lines)


def choose(kernel, X, solver: str = "auto", noise=0.0, observed=None) -> Choice:
    """Choose the solver of k(X) + noise I.

    Args:
        kernel: The kernel; hyperparameters that are to be inferred count as unknown numbers.
        X: Inputs, shape (n, d), traced or not.
        solver: Its name where it is not to be chosen.
        noise: The noise variance, a number or an array of shape (n,), or its prior.
        observed: Which rows count, shape (n,), or None for all.

    Raises:
        ValueError: If the solver is not known, or does not fit.
        TooLargeError: If it asks for more memory than there is.
    """
    n, structure = X.shape[0], _structure(kernel)
    obstacles = {
        name: one.misfit(X, noise, observed) or one.obstacle(structure, X)
        for name, one in SOLVERS.items()
    }
    if solver == "auto":
        fitting = [name for name in SOLVERS if obstacles[name] is None]
        obstacles |= {name: SOLVERS[name].doubt(structure, X) for name in fitting}
        costs = {
            name: SOLVERS[name].cost(structure, X) for name in fitting if obstacles[name] is None
        }
        solver = "dense" if n < FEW else _best(costs)
        why = {name: _why_not(name, cost) for name, cost in costs.items()}
    else:
        validation.one_of("solver", solver, ("auto", *SOLVERS))
        why = dict.fromkeys(SOLVERS, f"solver={solver!r} was asked for")
    if obstacles[solver] is not None:
        raise ValueError(
            f"solver={solver!r} does not fit: {obstacles[solver]}. Leave solver='auto'."
        )
    others = tuple((m, obstacles[m] or why[m]) for m in SOLVERS if m != solver)
    cost, error = SOLVERS[solver].cost(structure, X), SOLVERS[solver].error(structure)
    choice = Choice(solver, n, cost, others, error)
    if not _is_held(choice.cost):
        raise TooLargeError(_too_much(choice))
    return choice


def solver_of(kernel, X, solver: str | Solver = "auto", noise=0.0, observed=None) -> Solver:
    """The solver that `choose` takes, prepared for X; one that is prepared stays as it is.

    Raises:
        ValueError: As `choose`, and if one that is prepared does not fit.

    Warns:
        UserWarning: If an approximation was chosen, which was not asked for.
    """
    if isinstance(solver, Solver):
        misfit = solver.misfit(X, noise, observed)
        if misfit is not None:
            raise ValueError(
                f"the prepared {solver.name} solver does not fit: {misfit}. "
                "Prepare another for these inputs."
            )
        return solver
    # Few points are not looked at.
    few = solver == "auto" and X.shape[0] < FEW
    name = "dense" if few else choose(kernel, X, solver, noise, observed).solver
    if SOLVERS[name].approximate and solver == "auto":
        warnings.warn(
            f"no exact solver fits in memory for {X.shape[0]:,} points, so that {name!r} is taken, "
            "an approximation. explain() of the GaussianProcess says what it loses; ask for it, "
            f"solver={name!r}, to be spared this warning.",
            stacklevel=3,
        )
    return SOLVERS[name].prepare(_structure(kernel), X)


def _best(costs: dict[str, Cost]) -> str:
    """The fastest exact solver that memory holds; then one near it; else the smallest exact one."""
    exact = {name: cost for name, cost in costs.items() if not SOLVERS[name].approximate}
    held = {name: cost for name, cost in costs.items() if _is_held(cost)}
    among = {name: cost for name, cost in held.items() if name in exact} or held
    if not among:
        return min(exact, key=lambda name: exact[name].bytes)
    return min(among, key=lambda name: among[name].operations)


def _is_held(cost: Cost) -> bool:
    return cost.bytes <= validation.machine_memory()


def _why_not(name: str, cost: Cost) -> str:
    if SOLVERS[name].approximate:
        return "an approximation, taken where no exact solver fits in memory or where asked for"
    return _costs(cost)


def _structure(kernel):
    """The kernel with a number, which is none, for every hyperparameter that has no value yet.

    How many harmonics are enough is still seen from the priors.
    """
    kernel = with_harmonics(kernel, harmonics_of(kernel))
    unknown = [site for site in sites(kernel) if is_specified(get(kernel, site.path))]
    paths = [site.path for site in unknown]
    return replace(kernel, paths, [jnp.full(shape(get(kernel, path)), jnp.nan) for path in paths])


def _costs(cost: Cost) -> str:
    return f"about {_amount(cost.operations)}Flop and {_amount(cost.bytes)}B"


def _amount(number: float) -> str:
    """A number by its size: 2.5 G."""
    thousands = max(0, min(5, int(np.log10(max(number, 1.0)) // 3)))
    return f"{number / 1000.0**thousands:.3g} {' kMGTP'[thousands].strip()}"


def _too_much(choice: Choice) -> str:
    others = " ".join(f"{name} does not do: {reason}." for name, reason in choice.others)
    taken, memory = _amount(choice.cost.bytes), _amount(validation.machine_memory())
    return (
        f"the {choice.solver} solver takes about {taken}B for {choice.n:,} points, and this "
        f"machine has {memory}B. {others} Take fewer points, a kernel of one input with a state "
        "(Matern, trends, Cosine, their sums and products), a full grid with a product kernel, "
        "solver='neighbors', which conditions each point on those near it alone, or SparseGP with "
        "inducing points."
    )
