"""Predictions, comparisons and slopes of a regression, in the words of marginaleffects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy.special import logit

from bayeskern.core import validation
from bayeskern.core.formatting import abbreviated, number, suggestion
from bayeskern.formula.answers import Answers
from bayeskern.formula.frame import required_columns
from bayeskern.formula.model import Regression
from bayeskern.formula.predictive import at_draws, columns_of_newdata, expected, new_rows
from bayeskern.likelihoods.links import LOG_PROBABILITIES
from bayeskern.linear.prediction import thinned_draws
from bayeskern.prediction.empirical import DRAWS_AT_A_POINT

By = bool | str | Sequence[str] | None
# E[y]; E[y] of one trial; its log odds; the linear predictor.
SCALES = ("response", "probability", "log_odds", "link")
# Functions of the expectations at a higher and a lower value, their text and the value without an
# effect.
COMPARISONS: dict[str, tuple[Callable, str, float]] = {
    "difference": (lambda high, low: high - low, "{} - {}", 0.0),
    "ratio": (lambda high, low: high / low, "{} / {}", 1.0),
    "odds_ratio": (lambda high, low: np.exp(logit(high) - logit(low)), "odds({}) / odds({})", 1.0),
}
MAX_LEVELS_IN_MESSAGE = 12
# Step of a slope on each side, in ranges of the variable: its error is of the order of the square.
STEP = 1e-5


class Fitted(Protocol):
    """A posterior of a regression, such as `bk.infer` returns."""

    @property
    def flat(self) -> dict[str, np.ndarray]:
        """Draws by site, (S, *site)."""
        ...

    @property
    def known_target(self) -> Any:
        """The target with the model."""
        ...


def predictions(
    posterior: Fitted,
    newdata: Any = None,
    by: By = False,
    groups: str = "known",
    scale: str = "response",
    seed: int = 0,
) -> Answers:
    """Expected responses E[y | x] of a regression.

    Args:
        posterior: Posterior of a `bk.regression`.
        newdata: Rows to predict: a table, `bk.datagrid(...)`, "mean" for one row at the means, or
            "observed", the default, for the data of the fit.
        by: Columns of newdata whose values get one average each over their rows; True for the
            average over all rows, False for no average.
        groups: "known": rows have the effects of their groups; "new": all groups are drawn from
            the population; "none": group effects are 0.
        scale: "response"; "probability" of success in one trial, "log_odds" of it, or "link", the
            linear predictor. Averages are averages on this scale.
        seed: Seed of the effects of new groups.

    Returns:
        A row for each prediction; of more than two classes, a row for the probability of each.

    Raises:
        ValueError: A column is missing, naming the nearest one, or a level is unknown.
        TypeError: The posterior is not of a regression by formula.

    References:
        Arel-Bundock, Greifer and Heiss (2024), "How to interpret statistical models using
        marginaleffects for R and Python".

    Examples:
        >>> import bayeskern as bk
        >>> data = {"y": [1.0, 2.1, 2.9, 4.2, 5.0, 5.8], "x": [0, 1, 2, 3, 4, 5]}
        >>> posterior = bk.infer(bk.regression("y ~ x", data), method="laplace", seed=0)
        >>> answers = bk.predictions(posterior, bk.datagrid(posterior, x=[1, 4]))
        >>> answers.table["estimate"].round(1).tolist()
        [2.0, 5.0]
    """
    question = _Question.of(posterior, newdata, by, groups, scale, seed)
    return question.answers([({}, question.expected())], "Predictions", None)


def comparisons(
    posterior: Fitted,
    variables: str | Sequence[str] | Mapping[str, Any] | None = None,
    newdata: Any = None,
    by: By = True,
    groups: str = "known",
    scale: str = "response",
    comparison: str = "difference",
    seed: int = 0,
) -> Answers:
    """Expected responses compared between two values of a variable, all else as it is.

    Args:
        posterior: Posterior of a `bk.regression`.
        variables: Columns to change; all by default. By default a number is raised by 1, 1 is
            compared with 0 in a column of zeros and ones, and each level of a factor with the
            first. A dict sets other contrasts: {"x": 5} for
            x + 5, {"x": (0, 10)}, or {"g": ("a", "b")} for two levels.
        newdata: Rows whose variable is changed, as in `predictions`.
        by: Averages, as in `predictions`, over all rows by default. Expectations are averaged
            before they are compared.
        groups: As in `predictions`.
        scale: As in `predictions`; "odds_ratio" compares probabilities.
        comparison: "difference", "ratio" or "odds_ratio".
        seed: Seed of the effects of new groups.

    Returns:
        A row for each contrast and average.

    Raises:
        ValueError: A column or level is unknown, naming the nearest one.
        TypeError: The posterior is not of a regression by formula.
    """
    compare, template, null = COMPARISONS[validation.one_of("comparison", comparison, COMPARISONS)]
    scale = "probability" if comparison == "odds_ratio" and scale == "response" else scale
    question = _Question.of(posterior, newdata, by, groups, scale, seed)
    parts = []
    for name, contrast in question.contrasts(variables).items():
        for label, low, high in _pairs(question.model, question.frame[name], contrast, template):
            values = compare(question.expected({name: high}), question.expected({name: low}))
            parts.append(({"term": name, "contrast": label}, values))
    return question.answers(parts, f"Comparisons ({comparison.replace('_', ' ')})", null)


def slopes(
    posterior: Fitted,
    variables: str | Sequence[str] | None = None,
    newdata: Any = None,
    by: By = True,
    groups: str = "known",
    scale: str = "response",
    seed: int = 0,
) -> Answers:
    """Derivatives of expected responses with respect to a variable, by central differences.

    Args:
        posterior: Posterior of a `bk.regression`.
        variables: Numeric columns; all by default.
        newdata: Rows at which the slopes are taken, as in `predictions`.
        by: Averages, as in `predictions`, over all rows by default.
        groups: As in `predictions`.
        scale: As in `predictions`.
        seed: Seed of the effects of new groups.

    Returns:
        A row for each variable and average.

    Raises:
        ValueError: A column is unknown, naming the nearest one, or is a factor, or all are.
        TypeError: The posterior is not of a regression by formula.
    """
    question = _Question.of(posterior, newdata, by, groups, scale, seed)
    parts, data = [], question.observed
    # Their paths have no derivatives.
    rough = times_of_walks(question.model)
    for name in question.contrasts(variables):
        if is_factor(question.model, name) or name in rough:
            if variables is None:
                continue
            kind = "in rw() or ar()" if name in rough else "a factor"
            raise ValueError(f"{name!r} is {kind} and has no slope: use bk.comparisons.")
        low, high = data[name].min(), data[name].max()
        step = STEP * float(high - low or 1.0)
        x = question.frame[name]
        # Steps inside the data stay there: some transforms have no values outside.
        x = x.where((x < low) | (x > high), x.clip(low + step, high - step)) if low < high else x
        above, below = question.expected({name: x + step}), question.expected({name: x - step})
        parts.append(({"term": name}, (above - below) / (2.0 * step)))
    if not parts:
        raise ValueError("no column has a slope, because all are factors: use bk.comparisons.")
    return question.answers(parts, "Slopes", 0.0)


def datagrid(
    source: Fitted | Regression, /, *, counterfactual: bool = False, **values: Any
) -> pd.DataFrame:
    """Table with all combinations of values of some columns of a regression.

    Args:
        source: The model, or its posterior.
        counterfactual: True to combine them with all rows of the data; by default with one row,
            which has numbers at their mean, times of rw and ar at the known time next to it,
            factors and groups at their most frequent level, and trials at their median.
        **values: Values by column: one, several, or a function of the column of the data.

    Returns:
        A data frame for `newdata=`.

    Raises:
        ValueError: A column is not in the formula, naming the nearest one.
    """
    model = regression_of(source)
    data = model.source.value.frame
    columns = columns_of_newdata(model, data)
    rest: Any = data[columns].drop(
        columns=[validation.one_of("column", name, columns) for name in values]
    )
    if not counterfactual:
        row_values, times = model.source.value.syntax.row_values, times_of_walks(model)
        typical = {
            name: column.mode().iloc[0]
            if is_factor(model, str(name)) or name == row_values.get("censored")
            else column.median().round()
            if name == row_values.get("trials")
            else column.iloc[(column - column.mean()).abs().argmin()]
            if name in times
            else column.mean()
            for name, column in rest.items()
        }
        rest = pd.DataFrame(typical, index=[0])
    for name, value in values.items():
        options: Any = value(data[name]) if callable(value) else value
        rest = pd.DataFrame({name: np.atleast_1d(options)}).merge(rest, how="cross")
    return rest[columns]


# -- rows and scales of a question -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Question:
    """Rows, averages and scale of a question to a posterior.

    Attributes:
        model: The model.
        draws: Draws of all sites, each (S, *site).
        frame: The rows.
        codes: Average to which each row belongs, (m,); None for no average.
        labels: Labels of the averages, or of the rows.
        groups, scale, seed: As in `predictions`.
    """

    model: Regression
    draws: dict[str, np.ndarray]
    frame: Any
    codes: np.ndarray | None
    labels: pd.DataFrame
    groups: str
    scale: str
    seed: int

    @property
    def observed(self) -> pd.DataFrame:
        """The data of the fit."""
        return self.model.source.value.frame

    @classmethod
    def of(
        cls, posterior: Any, newdata: Any, by: By, groups: str, scale: str, seed: int
    ) -> _Question:
        model = regression_of(posterior)
        if model is posterior:
            raise TypeError("a posterior is needed, not a model: pass bk.infer(model).")
        likelihood = model.likelihood
        has_odds = likelihood.classifies or likelihood.link_name in LOG_PROBABILITIES
        validation.one_of("scale", scale, SCALES if has_odds else ("response", "link"))
        if isinstance(newdata, str) and newdata in ("mean", "observed"):
            newdata = datagrid(model) if newdata == "mean" else None
        frame = model.source.value.table(newdata)
        columns = columns_of_newdata(model, frame, groups)
        if by is None or by is False:
            codes, labels = None, frame[columns]
        elif by is True:
            codes, labels = np.zeros(len(frame), int), pd.DataFrame(index=[0])
        else:
            names = [by] if isinstance(by, str) else list(by)
            names = [validation.one_of("by", name, frame.columns) for name in names]
            codes = frame.groupby(names, observed=True, dropna=False).ngroup().to_numpy()
            labels = frame[names].drop_duplicates().sort_values(names)
        draws = thinned(posterior, frame)
        if groups == "new" and len(next(iter(draws.values()))) == 1:
            # A point estimate still gives a distribution of the effects of new groups.
            draws = {site: np.repeat(x, DRAWS_AT_A_POINT, axis=0) for site, x in draws.items()}
        # The numbers of groups and levels are text in tables and pictures.
        known = [name for name in labels if name in model.source.value.frame]
        labels = labels.astype({name: object for name in known if is_factor(model, name)})
        labels = labels.reset_index(drop=True)
        return cls(model, draws, frame, codes, labels, groups, scale, validation.seed(seed))

    def expected(self, changed: Mapping[str, Any] | None = None) -> np.ndarray:
        """Average expectations with changed columns: (S, r), or (S, r, K) for K > 2 classes."""
        values = self._at_rows(self.frame.assign(**(changed or {})))
        if self.codes is None:
            return values
        if not self.codes.any():
            return values.mean(axis=1, keepdims=True)
        order, counts = np.argsort(self.codes, kind="stable"), np.bincount(self.codes)
        sums = np.add.reduceat(values[:, order], np.cumsum([0, *counts[:-1]]), axis=1)
        return sums / counts.reshape(-1, *[1] * (values.ndim - 2))

    def _at_rows(self, frame: pd.DataFrame) -> np.ndarray:
        """Expectations at rows: (S, m), or (S, m, K)."""
        rows = new_rows(self.model, self.draws, frame, self.groups, self.seed, {})
        if self.scale == "link":
            return rows.eta
        if self.scale != "response" and "trials" in rows.extra:
            rows = rows._replace(extra=rows.extra | {"trials": np.ones(len(frame))})
        mean = at_draws(self.model, self.draws, rows, expected)
        if self.scale != "log_odds":
            return mean
        # eta has no rounding error of probabilities close to 1.
        is_eta = mean.ndim == 2 and self.model.likelihood.link_name == "logit"
        return rows.eta if is_eta else logit(mean)

    def answers(
        self, parts: list[tuple[dict[str, str], np.ndarray]], what: str, null: float | None
    ) -> Answers:
        """Answers of parts, each with labels of its own and draws (S, r) or (S, r, K)."""
        frames, response = [], self.model.source.value.syntax.response
        for own, values in parts:
            labels = self.labels
            if values.ndim > 2:
                classes = pd.DataFrame({response: self.model.classes})
                labels = labels.drop(columns=response, errors="ignore").merge(classes, how="cross")
            own = {name: text for name, text in own.items() if name not in labels}
            frames.append(pd.concat([pd.DataFrame(own, labels.index), labels], axis=1))
        labels = pd.concat(frames, ignore_index=True)
        draws = np.concatenate([values.reshape(len(values), -1) for _, values in parts], axis=1)
        return Answers(labels, draws, what, self.scale, null)

    def contrasts(self, variables: Any) -> dict[str, Any]:
        """Contrast of each variable; None for the default."""
        variables = predictors(self.model) if variables is None else variables
        names = [variables] if isinstance(variables, str) else list(variables)
        for name in names:
            validation.one_of("variable", name, columns_of_newdata(self.model, self.observed))
            validation.one_of("variable of newdata", name, self.frame.columns)
        return dict(variables) if isinstance(variables, Mapping) else dict.fromkeys(names)


def regression_of(source: Any) -> Regression:
    """The regression of a posterior, or the model itself.

    Raises:
        TypeError: It is not of a regression by formula.
    """
    model = getattr(getattr(source, "known_target", source), "model", source)
    if not isinstance(model, Regression):
        what = f"{'a posterior of ' if model is not source else ''}{type(model).__name__}"
        raise TypeError(f"a posterior of bk.regression(formula, data) is needed; got {what}.")
    return model


def thinned(posterior: Fitted, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """Draws of all sites, as many as fit into memory with numbers at each row of a frame."""
    indices = thinned_draws(len(next(iter(posterior.flat.values()))), len(frame))
    return {site: values[indices] for site, values in posterior.flat.items()}


# -- values of variables ---------------------------------------------------------------------------


def predictors(model: Regression) -> list[str]:
    """Columns with effects: all but groups, offsets and values of rows such as trials."""
    frame, syntax = model.source.value.frame, model.source.value.syntax
    calls = tuple(call for call in syntax.calls if call.name != "offset")
    sources = replace(syntax, calls=calls, row_values={}).sources("new")
    sources += [effects.source.value.source for effects in model.distributional.values()]
    return required_columns(sources, frame, model.formulas[0])


def times_of_walks(model: Regression) -> set[str]:
    """Columns of the times of rw(t) and ar(t)."""
    calls = model.source.value.syntax.calls
    return {column for call in calls if call.name in ("rw", "ar") for column in call.arguments}


def is_factor(model: Regression, name: str) -> bool:
    """True if a column has levels: text, truth values, groups, C(x) and mo(x)."""
    column = model.source.value.frame[name]
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return True
    effects = [model.common, *model.terms, *model.distributional.values()]
    factors = [part.strip("`") for g in model.groups for part in g.group.split(":")]
    for term in [*effects, *(g.effects for g in model.groups)]:
        source: Any = term.source
        factors += [source] if isinstance(source, str) else source.value.factors
    return name in factors


def levels_of(column: pd.Series) -> list:
    """Levels of a column, in the order of its categories or sorted."""
    return list(pd.Categorical(column).remove_unused_categories().categories)


def _pairs(
    model: Regression, x: pd.Series, contrast: Any, template: str
) -> list[tuple[str, Any, Any]]:
    """Label, lower and higher value of each contrast of a variable with values x (m,)."""
    name, is_pair = str(x.name), np.ndim(contrast) == 1 and len(contrast) == 2
    if is_factor(model, name):
        levels = {str(level): level for level in levels_of(model.source.value.frame[name])}
        if contrast is not None and not is_pair:
            raise ValueError(
                f"the contrast of {name}, a factor, must be two levels; got {contrast}."
            )
        first, *others = levels if contrast is None else map(str, contrast)
        for level in (first, *others):
            if level not in levels:
                raise ValueError(
                    f"{name} has no level {level!r}.{suggestion(level, levels)} The levels are "
                    f"{abbreviated(levels, MAX_LEVELS_IN_MESSAGE)}."
                )
        return [(template.format(o, first), levels[first], levels[o]) for o in others]
    if is_pair:
        low, high = (validation.number(value, f"the contrast of {name}") for value in contrast)
        return [(template.format(number(high, 4), number(low, 4)), low, high)]
    if contrast is None and set(levels_of(model.source.value.frame[name])) == {0, 1}:
        return [(template.format(1, 0), 0, 1)]
    step = 1 if contrast is None else validation.number(contrast, f"the contrast of {name}")
    return [(f"{step:+g}", x, x + step)]
