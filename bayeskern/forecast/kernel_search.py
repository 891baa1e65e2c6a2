"""A search for the kernel of a series among sums and products of a few simple ones.

Duvenaud, Lloyd, Grosse, Tenenbaum and Ghahramani (2013), "Structure discovery in nonparametric
regression through compositional kernel search", with priors on the hyperparameters, so that Laplace
evidences weigh the kernels against one another, and a beam in place of the best one alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpyro.distributions as dist
from scipy.special import logsumexp

from bayeskern.core import validation
from bayeskern.core.formatting import aligned
from bayeskern.core.progress import Progress
from bayeskern.core.threads import side_by_side
from bayeskern.forecast.data.reading import read_series
from bayeskern.forecast.data.series import Series
from bayeskern.forecast.fit.modes import Fitted
from bayeskern.forecast.model.kernels import GIVEN, name_seasons
from bayeskern.forecast.model.learned import ANY, learned
from bayeskern.forecast.model.structure import Choices, Structure
from bayeskern.forecast.model.transformation import is_constant, ordinary
from bayeskern.gp import GPRegression
from bayeskern.kernels import RBF, ChangePoint, Constant, Kernel, Linear, Periodic

# The kinds of simple kernels. A season has a known period; what repeats has one that is looked for.
SMOOTH, LINE, REPEATING = "smooth", "line", "repeating"
# What the names of terms after a change begin with.
LATER = "later_"
# Fewer values tell no kernel from another; of more the last are looked at: each kernel takes cubic
# time.
FEWEST_VALUES, MOST_VALUES = 20, 500
# The log prior probability that each leaf more costs.
LEAF_COST = float(np.log(4.0))
# Kernels that go on into the next round, the most rounds, the most factors of a term.
BEAM, ROUNDS, FACTORS = 3, 4, 3
# Kernels with a smaller share are left out of the average.
LEAST_SHARE = 0.01
# Where a change is looked for, in shares of the span, and how wide it is, in steps.
CHANGES, STEEP = (0.2, 0.35, 0.5, 0.65, 0.8), 0.5
# How many periods are tried from each look at what is left, and how far apart they are, as a ratio;
# the harmonics that a period shows by, and the slow cosines beside which it may.
PERIODS, APART, HARMONICS, SLOW = 2, 1.2, 4, 10
# The prior of a lengthscale, of a period and of the growth of a line, in shares of the span.
LENGTHSCALE, PERIOD, GROWTH = np.log(0.2), np.log(0.12), np.log(4.0)
# Those of the variances, and of the lengthscale of a repeating term.
VARIANCE, SEASON_LENGTHSCALE = -1.5, 0.9


class Leaf(NamedTuple):
    """A simple kernel: its kind, or the name of its season, and the period that it has."""

    name: str
    period: float = 0.0


class Expression(NamedTuple):
    """A sum of products of leaves; from `change` on another one, if there is any."""

    terms: tuple[tuple[Leaf, ...], ...]
    after: tuple[tuple[Leaf, ...], ...] = ()
    change: float = 0.0

    @property
    def size(self) -> int:
        """How many leaves it has."""
        return sum(map(len, (*self.terms, *self.after))) + bool(self.after)

    @property
    def form(self) -> tuple:
        """What tells it from others, whatever their periods and order are."""
        return _form(self.terms), _form(self.after)

    def __str__(self) -> str:
        if not self.after:
            return _in_words(self.terms)
        return f"{_in_words(self.terms)}, later {_in_words(self.after)}"


def _form(terms) -> tuple:
    return tuple(sorted(tuple(sorted(leaf.name for leaf in term)) for term in terms))


def _in_words(terms) -> str:
    return " + ".join(" x ".join(leaf.name for leaf in term) for term in terms)


@dataclass(frozen=True, eq=False)
class KernelSearch:
    """Kernels that explain a series, by their evidence. Returned by `search_kernel`.

    Attributes:
        found: The kernels as they were fitted, the most probable first.
        expressions: What each is made of.
        tried: How many were tried, each with the best of its periods.
        series: What was searched, the last 500 values of a longer series; None for X and y.
    """

    found: tuple[Fitted, ...]
    expressions: tuple[Expression, ...]
    tried: int
    series: Series | None = None

    @cached_property
    def probabilities(self) -> dict[str, float]:
        """What each kernel is, in words, and its posterior probability among those tried."""
        pairs = zip(self.expressions, self.found, strict=True)
        weights = np.array([_score(pair) for pair in pairs])
        shares = np.exp(weights - logsumexp(weights))
        return dict(zip(map(str, self.expressions), shares.tolist(), strict=True))

    @property
    def kernels(self) -> dict[str, Kernel]:
        """The kernels with their priors, by what they are; those with a share of 1 % or more.

        They are for values standardised and time from the first value of `series` on, and what the
        field `kernel` of `StructuralModel` takes: the forecast is their average, by their evidence.
        """
        pairs = zip(self.probabilities.items(), self.found, strict=True)
        return {name: f.choices.kernels[GIVEN] for (name, p), f in pairs if p >= LEAST_SHARE}

    @property
    def model(self) -> GPRegression:
        """The model of the most probable one, with its priors."""
        return self.found[0].model

    def __repr__(self) -> str:
        rows = [("kernel", "share", "log evidence")]
        for (name, share), fitted in zip(self.probabilities.items(), self.found, strict=True):
            if share >= LEAST_SHARE:
                rows.append((name, f"{100.0 * share:.0f} %", f"{fitted.log_evidence:.1f}"))
        remarks = self.series.remarks if self.series is not None else ()
        tried = f"of {self.tried} kernels that were tried"
        return "\n".join([*aligned(rows), "", tried, *(f"remark: {remark}" for remark in remarks)])


def search_kernel(
    series, y=None, *, season=None, changes: bool = False, progress: bool = True
) -> KernelSearch:
    """Search for the kernel of a series among sums and products of simple ones.

    They are a smooth function, a straight line, and what repeats itself: the seasons of the
    calendar, or a period that is looked for. A smooth function times a season is a season that
    changes its shape, a line times one a season that grows.

    Args:
        series: What `forecast` takes; or inputs X of shape (n,) or (n, 1), with y beside them.
        y: The values at X, (n,).
        season: The length of a season in steps, or several; 0 for none. None infers them from
            dates, and looks for periods where there are none.
        changes: Whether to look for a time from which on another kernel holds, too.
        progress: Whether to show a progress bar.

    Returns:
        The kernels that were found with their probabilities; printed, it is a table.

    Raises:
        ValueError: For input that cannot be read, a series that is constant or too short, inputs of
            several columns and of more than 500 rows.

    Examples:
        ```python
        found = bk.search_kernel("airline")
        print(found)
        bk.forecast(found.series, 12, model=bk.StructuralModel(kernel=found.kernels))
        ```
    """
    if y is None:
        series = read_series(series)
        if series.observed.sum() > MOST_VALUES:
            series = series.last(MOST_VALUES)
        x, y, seasons, step = _of_series(series, season)
    else:
        x, y, seasons, step = _of_arrays(series, y, season)
        series = None
    if len(y) < FEWEST_VALUES or not x[-1] > 0.0:
        raise ValueError(
            f"there are {len(y)} values at {len(np.unique(x))} places; wanted {FEWEST_VALUES} "
            "values or more to search for a kernel."
        )
    if is_constant(y):
        raise ValueError("the series is constant: there is nothing to search for.")
    _, odd = ordinary(y, lambda: np.arange(len(y)))
    if odd:
        raise ValueError(f"{odd[0]}: leave it out of the search.")
    leaves = [Leaf(SMOOTH), Leaf(LINE), *(Leaf(name, period) for name, period in seasons.items())]
    search = _Search(x, y, leaves, season is None and not seasons, changes, step)
    return replace(search.run(progress), series=series)


def _of_series(series: Series, season):
    """Times from 0 on, values, seasons by name and the step between times."""
    t = series.calendar.positions(series.times[series.observed])
    seasons = name_seasons(series.calendar, season)
    return t - t[0], series.values[series.observed], seasons, series.calendar.step


def _of_arrays(X, y, season):
    """The same of inputs X and values y."""
    X, _ = validation.inputs(X)
    X = np.asarray(X)
    if X.shape[1] != 1:
        raise ValueError(
            f"X has {X.shape[1]} columns; kernels of one are searched for: take one column, or "
            "compare GPRegression models of several by their log_evidence."
        )
    if len(X) > MOST_VALUES:
        raise ValueError(f"X has {len(X)} rows, and {MOST_VALUES} at most are searched: take some.")
    y = np.asarray(validation.targets(y, len(X)))
    order = np.argsort(X[:, 0], kind="stable")
    x, step = X[order, 0], float(np.ptp(X) / max(1, len(X) - 1))
    steps = np.ravel(season if season is not None else [0.0])
    seasons = {f"season_{length:g}": float(length) * step for length in steps if length}
    return x - x[0], y[order], seasons, step


@dataclass(eq=False)
class _Search:
    """A search over kernels for values y at times x, (n,) both, from 0 on.

    leaves: those of known period; repeats: whether to look for periods; changes: for changes; step:
    from one time to the next.
    """

    x: np.ndarray
    y: np.ndarray
    leaves: list[Leaf]
    repeats: bool
    changes: bool
    step: float

    def run(self, progress: bool) -> KernelSearch:
        known: dict[tuple, tuple[Expression, Fitted]] = {}
        beam: list[tuple[Expression, Fitted]] = []
        with Progress("kernels", ROUNDS, progress) as bar:
            for _ in range(ROUNDS):
                new = self._expanded(beam) if beam else self._first()
                known |= self._fitted(new, known)
                ranked = sorted(known.values(), key=_score, reverse=True)[:BEAM]
                bar.advance()
                if beam and [e for e, _ in ranked] == [e for e, _ in beam]:
                    break
                beam = ranked
        if not beam:
            raise ValueError("none of the kernels gives these values a density: look at the times.")
        ranked = sorted(known.values(), key=_score, reverse=True)
        expressions, found = zip(*ranked, strict=True)
        return KernelSearch(found, expressions, len(known))

    def _fitted(self, new: list[tuple[Expression, dict]], known: dict) -> dict:
        """Form -> the best of the new expressions of that form, where it was not known."""
        new = [(e, start) for e, start in new if e.form not in known]
        fits = side_by_side(lambda pair: self._fit(*pair), new, len(self.y))
        best: dict[tuple, tuple[Expression, Fitted]] = {}
        for (expression, _), fitted in zip(new, fits, strict=True):
            pair = expression, fitted
            if np.isfinite(_score(pair)):
                old = best.get(expression.form)
                best[expression.form] = pair if old is None else max(old, pair, key=_score)
        return best

    def _fit(self, expression: Expression, start: dict[str, float]) -> Fitted:
        kernels = {GIVEN: self._kernel(expression)}
        choices = Choices((GIVEN,), {}, (False,), learned(ANY), kernels=kernels)
        fitted = Fitted.of(Structure(GIVEN, False), choices, self.x, self.y, start)
        return fitted.rescaled() if self.repeats else fitted

    def _first(self) -> list[tuple[Expression, dict]]:
        leaves = [*self.leaves, *self._repeating(self.y - np.mean(self.y))]
        return [self._started(Expression(((leaf,),)), {}) for leaf in leaves]

    def _expanded(self, beam) -> list[tuple[Expression, dict]]:
        """Each expression of the beam with a leaf more, and where the search of it begins."""
        return [
            self._started(more, fitted.by_name)
            for expression, fitted in beam
            for more in self._larger(expression, fitted)
        ]

    def _larger(self, expression: Expression, fitted: Fitted) -> Iterator[Expression]:
        left = fitted.scale.back(fitted.evidence.fitted(fitted.mode)[0])
        leaves = [*self.leaves, *self._repeating(self.y - left)]
        for terms in _with_one_more(expression.terms, leaves):
            yield expression._replace(terms=terms)
        for terms in _with_one_more(expression.after, leaves) if expression.after else ():
            yield expression._replace(after=terms)
        for share in CHANGES if self.changes and not expression.after else ():
            yield expression._replace(after=expression.terms, change=share * self.x[-1])

    def _repeating(self, left: np.ndarray) -> list[Leaf]:
        """What repeats in what is left over, and in the series beside what is slow in it."""
        if not self.repeats:
            return []
        found: list[float] = []
        for period in (*self._periods(left, 0), *self._periods_beside_slow):
            if _is_other(period, found):
                found.append(period)
        return [Leaf(REPEATING, period) for period in found]

    @cached_property
    def _periods_beside_slow(self) -> list[float]:
        return self._periods(self.y, SLOW)

    def _periods(self, y: np.ndarray, slow: int) -> list[float]:
        """The periods of which a few harmonics explain most of y (n,), beside so many slow cosines.

        A period by itself may have its half or its third for a peak of the spectrum.
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
        found: list[float] = []
        for i in np.argsort(-explained):
            if _is_other(period := 1.0 / frequencies[i], found):
                found.append(float(period))
            if len(found) == PERIODS:
                break
        return found

    def _started(self, expression: Expression, known: dict[str, float]):
        """The expression and where the search for its mode begins, by name."""
        start = dict(known)
        before = "change." if expression.after else ""
        sides = [("", expression.terms), (LATER, expression.after)]
        for prefix, terms in sides:
            for name, term in _named(terms):
                # A factor has the name of its kind after that of the term.
                place = f"{before}{prefix}{name}" + (".periodic" if len(term) > 1 else "")
                for leaf in term:
                    if leaf.name == REPEATING:
                        start.setdefault(f"{place}.period", float(np.log(leaf.period)))
        return expression, start

    # -- kernels ------------------------------------------------------------------------------

    def _kernel(self, expression: Expression) -> Kernel:
        before = self._sum(expression.terms)
        if not expression.after:
            return before
        after = self._sum(expression.after, LATER)
        change = ChangePoint(before, after, expression.change, STEEP * self.step)
        return change.named("change")

    def _sum(self, terms, prefix: str = "") -> Kernel:
        kernel = None
        for name, term in _named(terms):
            product = self._leaf(term[0], first=True)
            for leaf in term[1:]:
                product = product * self._leaf(leaf, first=False)
            product = product.named(prefix + name)
            kernel = product if kernel is None else kernel + product
        return kernel

    def _leaf(self, leaf: Leaf, first: bool) -> Kernel:
        """A leaf with priors; the variance of a product is that of its first factor."""
        log_span = np.log(self.x[-1])
        variance = dist.LogNormal(VARIANCE, 1.0) if first else 1.0
        if leaf.name == SMOOTH:
            return RBF(dist.LogNormal(LENGTHSCALE + log_span, 1.0), variance)
        if leaf.name == LINE:
            growth = dist.LogNormal(GROWTH - 2.0 * log_span, 1.0)
            return Linear(growth, 0.0) + Constant(variance)
        period = leaf.period
        if leaf.name == REPEATING:
            period = dist.LogNormal(PERIOD + log_span, 1.0)
        return Periodic(period, dist.LogNormal(SEASON_LENGTHSCALE, 1.0), variance)


