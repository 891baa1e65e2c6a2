"""Series of a corpus of real ones: whatever they are, the numbers are finite and go together."""

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import bayeskern as bk
from tests.forecast.examples import consistent

PATH = Path(__file__).resolve().parents[3] / "shared" / "forecasting" / "corpus.csv.gz"
pytestmark = pytest.mark.skipif(
    not PATH.exists(), reason="no shared/forecasting/corpus.csv.gz beside the project"
)
# The unit of dates, and how many of it make a step.
STEPS = {
    "yearly": ("Y", 1),
    "biannually": ("M", 6),
    "quarterly": ("M", 3),
    "monthly": ("M", 1),
    "weekly": ("D", 7),
    "daily": ("D", 1),
}
# Series of each kind and period in every run, where they are short, and in the longer runs.
DEFAULT_SERIES, SLOW_SERIES = 1, 10
MAX_DEFAULT_LENGTH = 250


def cells():
    """Kind and period -> series, evenly spaced in the corpus, the shortest first."""
    rows = defaultdict(list)
    if PATH.exists():
        csv.field_size_limit(1 << 30)
        with gzip.open(PATH, "rt", newline="") as file:
            for row in csv.DictReader(file):
                if row["x"].count(";") >= 2:  # fewer than three values are refused
                    rows[row["kind"], row["period"]].append(row)
    spaced = {cell: of_cell[:: -(-len(of_cell) // SLOW_SERIES)] for cell, of_cell in rows.items()}
    return {cell: sorted(rows, key=lambda row: len(row["x"])) for cell, rows in spaced.items()}


CASES = [
    pytest.param(
        row,
        id=f"{'-'.join(cell)}-{row['id']}",
        marks=[pytest.mark.slow]
        * (i >= DEFAULT_SERIES or row["x"].count(";") >= MAX_DEFAULT_LENGTH),
    )
    for cell, rows in cells().items()
    for i, row in enumerate(rows)
]


@pytest.mark.parametrize("row", CASES)
def test_forecasts_of_a_corpus_are_finite_and_consistent(row):
    unit, count = STEPS[row["period"]]
    y = np.array([float(value) if value else np.nan for value in row["x"].split(";")])
    times = np.datetime64("1900-01-01", unit) + count * np.arange(len(y))
    f = bk.forecast(bk.read_series(y, times=times), int(row["horizon"]))
    consistent(f)
    came = np.array([float(value) for value in row["xx"].split(";")])
    assert not np.isnan(f.log_density(came)).any()
