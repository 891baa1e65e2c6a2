"""Answers of a regression: rows of posterior draws with labels, hypotheses on them, tables."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayeskern.core import validation
from bayeskern.core.extras import needed_for
from bayeskern.core.formatting import aligned, alike, number, suggestion
from bayeskern.formula import answer_plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Probability of the intervals of a table.
LEVEL = 0.9
# Rows of a table that is printed; more are left out in the middle.
MAX_PRINTED_ROWS = 30
HYPOTHESES = "Hypotheses"
# Syntax of a hypothesis, and its functions.
# fmt: off
ARITHMETIC = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Constant, ast.Name, ast.operator,
    ast.unaryop, ast.boolop, ast.cmpop, ast.Load,
)
# fmt: on
FUNCTIONS = ("exp", "log", "log1p", "expm1", "sqrt", "abs")


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """Posterior draws of several quantities, with a table, a picture and hypotheses.

    Attributes:
        labels: Labels of the quantities, a data frame with r rows.
        draws: Draws of the quantities, (S, r).
        what: Name of the quantities in titles.
        scale: Their scale, such as "response".
        null: Value without an effect, for the probability of direction: 0 of a difference, 1 of a
            ratio, None of a prediction.

    Examples:
        >>> import numpy as np
        >>> import pandas as pd
        >>> from bayeskern.formula.answers import Answers
        >>> draws = np.random.default_rng(0).normal([1.0, 3.0], 0.5, (4000, 2))
        >>> doses = Answers(pd.DataFrame({"dose": ["low", "high"]}), draws, "Effects", null=0.0)
        >>> doses
        Effects, 90 % intervals
            dose  estimate     sd  lower  upper  p_direction
        b1   low     0.999  0.505  0.167  1.837        0.975
        b2  high     3.001  0.498  2.198  3.817       >0.999
        >>> doses.hypothesis("b2 - b1 > 0").table["probability"].round(3).tolist()
        [0.998]
    """

    labels: pd.DataFrame
    draws: np.ndarray
    what: str
    scale: str = ""
    null: float | None = None

    @property
    def table(self) -> pd.DataFrame:
        """The table of `to_frame()`."""
        return self.to_frame()

    def to_frame(self, level: float = LEVEL) -> pd.DataFrame:
        """Data frame with the labels, the posterior means and sds, intervals and probabilities.

        Args:
            level: Probability of the central intervals (lower, upper).

        Returns:
            A row for each quantity, b1, b2, ...; `p_direction` is the probability that the
            quantity has the sign of its median, relative to `null`.
        """
        tail = 0.5 - 0.5 * validation.level(level)
        lower, upper = np.quantile(self.draws, [tail, 1.0 - tail], axis=0)
        numbers = {
            "estimate": self.draws.mean(axis=0),
            "sd": self.draws.std(axis=0),
            "lower": lower,
            "upper": upper,
        }
        if self.null is not None:
            above, below = self.draws > self.null, self.draws < self.null
            numbers["p_direction"] = np.maximum(above.mean(axis=0), below.mean(axis=0))
        index = pd.Index(self._names)
        labels = self.labels.set_axis(index, axis=0)
        return pd.concat([labels, pd.DataFrame(numbers, index)], axis=1)

    @property
    def title(self) -> str:
        """The quantities with their scale."""
        return f"{self.what}, {self.scale.replace('_', ' ')} scale" if self.scale else self.what

    @property
    def _names(self) -> list[str]:
        return [f"b{i + 1}" for i in range(len(self.labels))]

    # -- hypotheses --------------------------------------------------------------------------------

    def hypothesis(self, *expressions: str) -> Answers:
        """Posterior of expressions of the rows, with the probability of statements.

        Args:
            *expressions: Arithmetic on the rows b1, b2, ..., such as "b2 / b1" or "exp(b1)", or
                statements on them, such as "b2 - b1 > 0", "b1 = b2" or "(b1 > 0) & (b2 > 0)".

        Returns:
            A row for each expression. The draws of a statement "A > B" or "A = B" are those of
            A - B; the draws of compound statements are 1 where they hold. `probability` is that of
            the statement, and for "A = B" and arithmetic that of the direction.

        Raises:
            ValueError: An expression is not arithmetic on the rows.
        """
        draws, probabilities = zip(*map(self._evaluated, expressions), strict=True)
        labels = pd.DataFrame({"hypothesis": expressions, "probability": probabilities})
        return Answers(labels, np.column_stack(draws), HYPOTHESES, self.scale)

    def _evaluated(self, text: str) -> tuple[np.ndarray, float]:
        """Draws of an expression, (S,), and its probability."""
        # A single sign of equality is one of mathematics.
        tree = _parsed(re.sub(r"(?<![<>=!])=(?!=)", "==", text), text, self._names)
        relation, sides = ast.Eq, [tree]
        if isinstance(tree, ast.Compare) and len(tree.ops) == 1:
            relation, sides = type(tree.ops[0]), [tree.left, tree.comparators[0]]
        values = dict(zip(self._names, self.draws.T, strict=True))
        first, *second = (
            pd.eval(ast.unparse(side), engine="python", local_dict=values, global_dict={})
            for side in sides
        )
        draws = np.broadcast_to(np.asarray(first - second[0] if second else first), len(self.draws))
        if draws.dtype == bool:
            return draws.astype(float), float(draws.mean())
        above, below = float((draws > 0.0).mean()), float((draws < 0.0).mean())
        if relation in (ast.Gt, ast.GtE):
            return draws, above
        return draws, below if relation in (ast.Lt, ast.LtE) else max(above, below)

    # -- text --------------------------------------------------------------------------------------

    def _cells(self, level: float) -> list[list[str]]:
        """The table as text, with its head."""
        table, start = self.to_frame(level), len(self.labels.columns)
        rows = [[str(column) for column in table.columns]]
        for values in table.itertuples(index=False, name=None):
            shown = [_label(value) for value in values[:start]]
            if self.what == HYPOTHESES:
                shown[-1] = _probability(values[start - 1], len(self.draws))
            shown += alike(values[start : start + 4], values[start + 1], digits=3)
            rows.append([*shown, *(_probability(p, len(self.draws)) for p in values[start + 4 :])])
        return rows

    def __repr__(self) -> str:
        count, half = len(self.labels), MAX_PRINTED_ROWS // 2
        shown = np.arange(count)
        if count > MAX_PRINTED_ROWS:
            shown = np.delete(shown, np.s_[half:-half])
        part = replace(self, labels=self.labels.iloc[shown], draws=self.draws[:, shown])
        names = ["", *(f"b{i + 1}" for i in shown)]
        cells = zip(names, part._cells(LEVEL), strict=True)
        lines = aligned([[name, *row] for name, row in cells])
        if len(shown) < count:
            lines.insert(half + 1, f"... {count - len(shown):,} rows ...")
        return "\n".join([f"{self.title}, {100 * LEVEL:g} % intervals", *lines])

    def to_markdown(self, level: float = LEVEL) -> str:
        """The table in Markdown, rounded, with central intervals of probability `level`."""
        head, *rows = self._cells(level)
        rule = ["---"] * len(self.labels.columns)
        rule += ["---:"] * (len(head) - len(rule))
        escaped = [[cell.replace("|", r"\|") for cell in row] for row in (head, rule, *rows)]
        return "\n".join(f"| {' | '.join(row)} |" for row in escaped)

    def to_latex(self, level: float = LEVEL, **options: Any) -> str:
        """The table in LaTeX, rounded, for the package booktabs.

        Args:
            level: Probability of the central intervals.
            **options: Options of `pandas.DataFrame.to_latex`, such as `caption` and `label`.
        """
        with needed_for("A table in LaTeX", package="jinja2", extra="report"):
            import jinja2  # noqa: F401  # pandas needs it.
        head, *rows = self._cells(level)
        count = len(self.labels.columns)
        options = {"column_format": "l" * count + "r" * (len(head) - count)} | options
        return pd.DataFrame(rows, columns=head).to_latex(index=False, escape=True, **options)

    def plot(self) -> Figure:
        """Plot the quantities with their intervals of 50 and 90 %.

        Predictions along a number are a curve with bands; other quantities have a line each.
        """
        return answer_plots.plot_answers(self.labels, self.draws, self.title, self.null)


def _label(value: Any) -> str:
    return number(value, 4) if isinstance(value, float) else str(value)


def _probability(p: float, count: int) -> str:
    return ">0.999" if p >= 0.9995 and count >= 1000 else f"{p:.3f}"


def _parsed(source: str, text: str, names: list[str]) -> ast.expr:
    """Syntax tree of an expression that is arithmetic on the names."""
    accepted = f"write arithmetic on the rows {names[0]} to {names[-1]}, such as 'b2 - b1 > 0'."
    try:
        tree = ast.parse(source.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"hypothesis {text!r}: {error.msg}; {accepted}") from None
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        known = FUNCTIONS if id(node) in called else names
        if isinstance(node, ast.Name) and node.id not in known:
            raise ValueError(
                f"hypothesis {text!r} has the unknown name {node.id!r}."
                f"{suggestion(node.id, known)} Functions are {', '.join(FUNCTIONS)}; {accepted}"
            )
        # Further arguments of a function would be written to.
        is_bad_call = isinstance(node, ast.Call) and (
            not isinstance(node.func, ast.Name) or len(node.args) != 1 or node.keywords
        )
        is_text = isinstance(node, ast.Constant) and not isinstance(node.value, int | float)
        if not isinstance(node, ARITHMETIC) or is_bad_call or is_text:
            raise ValueError(f"hypothesis {text!r} has {ast.unparse(node)!r}: {accepted}")
    return tree