def _with_one_more(terms, leaves: list[Leaf]) -> Iterator[tuple]:
    """Terms with a leaf more: as a term of its own, or as a factor of one."""
    for leaf in leaves:
        yield (*terms, (leaf,))
    for i, term in enumerate(terms):
        for leaf in leaves if len(term) < FACTORS else ():
            # A product of two smooth functions is one.
            if leaf.name == LINE or leaf.name not in {one.name for one in term}:
                yield (*terms[:i], _ordered((*term, leaf)), *terms[i + 1 :])


def _ordered(term: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    """What is smooth first, then what repeats, and lines last."""
    return tuple(sorted(term, key=lambda leaf: (leaf.name == LINE, leaf.name != SMOOTH)))


def _is_other(period: float, found: list[float]) -> bool:
    return all(max(period / old, old / period) > APART for old in found)


def _named(terms) -> Iterator[tuple[str, tuple[Leaf, ...]]]:
    """The name of each term, and the term."""
    names: dict[str, int] = {}
    for term in terms:
        name = "_".join(leaf.name for leaf in term)
        names[name] = names.get(name, 0) + 1
        yield name if names[name] == 1 else f"{name}_{names[name]}", term


def _score(pair: tuple[Expression, Fitted]) -> float:
    expression, fitted = pair
    return fitted.log_evidence - LEAF_COST * expression.size
