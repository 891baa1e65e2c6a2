"""Choice of the solver for a covariance matrix, with the reasons."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from bayeskern.core import validation
from bayeskern.hyperparameters import get, is_specified, replace, sites
from bayeskern.hyperparameters.values import shape
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.truncation import harmonics_of, with_harmonics
from bayeskern.linalg.dense import DenseSolver
from bayeskern.linalg.factor import AnyArray
from bayeskern.linalg.kronecker.solver import KroneckerSolver
from bayeskern.linalg.low_rank import LowRankSolver
from bayeskern.linalg.markov.solver import MarkovSolver
from bayeskern.linalg.neighbors.solver import NeighborsSolver
from bayeskern.linalg.solver import Cost, Fits, Noise, NoisyGram, Refused, Solver

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
# For fewer points the dense solver is fast enough, and solver="auto" means solver="dense".
MIN_POINTS_FOR_CHOICE = 256


class TooLargeError(ValueError):
    """The solver needs more memory than this machine has."""


class Choice(NamedTuple):
    """Chosen solver for a kernel at n inputs, its cost, and the reasons.

    Attributes:
        solver: Name of the solver.
        n: Number of inputs.
        cost: Approximate cost of an evaluation with its gradient.
        others: (name, reason) for each of the other solvers.
        error: Error bound of the covariances in words; None if they are exact.
        loss: Expected loss of log density per point by an approximation. 0 from `choose`, which
            does not know the values of the hyperparameters.
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


def choose(
    kernel: Kernel,
    X,
    solver: str = "auto",
    noise: Noise = 0.0,
    observed: AnyArray | None = None,
) -> Choice:
    """Choose the solver of k(X) + noise I.

    Args:
        kernel: The kernel; hyperparameters to be inferred are unknown numbers.
        X: Inputs, shape (n, d), traced or not.
        solver: Name of a solver; "auto" for the fastest that fits.
        noise: Noise variance, a number or an array of shape (n,), or its prior; or a noise
            covariance, shape (n, n).
        observed: Mask of the observed rows, shape (n,); None for all rows.

    Returns:
        The choice, with its reasons.

    Raises:
        ValueError: The name of the solver is unknown, or the solver does not fit.
        TooLargeError: The solver needs more memory than this machine has.
    """
    validation.one_of("solver", solver, ("auto", *SOLVERS))
    structure = structure_of(kernel)
    answers = {
        name: _applicability(candidate, structure, X, noise, observed)
        for name, candidate in SOLVERS.items()
    }
    fits = {name: answer for name, answer in answers.items() if isinstance(answer, Fits)}
    reasons = {n: answer.reason for n, answer in answers.items() if isinstance(answer, Refused)}
    if solver == "auto":
        reasons |= {name: _why_not(name, fit) for name, fit in fits.items()}
        verified = {name: fit.cost for name, fit in fits.items() if fit.unverified is None}
        solver = "dense" if X.shape[0] < MIN_POINTS_FOR_CHOICE else _best(verified)
    else:
        reasons |= dict.fromkeys(fits, f"solver={solver!r} was asked for")
    if solver not in fits:
        raise ValueError(f"solver={solver!r} does not fit: {reasons[solver]}. Use solver='auto'.")
    others = tuple((name, reasons[name]) for name in SOLVERS if name != solver)
    fit = fits[solver]
    choice = Choice(solver, X.shape[0], fit.cost, others, fit.accuracy)
    if not _in_memory(choice.cost):
        raise TooLargeError(_memory_message(choice))
    return choice


def solver_of(
    kernel: Kernel,
    X,
    solver: str | Solver = "auto",
    noise: Noise = 0.0,
    observed: AnyArray | None = None,
) -> Solver:
    """Choose and prepare a solver; return a prepared solver unchanged.

    Args:
        kernel: The kernel.
        X: Inputs, shape (n, d), traced or not.
        solver: Name of a solver, "auto", or a prepared solver.
        noise: Noise variance, a number or an array of shape (n,), or its prior; or a noise
            covariance, shape (n, n).
        observed: Mask of the observed rows, shape (n,); None for all rows.

    Returns:
        The solver, prepared for X.

    Raises:
        ValueError: As `choose`, or a prepared solver does not fit.

    Warns:
        UserWarning: solver="auto" chose an approximation.
    """
    if isinstance(solver, Solver):
        answer = _applicability(solver, kernel, X, noise, observed)
        if isinstance(answer, Refused):
            raise ValueError(
                f"the prepared {solver.name} solver does not fit: {answer.reason}. "
                "Prepare a solver for these inputs."
            )
        return solver
    if solver == "auto" and X.shape[0] < MIN_POINTS_FOR_CHOICE:
        name = "dense"
    else:
        name = choose(kernel, X, solver, noise, observed).solver
    if SOLVERS[name].approximate and solver == "auto":
        warnings.warn(
            f"no exact solver fits in memory for {X.shape[0]:,} points: {name!r}, an "
            "approximation, is used. explain() of the GaussianProcess estimates its loss; set "
            f"solver={name!r} to silence this warning.",
            stacklevel=3,
        )
    return SOLVERS[name].prepare(structure_of(kernel), X)


