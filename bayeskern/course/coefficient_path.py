"""The coefficients of ridge and lasso regression along the penalty."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import short
from bayeskern.core.plotting import COLORS, figure, legend_above, tidy
from bayeskern.course.least_squares import EPS, Spectrum, centered, rounding

# The number of default penalties.
LENGTH = 100
# Those of ridge reach beyond the squared singular values by this factor.
BEYOND = 1e3
# Those of the lasso reach from where all coefficients are 0 to this part of it, as in scikit-learn.
LOWEST = 1e-3
# By how much, relative to the penalty, the slopes of the lasso may miss it, beside their rounding.
SETTLED, ROUNDING = 1e-6, 64 * EPS
# The duality gap at which coordinate descent stops, relative to |y|^2, and the most rounds.
GAP, ROUNDS = 1e-12, 20_000
# Lines of one colour differ in style; more lines than there are of both have no names.
STYLES = ("-", "--")
NAMED = len(STYLES) * len(COLORS)
# The most letters of a name.
LETTERS = 20


class CoefficientPath(NamedTuple):
    """The minimizers a and b of |y - a - X b|^2 + penalty |b|^2, or |b|_1, for many penalties.

    Attributes:
        penalties: Rising, (L,).
        coefficients: b, (L, d).
        intercepts: a, (L,); 0 unless asked for.
        kind: "ridge" or "lasso".
        columns: The names of the columns of X.
    """

    penalties: np.ndarray
    coefficients: np.ndarray
    intercepts: np.ndarray
    kind: str
    columns: tuple[str, ...]

    def plot(self, ax=None):
        """Draw each coefficient against the penalty, on a logarithmic axis.

        Args:
            ax: The axes to draw in; a new figure if None.

        Returns:
            The figure. A penalty of 0 has no place on the axis and is left out.

        Raises:
            ValueError: There are fewer than two penalties above 0.
        """
        drawn = self.penalties > 0.0
        if np.sum(drawn) < 2:
            raise ValueError(
                f"penalties has {np.sum(drawn)} above 0, and a curve goes through two or more."
            )
        ax = figure((7.5, 4.2)).subplots() if ax is None else ax
        few = len(self.columns) <= NAMED
        for j, (name, values) in enumerate(zip(self.columns, self.coefficients.T, strict=True)):
            label = short(name, LETTERS) if few else None
            turn, i = divmod(j, len(COLORS))
            style = {"color": COLORS[i], "linestyle": STYLES[turn % len(STYLES)], "linewidth": 1.4}
            ax.plot(self.penalties[drawn], values[drawn], label=label, **style)
        ax.axhline(0.0, color="#8a8a8a", linewidth=0.8, zorder=0)
        ax.set_xscale("log")
        ax.set_xlabel("penalty")
        ax.set_ylabel(f"coefficients, {self.kind}")
        if few:
            legend_above(ax)
        tidy(ax)
        return ax.figure


def coefficient_path(X, y, penalties=None, kind="ridge", *, intercept=False) -> CoefficientPath:
    """Coefficients of linear regression for many penalties.

    They minimize, over b and over a if there is an intercept,

        |y - a - X b|^2 + penalty |b|^2    (ridge),
        |y - a - X b|^2 + penalty |b|_1    (lasso),

    with |b|_1 the sum of the absolute values. Ridge is in closed form from one singular value
    decomposition of X, b = sum_j v_j s_j u_j'y / (s_j^2 + penalty); it has the least norm where the
    penalty is 0. The lasso is found by least angle regression, or by coordinate descent where that
    went wrong, which its optimality conditions tell; all its coefficients are 0 from
    2 max_j |x_j'y| on, of centered columns if there is an intercept.

    In scikit-learn's terms `Ridge` has the same penalty, and `Lasso` has alpha = penalty / (2 n).
    As a mode of a posterior with noise variance v, ridge has the prior b_j ~ N(0, v / penalty), and
    the lasso b_j ~ Laplace(0, 2 v / penalty).

    Columns are not scaled: a penalty weighs most on those of small numbers. `KernelRidge` has
    scores along its penalties.

    Args:
        X: (n, d), an array or a data frame.
        y: (n,).
        penalties: Several, of 0 or more. Those of ridge are in the squared units of X; those of the
            lasso are above 0, in the units of X times those of y. By default 100, evenly spaced in
            the logarithm: for ridge a factor of 1,000 beyond the squared singular values of X at
            both ends, for the lasso a factor of 1,000 down from where all is 0.
        kind: "ridge" or "lasso".
        intercept: Whether to find a, which is not penalized; otherwise a = 0.

    Returns:
        The coefficients by penalty, in rising order, with a method `plot`.

    Raises:
        ValueError: For bad input, such as a penalty of 0 for the lasso.

    Warns:
        UserWarning: If the lasso has not settled at a penalty.

    References:
        Hastie, Tibshirani and Friedman (2009), "The Elements of Statistical Learning", sections
        3.4.1 and 3.4.2; Efron, Hastie, Johnstone and Tibshirani (2004), "Least angle regression".

    Examples:
        >>> from bayeskern.ridge import coefficient_path
        >>> X, y = [[1.0, 0.0], [0.0, 2.0]], [3.0, 1.0]
        >>> coefficient_path(X, y, [0.0, 1.0]).coefficients
        array([[3. , 0.5],
               [1.5, 0.4]])
        >>> coefficient_path(X, y, [2.0, 4.0], kind="lasso").coefficients.round(6)
        array([[2.  , 0.25],
               [1.  , 0.  ]])
    """
    solve = _KINDS[validation.one_of("kind", kind, _KINDS)]
    X, columns = validation.inputs(X)
    y = np.asarray(validation.targets(y, X.shape[0]))
    X = np.asarray(X)
    columns = columns or tuple(f"column {j}" for j in range(X.shape[1]))
    if penalties is not None:
        penalties = np.unique(validation.penalties(penalties, "penalties"))
        if penalties.size == 0:
            raise ValueError("penalties is empty: give at least one, or None.")
    X_mean, y_mean = np.zeros(X.shape[1]), 0.0
    if intercept:
        X, y, X_mean, y_mean = centered(X, y)
    penalties, coefficients = solve(X, y, penalties)
    return CoefficientPath(penalties, coefficients, y_mean - coefficients @ X_mean, kind, columns)


def _ridge(X, y, penalties):
    spectrum = Spectrum.of(X, y[:, None], rounding(X))
    if penalties is None:
        values = spectrum.values if len(spectrum.values) else np.ones(1)
        penalties = np.geomspace(values[-1] ** 2 / BEYOND, values[0] ** 2 * BEYOND, LENGTH)
    return penalties, np.stack([spectrum.solution(penalty)[:, 0] for penalty in penalties])


def _lasso(X, y, penalties):
    nothing = 2.0 * np.max(np.abs(X.T @ y))
    if penalties is None:
        penalties = np.geomspace(LOWEST, 1.0, LENGTH) * (nothing or 1.0)
    if penalties[0] == 0.0:
        raise ValueError(
            "penalties has a 0, at which the lasso is least squares and may have many solutions. "
            "Give penalties above 0; ridge.least_squares finds the shortest solution at 0."
        )
    coefficients = _by_angles(X, y, penalties)
    left = ~_is_optimal(X, y, penalties, coefficients)
    if np.any(left):
        coefficients[left] = _by_descent(X, y, penalties[left])
        left = ~_is_optimal(X, y, penalties, coefficients)
    if np.any(left):
        warnings.warn(
            f"the lasso has not settled at {np.sum(left)} of {len(penalties)} penalties, the "
            f"largest of them {penalties[left][-1]:.3g}: there columns of X are nearly dependent. "
            "Give larger penalties, or fewer columns.",
            UserWarning,
            stacklevel=3,
        )
    return penalties, coefficients


def _by_angles(X, y, penalties):
    """By least angle regression: linear in the penalty between those where a column comes or goes.

    It is exact where no columns tie, and may be wrong, without a word, where some do.
    """
    # Here, since scikit-learn's linear models take a while to import.
    from sklearn.linear_model import lars_path

    scale = 2.0 * len(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alphas, _, corners = lars_path(
            X, y, method="lasso", alpha_min=penalties[0] / scale, max_iter=ROUNDS
        )
    return np.stack([np.interp(penalties / scale, alphas[::-1], b[::-1]) for b in corners], axis=1)


def _by_descent(X, y, penalties):
    """By coordinate descent, from the largest penalty down."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import lasso_path

    alphas = penalties[::-1] / (2.0 * len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, coefficients, _ = lasso_path(X, y, alphas=alphas, tol=GAP, max_iter=ROUNDS)
    return coefficients.T[::-1]


def _is_optimal(X, y, penalties, coefficients) -> np.ndarray:
    """Which coefficients (L, d) are minimizers, to SETTLED: (L,).

    With r = y - X b, 2 x_j'r is penalty sign(b_j), or of at most the size of penalty if b_j is 0.
    """
    slopes = 2.0 * (y - coefficients @ X.T) @ X
    bounds = penalties[:, None]
    missed = np.where(
        coefficients != 0.0,
        np.abs(slopes - bounds * np.sign(coefficients)),
        np.abs(slopes) - bounds,
    )
    sizes = np.abs(y) @ np.abs(X)
    return np.all(missed <= SETTLED * bounds + ROUNDING * sizes, axis=1)


_KINDS = {"ridge": _ridge, "lasso": _lasso}
