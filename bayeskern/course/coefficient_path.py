"""The coefficients of ridge and lasso regression along the penalty."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.core.formatting import short
from bayeskern.core.plotting import COLORS, figure, legend_above, tidy
from bayeskern.course.least_squares import by_singular_values, centered, rounding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class CoefficientPath(NamedTuple):
    """Ridge or lasso coefficients at many penalties.

    They minimise |y - a - X b|^2 + penalty P(b), where P(b) is |b|^2 (ridge) or |b|_1 (lasso).

    Attributes:
        penalties: The sorted penalties, (L,).
        coefficients: b, (L, d).
        intercepts: a, (L,); 0 without an intercept.
        kind: "ridge" or "lasso".
        columns: The names of the columns of X.
    """

    penalties: np.ndarray
    coefficients: np.ndarray
    intercepts: np.ndarray
    kind: str
    columns: tuple[str, ...]

    def plot(self, ax: Axes | None = None) -> Figure | SubFigure:
        """Plot each coefficient against the penalty, on a logarithmic axis.

        Args:
            ax: The axes to draw in; a new figure if None.

        Returns:
            The figure. A penalty of 0 is left out, as a logarithmic axis has no 0.

        Raises:
            ValueError: If there are fewer than two penalties above 0.
        """
        positive = self.penalties > 0.0
        if np.sum(positive) < 2:
            raise ValueError(f"plot needs at least two penalties above 0; got {np.sum(positive)}.")
        ax = figure((7.5, 4.2)).subplots() if ax is None else ax
        styles = [(color, line) for line in ("-", "--") for color in COLORS]
        # With more columns than styles, labels would be ambiguous.
        has_labels = len(self.columns) <= len(styles)
        for j, (name, values) in enumerate(zip(self.columns, self.coefficients.T, strict=True)):
            color, line = styles[j % len(styles)]
            label = short(name, 20) if has_labels else None
            ax.plot(self.penalties[positive], values[positive], line, color=color, label=label)
        ax.axhline(0.0, color="#8a8a8a", linewidth=0.8, zorder=0)
        ax.set_xscale("log")
        ax.set_xlabel("penalty")
        ax.set_ylabel(f"coefficients, {self.kind}")
        if has_labels:
            legend_above(ax)
        tidy(ax)
        return ax.figure


def coefficient_path(
    X: ArrayLike,
    y: ArrayLike,
    penalties: ArrayLike | None = None,
    kind: str = "ridge",
    *,
    intercept: bool = False,
) -> CoefficientPath:
    """Coefficients of linear regression for many penalties.

    They minimise, over b and over a if there is an intercept,

        |y - a - X b|^2 + penalty |b|^2    (ridge),
        |y - a - X b|^2 + penalty |b|_1    (lasso),

    with |b|_1 the sum of the absolute values. Ridge has a closed form from one singular value
    decomposition of X, b = sum_j v_j s_j u_j'y / (s_j^2 + penalty), the shortest solution if the
    penalty is 0. The lasso is found by least angle regression or, where its result violates the
    optimality conditions, by coordinate descent. All lasso coefficients are 0 for penalties of at
    least 2 max_j |x_j'y|, with centered columns if there is an intercept.

    In scikit-learn's terms `Ridge` has the same penalty, and `Lasso` has alpha = penalty / (2 n).
    With noise variance v, ridge is the posterior mode under the prior b_j ~ N(0, v / penalty), and
    the lasso under b_j ~ Laplace(0, 2 v / penalty).

    Columns are not scaled: a penalty shrinks the coefficients of small-valued columns most.
    `KernelRidge(alpha="loo")` scores penalties and chooses one.

    Args:
        X: (n, d), an array or a data frame.
        y: (n,).
        penalties: Several penalties: for ridge 0 or more, in the squared units of X; for the lasso
            above 0, in the units of X y. By default 100 penalties, evenly spaced on the log scale:
            for ridge from 1e-3 times the smallest to 1e3 times the largest nonzero squared singular
            value of X; for the lasso up to the penalty at which all coefficients become 0, from
            1e-3 times this penalty.
        kind: "ridge" or "lasso".
        intercept: Whether to fit a, which is not penalised; otherwise a = 0.

    Returns:
        The coefficients, sorted by penalty, with a method `plot`.

    Raises:
        ValueError: If the input is invalid, such as a penalty of 0 for the lasso.

    Warns:
        UserWarning: If the lasso has not converged at a penalty.

    References:
        Hastie, Tibshirani and Friedman (2009), "The Elements of Statistical Learning", sections
        3.4.1 and 3.4.2; Efron, Hastie, Johnstone and Tibshirani (2004), "Least angle regression".

    Examples:
        >>> from bayeskern.course import coefficient_path
        >>> X, y = [[1.0, 0.0], [0.0, 2.0]], [3.0, 1.0]
        >>> coefficient_path(X, y, [0.0, 1.0]).coefficients
        array([[3. , 0.5],
               [1.5, 0.4]])
        >>> coefficient_path(X, y, [2.0, 4.0], kind="lasso").coefficients.round(6)
        array([[2.  , 0.25],
               [1.  , 0.  ]])
    """
    solvers = {"ridge": _ridge, "lasso": _lasso}
    solve = solvers[validation.one_of("kind", kind, solvers)]
    inputs, columns = validation.inputs(X)
    X = np.asarray(inputs)
    y = np.asarray(validation.targets(y, len(X)))
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


def _ridge(X, y, penalties) -> tuple[np.ndarray, np.ndarray]:
    """Penalties (L,) and coefficients (L, d) of ridge regression."""
    values, solve = by_singular_values(X, y[:, None], rounding(X))
    if penalties is None:
        nonzero = values[values > rounding(X) * values[0]] if values[0] > 0.0 else np.ones(1)
        penalties = np.geomspace(nonzero[-1] ** 2 / 1e3, nonzero[0] ** 2 * 1e3, 100)
    return penalties, np.stack([solve(penalty)[:, 0] for penalty in penalties])


def _lasso(X, y, penalties) -> tuple[np.ndarray, np.ndarray]:
    """Penalties (L,) and coefficients (L, d) of the lasso."""
    if penalties is None:
        # All coefficients are 0 at this and larger penalties.
        largest = 2.0 * np.max(np.abs(X.T @ y))
        penalties = np.geomspace(1e-3, 1.0, 100) * (largest or 1.0)
    if penalties[0] == 0.0:
        raise ValueError(
            "penalties has a 0, at which the lasso is least squares and may have many solutions. "
            "Give penalties above 0; course.least_squares finds the shortest solution at 0."
        )
    coefficients = _by_angles(X, y, penalties)
    failed = ~_is_optimal(X, y, penalties, coefficients)
    if np.any(failed):
        coefficients[failed] = _by_descent(X, y, penalties[failed])
        failed = ~_is_optimal(X, y, penalties, coefficients)
    if np.any(failed):
        warnings.warn(
            f"the lasso has not converged at {np.sum(failed)} of {len(penalties)} penalties, the "
            f"largest of them {penalties[failed][-1]:.3g}: columns of X are nearly dependent. Give "
            "larger penalties, or fewer columns.",
            UserWarning,
            stacklevel=3,
        )
    return penalties, coefficients


def _by_angles(X, y, penalties) -> np.ndarray:
    """The lasso by least angle regression, piecewise linear in the penalty: (L, d).

    It is exact unless columns tie, in which case it may be wrong without a warning.
    """
    # Imported here, because scikit-learn's linear models take long to import.
    from sklearn.linear_model import lars_path

    scale = 2.0 * len(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alphas, _, corners = lars_path(
            X, y, method="lasso", alpha_min=penalties[0] / scale, max_iter=20_000
        )[:3]
    return np.stack([np.interp(penalties / scale, alphas[::-1], b[::-1]) for b in corners], axis=1)


def _by_descent(X, y, penalties) -> np.ndarray:
    """The lasso by coordinate descent, from the largest penalty down: (L, d)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import lasso_path

    alphas = penalties[::-1] / (2.0 * len(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # tol is the duality gap, relative to |y|^2.
        _, coefficients, _ = lasso_path(X, y, alphas=alphas, tol=1e-12, max_iter=20_000)[:3]
    return coefficients.T[::-1]


def _is_optimal(X, y, penalties, coefficients) -> np.ndarray:
    """True for each row of coefficients (L, d) that is optimal to 1e-6 of the penalty.

    With r = y - X b, 2 x_j'r is penalty sign(b_j), or at most penalty in absolute value if b_j = 0.
    """
    slopes = 2.0 * (y - coefficients @ X.T) @ X
    bounds = penalties[:, None]
    violations = np.where(
        coefficients != 0.0,
        np.abs(slopes - bounds * np.sign(coefficients)),
        np.abs(slopes) - bounds,
    )
    sizes = np.abs(y) @ np.abs(X)
    return np.all(violations <= 1e-6 * bounds + 64 * np.finfo(float).eps * sizes, axis=1)