def explain(solver: Solver, C: NoisyGram) -> Choice:
    """Choice of the solver in use, with its error at the kernel's hyperparameters.

    Args:
        solver: A solver, prepared for the inputs.
        C: The covariance matrix.
    """
    choice = choose(C.kernel, C.X, "auto", C.noise, C.observed)
    if choice.solver != solver.name:
        choice = choose(C.kernel, C.X, solver.name, C.noise, C.observed)
    answer = solver.applicability(*C)
    errors = [answer.accuracy if isinstance(answer, Fits) else None]
    if (by_quadrature := C.kernel.quadrature_error(C.X)) > 0.0:
        errors.append(f"within {by_quadrature:.1g} of the largest variance, by quadrature")
    error = "; ".join(filter(None, errors)) or None
    return choice._replace(error=error, loss=solver.error_estimate(C))


def _applicability(solver: Solver, kernel: Kernel, X, noise, observed) -> Fits | Refused:
    if len(shape(noise)) == 2 and not solver.takes_noise_matrix:
        return Refused("the noise is correlated between rows")
    return solver.applicability(kernel, X, noise, observed)


def _best(costs: dict[str, Cost]) -> str:
    """Name of the fastest solver that fits in memory; exact solvers come first.

    If no solver fits in memory, the name of the exact solver that needs the least.
    """
    exact = {name: cost for name, cost in costs.items() if not SOLVERS[name].approximate}
    fitting = {name: cost for name, cost in costs.items() if _in_memory(cost)}
    candidates = {name: cost for name, cost in fitting.items() if name in exact} or fitting
    if not candidates:
        return min(exact, key=lambda name: exact[name].bytes)
    return min(candidates, key=lambda name: candidates[name].operations)


def _in_memory(cost: Cost) -> bool:
    return cost.bytes <= validation.machine_memory()


def _why_not(name: str, fit: Fits) -> str:
    if fit.unverified is not None:
        return fit.unverified
    if SOLVERS[name].approximate:
        return "an approximation, used if no exact solver fits in memory or on request"
    return _costs(fit.cost)


def structure_of(kernel: Kernel) -> Kernel:
    """The kernel with NaN for every hyperparameter without a value.

    The numbers of harmonics, which depend on the priors, are set first.
    """
    kernel = with_harmonics(kernel, harmonics_of(kernel))
    paths = [site.path for site in sites(kernel) if is_specified(get(kernel, site.path))]
    return replace(kernel, paths, [jnp.full(shape(get(kernel, path)), jnp.nan) for path in paths])


def _costs(cost: Cost) -> str:
    return f"about {_amount(cost.operations)}Flop and {_amount(cost.bytes)}B"


def _amount(number: float) -> str:
    """A number with a unit prefix, such as "2.5 G"."""
    thousands = max(0, min(5, int(np.log10(max(number, 1.0)) // 3)))
    return f"{number / 1000.0**thousands:.3g} {' kMGTP'[thousands].strip()}"


def _memory_message(choice: Choice) -> str:
    others = " ".join(f"Not {name}: {reason}." for name, reason in choice.others)
    needed, memory = _amount(choice.cost.bytes), _amount(validation.machine_memory())
    return (
        f"the {choice.solver} solver takes about {needed}B for {choice.n:,} points, and this "
        f"machine has {memory}B. {others} Use fewer points, a kernel of one input with a "
        "state-space form (Matern, trends, Cosine, their sums and products), a full grid with a "
        "product kernel, solver='neighbors', which conditions each point on its nearest "
        "neighbours, or SparseGP with inducing points."
    )
