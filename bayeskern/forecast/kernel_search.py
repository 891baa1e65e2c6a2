"""Search for the kernel of a series among sums and products of simple kernels.

Duvenaud, Lloyd, Grosse, Tenenbaum and Ghahramani (2013), "Structure discovery in nonparametric
regression through compositional kernel search". Here hyperparameters have priors, kernels are
compared by Laplace approximations of their marginal likelihoods, and the search is a beam search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, cast

import numpy as np
import numpyro.distributions as dist
from scipy.special import logsumexp

from bayeskern.core import validation
from bayeskern.core.formatting import aligned, printable
from bayeskern.core.progress import Progress
from bayeskern.core.threads import side_by_side
from bayeskern.forecast.fit.modes import FittedStructure
from bayeskern.forecast.model.kernels import GIVEN, name_seasons
from bayeskern.forecast.model.learned import ANY, learned
from bayeskern.forecast.model.structure import Structure, StructureChoices
from bayeskern.forecast.model.transformation import is_constant, plausible_values
from bayeskern.gp import GPRegression
from bayeskern.kernels import RBF, ChangePoint, Constant, Kernel, Linear, Periodic
from bayeskern.series.reading import read_series
from bayeskern.series.series import Series

# Kinds of simple kernels. A season has a known period, a repeating kernel has an estimated period.
SMOOTH, LINEAR, REPEATING = "smooth", "line", "repeating"
# Smallest number of values of a search; fewer values do not distinguish kernels.
MIN_SEARCHED_VALUES = 20
# Number of last values that are searched; each kernel takes cubic time.
MAX_SEARCHED_VALUES = 500


class Leaf(NamedTuple):
    """A simple kernel.

    Attributes:
        name: Kind of kernel, or name of a season.
        period: Period of a season, or starting value of an estimated period.
    """

    name: str
    period: float = 0.0


Term = tuple[Leaf, ...]


class Expression(NamedTuple):
    """A sum of products of leaves, optionally with a change to another sum.

    Attributes:
        sums: The terms of each sum, each a product of leaves; two sums if there is a change.
        change: Time of the change.
    """

    sums: tuple[tuple[Term, ...], ...]
    change: float = 0.0

    @property
    def size(self) -> int:
        """Number of leaves, plus one if there is a change."""
        return sum(len(term) for terms in self.sums for term in terms) + len(self.sums) - 1

    @property
    def form(self) -> tuple:
        """Hashable form of the expression, without periods and the order of terms."""
        return tuple(
            tuple(sorted(tuple(sorted(leaf.name for leaf in term)) for term in terms))
            for terms in self.sums
        )

    def __str__(self) -> str:
        return ", later ".join(
            " + ".join(" x ".join(leaf.name for leaf in term) for term in terms)
            for terms in self.sums
        )

    def named_terms(self) -> Iterator[tuple[int, str, Term]]:
        """Index of the sum, name and leaves of each term; repeated names are numbered."""
        for i, (prefix, terms) in enumerate(zip(("", "later_"), self.sums, strict=False)):
            counts: Counter[str] = Counter()
            for term in terms:
                name = prefix + "_".join(leaf.name for leaf in term)
                counts[name] += 1
                yield i, name if counts[name] == 1 else f"{name}_{counts[name]}", term


Candidate = tuple[Expression, FittedStructure]


# Smallest posterior probability of a kernel in the table and in `KernelSearch.kernels`.
MIN_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class KernelSearch:
    """Result of `search_kernel`: kernels with their posterior probabilities.

    Attributes:
        fits: The fitted kernels, most probable first.
        expressions: Expression of each kernel.
        tried: Number of fitted kernels; candidate periods of a kernel count once.
        series: The series, or its last 500 values if it is longer; None for X and y.
    """

    fits: tuple[FittedStructure, ...]
    expressions: tuple[Expression, ...]
    tried: int
    series: Series | None = None

    @cached_property
    def probabilities(self) -> dict[str, float]:
        """Expression -> posterior probability of the kernel among all fitted kernels."""
        scores = np.array([*map(_score, zip(self.expressions, self.fits, strict=True))])
        shares = np.exp(scores - logsumexp(scores))
        return dict(zip(map(str, self.expressions), shares.tolist(), strict=True))

    def _probable(self) -> list[tuple[str, float, FittedStructure]]:
        """Expression, probability and fit of kernels with a probability of 1 % or more."""
        pairs = zip(self.probabilities.items(), self.fits, strict=True)
        return [(name, p, f) for (name, p), f in pairs if p >= MIN_SHARE]

    @property
    def kernels(self) -> dict[str, Kernel]:
        """Expression -> kernel with its priors, for probabilities of 1 % or more.

        The kernels describe standardised values at times since the first value of `series`. Passed
        as `kernel` of a `StructuralModel`, they are averaged by marginal likelihood.
        """
        return {
            name: f.choices.kernels[GIVEN]
            for name, _, f in self._probable()
            if f.choices.kernels is not None
        }

    @property
    def model(self) -> GPRegression:
        """Model with the most probable kernel and its priors."""
        return cast("GPRegression", self.fits[0].model)

    def __repr__(self) -> str:
        rows = [("kernel", "share", "log evidence")]
        for name, share, fitted in self._probable():
            rows.append((name, f"{100.0 * share:.0f} %", f"{fitted.log_evidence:.1f}"))
        remarks = self.series.remarks if self.series is not None else ()
        tried = f"of {self.tried} kernels that were tried"
        notes = [f"remark: {printable(remark)}" for remark in remarks]
        return "\n".join([*aligned(rows), "", tried, *notes])


def search_kernel(
    series: Any,
    y: Any = None,
    *,
    season: float | Sequence[float] | None = None,
    changes: bool = False,
    progress: bool = True,
) -> KernelSearch:
    """Search for the kernel of a series among sums and products of simple kernels.

    The simple kernels describe a smooth function, a straight line and periodic functions, whose
    periods are seasons of the calendar or estimated. A smooth function times a season is a season
    of varying shape; a line times a season is a growing season.

    Args:
        series: A series, or a source that `forecast` accepts; or inputs X, (n,) or (n, 1).
        y: Values at X, (n,).
        season: Length of a season in steps, or several lengths; 0 for none. None infers seasons
            from dates, and estimates periods if there are no dates.
        changes: Also search for a time at which one kernel changes to another.
        progress: Show a progress bar.

    Returns:
        The kernels with their posterior probabilities; printed as a table.

    Raises:
        ValueError: If the input cannot be read, the series is constant or too short, or X has
            several columns or more than 500 rows.

    Examples:
        ```python
        search = bk.search_kernel("airline")
        print(search)
        bk.forecast(search.series, 12, model=bk.StructuralModel(kernel=search.kernels))
        ```
    """
    if y is None:
        series = read_series(series)
        if series.observed.sum() > MAX_SEARCHED_VALUES:
            series = series.last(MAX_SEARCHED_VALUES)
        x = series.calendar.positions(series.times[series.observed])
        y, step = series.values[series.observed], series.calendar.step
        seasons = name_seasons(series.calendar, season)
    else:
        x, y, seasons, step = _from_arrays(series, y, season)
        series = None
    x = x - x[0]
    if len(y) < MIN_SEARCHED_VALUES or not x[-1] > 0.0:
        raise ValueError(
            f"got {len(y)} values at {len(np.unique(x))} distinct times; a kernel search needs at "
            f"least {MIN_SEARCHED_VALUES} values and two distinct times."
        )
    if is_constant(y):
        raise ValueError("the series is constant: it has no kernel to search for.")
    _, unusable = plausible_values(y, lambda: [str(row) for row in range(len(y))])
    if unusable:
        raise ValueError(f"{unusable[0]}: leave it out of the search.")
    leaves = [Leaf(SMOOTH), Leaf(LINEAR), *(Leaf(name, period) for name, period in seasons.items())]
    search = _Search(x, y, leaves, season is None and not seasons, changes, step)
    return replace(search.run(progress), series=series)


def _from_arrays(
    X: Any, y: Any, season: float | Sequence[float] | None
) -> tuple[np.ndarray, np.ndarray, dict[str, float], float]:
    """Sorted times, values, seasons by name, and the mean step between times."""
    X = np.asarray(validation.inputs(X)[0])
    if X.shape[1] != 1:
        raise ValueError(
            f"X has {X.shape[1]} columns; the search takes one column. Choose a column, or "
            "compare GPRegression models of several columns by log_evidence."
        )
    if len(X) > MAX_SEARCHED_VALUES:
        raise ValueError(
            f"X has {len(X)} rows; the search takes at most {MAX_SEARCHED_VALUES}: select rows."
        )
    y = np.asarray(validation.targets(y, len(X)))
    order = np.argsort(X[:, 0], kind="stable")
    step = float(np.ptp(X) / max(1, len(X) - 1))
    steps = np.ravel(season if season is not None else [0.0])
    seasons = {f"season_{length:g}": float(length) * step for length in steps if length}
    return X[order, 0], y[order], seasons, step


# Number of kernels that are extended in the next round, and largest number of rounds.
BEAM_SIZE, MAX_EXTENSIONS = 3, 4
# Largest number of factors of a term.
MAX_TERM_FACTORS = 3
# Candidate times of a change, as shares of the time span.
CHANGE_SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
# Width of a change, in steps.
CHANGE_WIDTH_STEPS = 0.5
# Number of candidate periods from each periodogram.
CANDIDATE_PERIODS = 2
# Ratio that two candidate periods must exceed.
MIN_PERIOD_RATIO = 1.2
# Number of harmonics of a period in the periodogram.
HARMONICS = 4
# Number of cosines for the trend, fitted together with a period.
SLOW_COSINES = 10


@dataclass(eq=False)
class _Search:
    """Beam search over the kernels of a series.

    Attributes:
        x: Times since the first value, (n,).
        y: Values, (n,).
        leaves: Simple kernels without estimated periods.
        repeats: True to add repeating kernels, with estimated periods.
        changes: True to search for a change.
        step: Step between times.
    """

    x: np.ndarray
    y: np.ndarray
    leaves: list[Leaf]
    repeats: bool
    changes: bool
    step: float

    def run(self, progress: bool) -> KernelSearch:
        """Extend the best kernels by one leaf at a time, until the beam stays the same."""
        known: dict[tuple, Candidate] = {}
        beam: list[Candidate] = []
        with Progress("kernels", MAX_EXTENSIONS, progress, even=False) as bar:
            for _ in range(MAX_EXTENSIONS):
                self._fit_new([*self._extensions(beam)], known)
                ranked = sorted(known.values(), key=_score, reverse=True)[:BEAM_SIZE]
                bar.advance()
                if beam and [e for e, _ in ranked] == [e for e, _ in beam]:
                    break
                beam = ranked
        if not beam:
            raise ValueError(
                "no kernel has a finite log marginal likelihood: check the times and values."
            )
        ranked = sorted(known.values(), key=_score, reverse=True)
        expressions, fits = zip(*ranked, strict=True)
        return KernelSearch(fits, expressions, len(known))

    def _extensions(self, beam: list[Candidate]) -> Iterator[tuple[Expression, dict[str, float]]]:
        """Expressions with one more leaf or a change, and starting values by name."""
        if not beam:
            for leaf in [*self.leaves, *self._repeating(self.y - np.mean(self.y))]:
                yield Expression((((leaf,),),)), {}
        for expression, fitted in beam:
            with fitted.density.threads():
                mean, _ = fitted.density.conditioned(fitted.mode).moments(self.x)
            residuals = self.y - fitted.scale.back(mean)
            leaves = [*self.leaves, *self._repeating(residuals)]
            extended = []
            for i, terms in enumerate(expression.sums):
                for grown in self._grown(terms, leaves):
                    sums = (*expression.sums[:i], grown, *expression.sums[i + 1 :])
                    extended.append(expression._replace(sums=sums))
            if self.changes and len(expression.sums) == 1:
                extended += [
                    Expression(2 * expression.sums, share * self.x[-1]) for share in CHANGE_SHARES
                ]
            for larger in extended:
                yield larger, fitted.mode_by_name

    def _grown(self, terms: tuple[Term, ...], leaves: list[Leaf]) -> Iterator[tuple[Term, ...]]:
        """Terms with one more leaf, as a new term or as a factor of a term."""
        for leaf in leaves:
            yield (*terms, (leaf,))
        for i, term in enumerate(terms):
            for leaf in leaves if len(term) < MAX_TERM_FACTORS else ():
                # A product of two smooth functions is a smooth function.
                if leaf.name == LINEAR or leaf.name not in {factor.name for factor in term}:
                    # Smooth factors come first, then periodic ones, and lines last.
                    factors = sorted(
                        (*term, leaf), key=lambda leaf: (leaf.name == LINEAR, leaf.name != SMOOTH)
                    )
                    yield (*terms[:i], tuple(factors), *terms[i + 1 :])

    def _fit_new(
        self, extensions: list[tuple[Expression, dict[str, float]]], known: dict[tuple, Candidate]
    ) -> None:
        """Fit expressions whose form is new, and add the best expression of each form."""
        new = [(e, start) for e, start in extensions if e.form not in known]
        fits = side_by_side(lambda pair: self._fit(*pair), new, len(self.y))
        for (expression, _), fitted in zip(new, fits, strict=True):
            candidate = expression, fitted
            if np.isfinite(_score(candidate)):
                best = known.get(expression.form, candidate)
                known[expression.form] = max(best, candidate, key=_score)

    def _fit(self, expression: Expression, start: dict[str, float]) -> FittedStructure:
        kernels = {GIVEN: self._kernel(expression)}
        choices = StructureChoices((GIVEN,), {}, (False,), learned(ANY), kernels=kernels)
        start = self._first_periods(expression) | start
        fitted = FittedStructure.from_values(
            Structure(GIVEN, False), choices, self.x, self.y, start
        )
        return fitted.rescaled() if self.repeats else fitted

    # -- periods ------------------------------------------------------------------------------

    def _repeating(self, residuals: np.ndarray) -> list[Leaf]:
        """Repeating leaves, with periods of the residuals and of the detrended series."""
        if not self.repeats:
            return []
        periods = self._distinct([*self._periods(residuals, 0), *self._periods_beside_trend])
        return [Leaf(REPEATING, period) for period in periods]

    @cached_property
    def _periods_beside_trend(self) -> list[float]:
        return self._periods(self.y, SLOW_COSINES)

    def _distinct(self, periods: Sequence[float]) -> list[float]:
        """Periods whose ratio to all preceding kept periods exceeds `MIN_PERIOD_RATIO`."""
        kept: list[float] = []
        for period in periods:
            ratios = (max(period / other, other / period) for other in kept)
            if all(ratio > MIN_PERIOD_RATIO for ratio in ratios):
                kept.append(float(period))
        return kept

    def _periods(self, y: np.ndarray, slow: int) -> list[float]:
        """Periods whose harmonics explain most of y (n,), after projecting out a trend.

        The trend consists of a constant and `slow` cosines. Several harmonics are fitted together,
        since the spectrum of a periodic function may peak at a half or a third of its period.
        """
        span, n = self.x[-1], len(self.x)
        frequencies = np.linspace(max(1.5, 0.5 * slow) / span, n / (3.0 * span), 4 * n)
        basis = np.cos(np.pi * np.outer(self.x / span, np.arange(slow + 1)))
        Q = np.linalg.qr(basis)[0]
        y = y - Q @ (Q.T @ y)
        angles = 2.0 * np.pi * self.x[:, None] * np.arange(1, HARMONICS + 1)
        angles = frequencies[:, None, None] * angles
        A = np.concatenate([np.cos(angles), np.sin(angles)], axis=2)
        A -= Q @ (Q.T @ A)
        score = y @ A
        gram = np.swapaxes(A, 1, 2) @ A + 1e-6 * n * np.eye(2 * HARMONICS)
        explained = np.sum(score * np.linalg.solve(gram, score[..., None])[..., 0], axis=1)
        return self._distinct(1.0 / frequencies[np.argsort(-explained)])[:CANDIDATE_PERIODS]

    def _first_periods(self, expression: Expression) -> dict[str, float]:
        """Starting values of the estimated periods, by name."""
        start = {}
        prefix = "change." if len(expression.sums) > 1 else ""
        for _, name, term in expression.named_terms():
            # In a product, the name of the factor follows the name of the term.
            path = f"{prefix}{name}" + (".periodic" if len(term) > 1 else "")
            for leaf in term:
                if leaf.name == REPEATING:
                    start.setdefault(f"{path}.period", float(np.log(leaf.period)))
        return start

    # -- kernels ------------------------------------------------------------------------------

    def _kernel(self, expression: Expression) -> Kernel:
        sums: dict[int, Kernel] = {}
        for i, name, term in expression.named_terms():
            factors = [self._leaf(leaf, is_first=j == 0) for j, leaf in enumerate(term)]
            product = reduce(Kernel.__mul__, factors).named(name)
            sums[i] = sums[i] + product if i in sums else product
        if len(sums) == 1:
            return sums[0]
        width = CHANGE_WIDTH_STEPS * self.step
        return ChangePoint(sums[0], sums[1], expression.change, width).named("change")

    def _leaf(self, leaf: Leaf, is_first: bool) -> Kernel:
        """Kernel of a leaf with priors; only the first factor of a product has a variance.

        Prior medians of lengthscales, estimated periods and growth are relative to the time span.
        """
        log_span = np.log(self.x[-1])
        variance = dist.LogNormal(-1.5, 1.0) if is_first else 1.0
        if leaf.name == SMOOTH:
            return RBF(dist.LogNormal(np.log(0.2) + log_span, 1.0), variance)
        if leaf.name == LINEAR:
            growth = dist.LogNormal(np.log(4.0) - 2.0 * log_span, 1.0)
            return Linear(growth, 0.0) + Constant(variance)
        period = leaf.period
        if leaf.name == REPEATING:
            period = dist.LogNormal(np.log(0.12) + log_span, 1.0)
        return Periodic(period, dist.LogNormal(0.9, 1.0), variance)


# Minus the log prior probability of each further leaf, in nats.
LEAF_COST_NATS = float(np.log(4.0))


def _score(candidate: Candidate) -> float:
    """Log posterior probability of a kernel, up to a constant."""
    expression, fitted = candidate
    return fitted.log_evidence - LEAF_COST_NATS * expression.size
