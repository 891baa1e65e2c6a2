"""Tables of any library as pandas data frames, and columns of design matrices."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bayeskern.core.formatting import abbreviated, counted, suggestion
from bayeskern.formula.syntax import SPECIAL_TERMS

# Readers of files by suffix.
READERS = {
    ".csv": pd.read_csv,
    ".tsv": lambda path: pd.read_csv(path, sep="\t"),
    ".parquet": pd.read_parquet,
    ".xlsx": pd.read_excel,
}

# Functions in formulas beside those of formulaic.
NUMPY_FUNCTIONS = ("abs", "cos", "expm1", "floor", "log1p", "round", "sign", "sin", "sqrt", "tan")
# What to write in place of functions of R and Bambi.
REPLACEMENTS = {
    "cbind": "successes | trials(n) on the left",
    "gr": "(1 | group)",
    "hsgp": "gp(x)",
    "lo": "s(x)",
    "ns": "s(x), or cr(x, df=4, constraints='center')",
    "ordered": "mo(x)",
    "p": "successes | trials(n) on the left",
    "proportion": "successes | trials(n) on the left",
    "Surv": "time | censored(c) on the left",
    "t2": "gp(x, z)",
    "te": "gp(x, z)",
    "ti": "gp(x, z)",
}

# State of a specification of formulaic.
STATE = ("encoder_state", "transform_state")


def functions() -> dict[str, Any]:
    """Functions and modules that formulas can use, by name."""
    from formulaic.transforms import TRANSFORMS

    known = dict(TRANSFORMS) | {name: getattr(np, name) for name in NUMPY_FUNCTIONS}
    return known | {"factor": TRANSFORMS["C"]}


def read_table(data: Any, name: str = "data") -> pd.DataFrame:
    """Read a table: a data frame of any library, a dict of columns, or a file.

    Raises:
        TypeError: The table has another type.
        ValueError: The file has an unknown suffix, or the table has no rows.
    """
    if isinstance(data, str | PathLike):
        suffixes = [
            suffix for suffix in Path(data).suffixes if suffix not in (".gz", ".zip", ".bz2")
        ]
        reader = READERS.get(suffixes[-1].lower() if suffixes else "")
        if reader is None:
            raise ValueError(
                f"{name}={str(data)!r} must be a file with the suffix {', '.join(READERS)}, or a "
                "data frame."
            )
        frame = reader(data)
    elif isinstance(data, pd.DataFrame):
        frame = data
    elif isinstance(data, Mapping):
        one_row = bool(data) and all(np.ndim(value) == 0 for value in data.values())
        try:
            frame = pd.DataFrame([data] if one_row else dict(data))
        except ValueError as error:
            raise ValueError(
                f"{name} must have lists of the same length as its columns: {error}."
            ) from None
    elif hasattr(data, "columns"):
        frame = _from_narwhals(data)
    else:
        raise TypeError(
            f"{name} must be a data frame (pandas, polars or another that narwhals reads), a dict "
            f"of columns or a file; got {type(data).__name__}."
        )
    if not len(frame):
        raise ValueError(f"{name} has no rows.")
    frame = frame.rename(columns=str).reset_index(drop=True)
    if not frame.columns.is_unique:
        double = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{name} has two columns with the name {double!r}. Rename one of them.")
    return frame


def _from_narwhals(data: Any) -> pd.DataFrame:
    import narwhals as nw

    frame = nw.from_native(data, eager_only=True)
    columns = {}
    for column, dtype in frame.schema.items():
        values = frame[column].to_list()
        is_enum = isinstance(dtype, nw.Enum)
        columns[column] = pd.Categorical(values, dtype.categories) if is_enum else values
    return pd.DataFrame(columns)


def required_columns(
    sources: Iterable[str], frame: pd.DataFrame, formula: str, name: str = "data"
) -> list[str]:
    """Columns that the terms of a formula name.

    Raises:
        ValueError: A column is missing; the message names the nearest one.
    """
    from formulaic import Formula
    from formulaic.errors import FormulaSyntaxError
    from formulaic.utils.variables import get_required_variables

    used: dict[str, None] = {}
    known = functions()
    for source in sources:
        if is_number(source):
            continue
        try:
            terms = list(Formula(f"0 + {source}", _ordering="none"))  # pyright: ignore
        except (SyntaxError, FormulaSyntaxError):
            raise ValueError(f"formula {formula!r} has {source!r}, which cannot be read.") from None
        for factor in (factor for term in terms for factor in term.factors):
            names = {str(name.root) for name in factor.required_variables}
            if factor.eval_method.value == "python":
                # `required_variables` leaves out the arguments of stateful transforms.
                names = {str(name.root) for name in get_required_variables(factor.expr)}
                for function in sorted(names - known.keys() - set(frame.columns)):
                    _require_no_call(function, factor.expr, formula)
                names -= known.keys()
            used |= dict.fromkeys(sorted(names))
    require(used, frame, f"the formula {formula!r}", name)
    return list(used)


def _require_no_call(function: str, source: str, formula: str) -> None:
    """Raise ValueError, with a replacement, if this unknown name is called."""
    if re.search(rf"(?<![\w.]){re.escape(function)}\(", source) is None:
        return
    known = ", ".join([*SPECIAL_TERMS, *sorted(functions())])
    instead = REPLACEMENTS.get(
        function,
        f"np.{function} if NumPy has it, compute the column before, or take one of {known}",
    )
    raise ValueError(
        f"the formula {formula!r} calls {function}(), which is no function of formulas. Write "
        f"{instead}."
    )


def is_number(source: str) -> bool:
    """True for the source of a number, such as trials(30) has."""
    return re.fullmatch(r"\d+(\.\d*)?", source) is not None


def require(columns: Iterable[str], frame: pd.DataFrame, user: str, name: str) -> None:
    """Raise ValueError, with the nearest name, if a column is missing that `user` names."""
    for column in columns:
        if column not in frame.columns:
            hint = suggestion(column, frame.columns)
            raise ValueError(
                f"{name} has no column {column!r}, which {user} names.{hint} The columns are "
                f"{', '.join(map(repr, frame.columns))}."
            )


def complete_rows(frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Drop rows with missing values in these columns, with a warning.

    Raises:
        ValueError: No row is complete.
    """
    missing = frame[columns].isna().to_numpy()
    dropped = missing.any(axis=1)
    if not dropped.any():
        return frame
    incomplete = [c for c, gaps in zip(columns, missing.T, strict=True) if gaps.any()]
    message = (
        f"{counted(int(dropped.sum()), 'row')} of {len(frame):,} "
        f"{'lack' if dropped.sum() > 1 else 'lacks'} a value in {abbreviated(incomplete)}"
    )
    if dropped.all():
        raise ValueError(f"{message}, so no complete row is left.")
    left_out = "they are" if dropped.sum() > 1 else "it is"
    warnings.warn(f"{message}: {left_out} left out.", UserWarning, stacklevel=3)
    return frame.iloc[np.flatnonzero(~dropped)].reset_index(drop=True)


