"""Values of the rows of a table beside effects: offsets, weights, trials, censoring."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array

from bayeskern.formula.frame import Columns, is_number, read_table
from bayeskern.formula.syntax import Syntax
from bayeskern.likelihoods.censored import AT_LEAST, AT_MOST, OBSERVED


@dataclass(frozen=True, eq=False)
class RowReader:
    """Reads the values of rows that are not effects.

    Attributes:
        syntax: The formula of the response.
        frame: The data of the fit.
    """

    syntax: Syntax
    frame: pd.DataFrame

    def table(self, newdata: Any) -> pd.DataFrame:
        """The table `newdata`, or the data of the fit for None."""
        return self.frame if newdata is None else read_table(newdata, "newdata")

    def offset(self, frame: pd.DataFrame, name: str = "data") -> Array:
        """Sum of the offsets of each row: (n,)."""
        offset = np.zeros(len(frame))
        for call in self.syntax.calls:
            if call.name == "offset":
                offset += self._values(call.arguments[0], frame, name)
        return jnp.asarray(offset)

    def weights(self, frame: pd.DataFrame) -> Array | None:
        """Weights of the rows, (n,), or None."""
        source = self.syntax.row_values.get("weights")
        if source is None:
            return None
        weights = self._values(source, frame)
        if (weights <= 0.0).any():
            row = int(np.argmax(weights <= 0.0))
            raise ValueError(f"weights must be above 0; row {row} has {weights[row]}.")
        return jnp.asarray(weights)

    def extra(
        self, frame: pd.DataFrame, name: str = "data", skipped: Iterable[str] = ()
    ) -> dict[str, np.ndarray]:
        """Values that the likelihood needs of each row, by name, except those skipped."""
        values = {}
        for key, source in self.syntax.row_values.items():
            if key == "censored" and key not in skipped:
                values[key] = _censoring(source, frame)
            elif key not in ("weights", *skipped):
                values[key] = self._values(source, frame, name)
        return values

    def _values(self, source: str, frame: pd.DataFrame, name: str = "data") -> np.ndarray:
        if is_number(source):
            return np.full(len(frame), float(source))
        # Transforms such as scale(x) keep the state of the data of the fit.
        columns, X = Columns.fit(f"0 + {source}", self.frame)
        if X.shape[1] != 1:
            raise ValueError(f"{source} must be one column of numbers; it is a factor.")
        return (X if frame is self.frame else columns(frame, name))[:, 0]


# Values of a column of censoring, as in brms.
CENSORING = {
    **dict.fromkeys(("none", 0, False), OBSERVED),
    **dict.fromkeys(("right", 1, True), AT_LEAST),
    **dict.fromkeys(("left", -1), AT_MOST),
}


def _censoring(column: str, frame: pd.DataFrame) -> np.ndarray:
    """Censoring of each value of the response: `OBSERVED`, `AT_LEAST` or `AT_MOST`."""
    codes = frame[column].map(lambda value: CENSORING.get(value, np.nan)).to_numpy(float)
    if np.isnan(codes).any():
        row = int(np.argmax(np.isnan(codes)))
        raise ValueError(
            f"censored({column}) is {frame[column].iloc[row]!r} in row {row}; it must be 'none', "
            "'right' (the observation is at least y) or 'left' (at most y), or 0, 1 or -1."
        )
    return codes
