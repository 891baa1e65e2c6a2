"""An estimate with its standard error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Estimate(NamedTuple):
    """A number and its standard error.

    Attributes:
        value: The number.
        error: Its standard error; 0 for an exact number, NaN if it is unknown.
    """

    value: float
    error: float

    def __repr__(self) -> str:
        error = "(error unknown)" if np.isnan(self.error) else f"± {self.error:.2g}"
        return f"{self.value:.6g} {error}"