def without_unused_levels(frame: pd.DataFrame) -> pd.DataFrame:
    """Copy whose unordered categories are those of the rows."""
    kinds = frame.dtypes.items()
    names = [c for c, k in kinds if isinstance(k, pd.CategoricalDtype) and not k.ordered]
    return frame.assign(**{c: frame[c].cat.remove_unused_categories() for c in names})


class BeyondDataError(ValueError):
    """A transform such as bs(x) has no values at new data beyond those of the fit."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns of a design matrix, and the same columns of new data.

    Attributes:
        source: Formula of the columns, such as "1 + x + C(g)".
        spec: formulaic's specification, with the state of transforms and the levels.
        names: Names of the columns.
        terms: Slice of the columns of each term, by the name of the term.
    """

    source: str
    spec: Any
    names: tuple[str, ...]
    terms: Mapping[str, slice]

    @classmethod
    def fit(cls, source: str, frame: pd.DataFrame) -> tuple[Columns, np.ndarray]:
        """Columns of the data, (n, k), and their specification."""
        from formulaic import Formula
        from formulaic.errors import FormulaicError

        try:
            formula: Any = Formula(source, _ordering="none")  # pyright: ignore
            # Values that are not finite get an error of their own.
            with np.errstate(all="ignore"):
                matrix = formula.get_model_matrix(
                    frame, functions(), na_action="ignore", output="numpy"
                )
        except (FormulaicError, TypeError) as error:
            is_date = pd.api.types.is_datetime64_any_dtype
            dates = [c for c in required_columns([source], frame, source) if is_date(frame[c])]
            reason = f"{dates[0]!r} has dates" if dates else str(error)
            raise ValueError(
                f"{source!r} cannot be evaluated: {reason}. Columns must be numbers or text; make "
                "dates numbers, such as days since the first."
            ) from None
        spec = matrix.model_spec
        slices = spec.term_slices.items()
        terms = {"Intercept" if str(term) == "1" else str(term): s for term, s in slices}
        columns = cls(source, spec, tuple(spec.column_names), terms)
        return columns, columns._finite(matrix, frame, "data")

    def __call__(self, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
        """Columns of new data: (m, k).

        Raises:
            ValueError: A factor has a level that the data of the fit lack.
            BeyondDataError: A transform has no values beyond the data of the fit.
        """
        from formulaic.errors import DataMismatchWarning, FormulaicError

        variables = {str(variable) for variable in self.spec.required_variables}
        require(sorted(variables - functions().keys()), frame, f"{self.source!r}", name)
        # formulaic would take numbers as they are where the data of the fit had levels.
        text = {column: object for column in self._plain_factors if column in frame.columns}
        # formulaic writes to the state, also of columns that it then refuses.
        state = {name: deepcopy(getattr(self.spec, name)) for name in STATE}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", DataMismatchWarning)
            try:
                matrix = self.spec.update(**state).get_model_matrix(frame.astype(text), functions())
            except DataMismatchWarning as mismatch:
                levels = str(mismatch).partition(": {")[2].partition("}")[0]
                raise ValueError(
                    f"{name} has the levels {levels} in {self.source!r}, which the data of the fit "
                    f"do not have. The known levels are {self._levels()}."
                ) from None
            except (FormulaicError, TypeError) as error:
                if "extend beyond" in str(error):
                    raise BeyondDataError(
                        f"{name} has values in {self.source!r} beyond the data of the fit, where "
                        "B-splines are not defined. Take s(x), which goes on as a line."
                    ) from None
                raise ValueError(
                    f"{name} has values in {self.source!r} of another kind than the data of the "
                    f"fit: {error}"
                ) from None
        return self._finite(matrix, frame, name)

    @property
    def factors(self) -> set[str]:
        """Columns of the data that are encoded by their levels."""
        variables = self.spec.factor_variables
        return {str(name) for factor in self._categorical for name in variables[factor]}

    @property
    def _categorical(self) -> list[Any]:
        states = self.spec.encoder_state
        known = [factor for factor in self.spec.factor_variables if str(factor) in states]
        return [factor for factor in known if states[str(factor)][0].value == "categorical"]

    @property
    def _plain_factors(self) -> list[str]:
        """Columns that are factors as they are, without a call such as C(x)."""
        return [f.expr for f in self._categorical if f.eval_method.value == "lookup"]

    def _levels(self) -> str:
        states = (
            (factor, state[1].get("categories"))
            for factor, state in self.spec.encoder_state.items()
        )
        return "; ".join(f"{factor}: {', '.join(map(str, c))}" for factor, c in states if c)

    def _finite(self, matrix: Any, frame: pd.DataFrame, name: str) -> np.ndarray:
        values = np.asarray(matrix, float)
        bad = ~np.isfinite(values)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ValueError(
                f"{self.names[column]} is {values[row, column]} in row {row} of {name}; give "
                "finite values, for example a logarithm of positive numbers only."
            )
        return values


def group_labels(source: str, frame: pd.DataFrame, name: str = "newdata") -> np.ndarray:
    """Label of the group of each row; parts of an interaction `a:b` are joined by ':'.

    Raises:
        ValueError: A column is missing, or a row has no value in it.
    """
    parts = [part.strip("`") for part in source.split(":")]
    require(parts, frame, f"the grouping factor {source!r}", name)
    for part in parts:
        is_missing = frame[part].isna().to_numpy()
        if is_missing.any():
            row = int(np.argmax(is_missing))
            raise ValueError(
                f"{name} has no value of {part!r} in row {row}; give each row a group."
            )
    labels = [np.asarray(frame[part].astype(object)) for part in parts]
    if len(labels) == 1:
        return labels[0]
    return np.array([":".join(map(str, row)) for row in zip(*labels, strict=True)], dtype=object)
