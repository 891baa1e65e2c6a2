"""Series of M1 (Makridakis et al., 1982) and of a corpus, with held-out parts."""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

MIN_CELL_SERIES = 20
PERIODS = ("yearly", "quarterly", "monthly", "weekly", "daily", "hourly")
FREQUENCIES = {
    "yearly": "YS",
    "biannually": "6MS",
    "quarterly": "QS",
    "monthly": "MS",
    "weekly": "W-SUN",
    "daily": "D",
    "hourly": "h",
}
M1_SEASONS = {"yearly": 1, "quarterly": 4, "monthly": 12}
HALVES = ("learn", "judge")


@dataclass(frozen=True)
class Series:
    """One series, divided into a training and a held-out part.

    Attributes:
        id: Its id in the file.
        cell: Name of its cell, such as "economics/weekly".
        x: Training part, shape (n,).
        y: Held-out part, shape (h,).
        period: Length of its season in steps; 1 for yearly data.
    """

    id: str
    cell: str
    x: np.ndarray
    y: np.ndarray
    period: int

    @property
    def season(self) -> int:
        """Season of the rivals and of the MASE scale: `period`, or 1 if n <= period."""
        return self.period if len(self.x) > self.period else 1

    @property
    def dated(self) -> pd.Series:
        """The training part at dates of its frequency."""
        frequency = FREQUENCIES[self.cell.split("/")[1]]
        return pd.Series(self.x, pd.date_range("1900-01-01", periods=len(self.x), freq=frequency))

    @property
    def mase_scale(self) -> float:
        """In-sample mean absolute seasonal difference; NaN if it is zero or undefined."""
        differences = np.abs(self.x[self.season :] - self.x[: -self.season])
        scale = np.mean(differences) if len(differences) else np.nan
        return float(scale) if scale > 0 else np.nan

    @property
    def half(self) -> str:
        """Half of the corpus by the parity of the SHA-256 hash of the id."""
        return HALVES[int(hashlib.sha256(self.id.encode()).hexdigest(), 16) % 2]


def values(text: str) -> np.ndarray:
    return np.array(text.split(";"), float)


def load_m1(path: Path) -> Iterable[Series]:
    """Series of m1.csv in the order of the file."""
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            period = row["period"].lower()
            x, y = values(row["x"]), values(row["xx"])
            yield Series(row["st"], f"M1/{period}", x, y, M1_SEASONS[period])


def load_corpus(path: Path) -> Iterable[Series]:
    """Series of corpus.csv.gz or long.csv.gz in the order of the file."""
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            cell = f"{row['kind']}/{row['period']}"
            x, y = values(row["x"]), values(row["xx"])
            # Hourly series have two seasons, the shorter one first.
            yield Series(row["id"], cell, x, y, int(row["season"].split(";")[0]))


def load(folder: Path) -> dict[str, list[Series]]:
    """Cell -> all its series; M1 first, weekly, daily and hourly data last."""
    csv.field_size_limit(1 << 30)
    cells: dict[str, list[Series]] = {}
    others = [load_corpus(folder / f"{name}.csv.gz") for name in ("corpus", "long")]
    for series in chain(load_m1(folder / "m1.csv"), *others):
        cells.setdefault(series.cell, []).append(series)

    def cost(cell: str):
        kind, period = cell.split("/")
        return kind != "M1", PERIODS.index(period), kind != "inventory", kind

    kept = [cell for cell, series in cells.items() if len(series) >= MIN_CELL_SERIES]
    return {cell: cells[cell] for cell in sorted(kept, key=cost)}


def select(series: list[Series], half: str, limit: int | None, every: int) -> list[Series]:
    """Series of one half of a cell, thinned by the interval `every`, at most `limit`."""
    return [s for s in series if half in ("both", s.half)][::every][:limit]
