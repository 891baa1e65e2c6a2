"""Small real series to try things on, each with its source and its licence (in SOURCES.md)."""

import csv
import difflib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Dataset", "load", "names"]

_HERE = Path(__file__).parent
_PUBLIC = "public domain (as stated by statsmodels)"
_FACTS = "measured numbers as published; the source states no licence"

# name: title, dtype of the times, source, licence
_ABOUT = {
    "airline": (
        "International airline passengers, thousands a month, 1949-1960",
        "datetime64[D]",
        "Box, Jenkins and Reinsel (1976), Time Series Analysis, 3rd ed., Holden-Day, Series G",
        _FACTS,
    ),
    "co2": (
        "Atmospheric CO2 at Mauna Loa, ppm, monthly means of weekly values, 1958-2001",
        "datetime64[D]",
        "Keeling and Whorf (2004), Atmospheric CO2 concentrations from flask air samples, CDIAC",
        _PUBLIC,
    ),
    "motorcycle": (
        "Head acceleration (g) against time (ms) in a simulated motorcycle accident",
        "float64",
        "Silverman (1985), Some aspects of the spline smoothing approach, JRSS B 47, 1-52",
        _FACTS,
    ),
    "nile": (
        "Yearly flow of the Nile at Aswan, 10^8 m^3, 1871-1970",
        "int64",
        "Cobb (1978), The problem of the Nile, Biometrika 65, 243-251",
        _PUBLIC,
    ),
    "sunspots": (
        "Yearly mean sunspot number (version 1), 1700-2008",
        "int64",
        "National Geophysical Data Center, NOAA",
        _PUBLIC,
    ),
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """A series that comes with the package.

    Attributes:
        name: The name that `load` takes.
        title: What was measured, where and when, and its unit.
        times: Dates (datetime64[D]), years (int64) or numbers (float64), shape (n,).
        values: The values (float64), shape (n,); NaN where one is missing.
        time_name: The name of the column of times.
        value_name: The name of the column of values.
        source: The publication that the numbers are from.
        licence: The terms under which they may be used.
        path: The CSV file.
    """

    name: str
    title: str
    times: np.ndarray
    values: np.ndarray
    time_name: str
    value_name: str
    source: str
    licence: str
    path: Path


def names() -> tuple[str, ...]:
    """Return the names that `load` takes, in alphabetical order."""
    return tuple(_ABOUT)


def load(name: str) -> Dataset:
    """Read one of the series that come with the package.

    Args:
        name: One of `names()`, such as "co2".

    Raises:
        ValueError: If there is no series of that name; the message has the nearest one.

    Examples:
        >>> from bayeskern import datasets
        >>> nile = datasets.load("nile")
        >>> nile.times[:2], nile.values[:2]
        (array([1871, 1872]), array([1120., 1160.]))
    """
    if name not in _ABOUT:
        nearest = difflib.get_close_matches(str(name).lower(), _ABOUT, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}? " if nearest else ""
        raise ValueError(f"name: no dataset {name!r}; {hint}there are {', '.join(_ABOUT)}")
    title, kind, source, licence = _ABOUT[name]
    path = _HERE / f"{name}.csv"
    with path.open(newline="", encoding="utf-8") as file:
        (time_name, value_name), *rows = csv.reader(file)
    times = np.array([time for time, _ in rows]).astype(kind)
    values = np.array([float(value or "nan") for _, value in rows])
    return Dataset(name, title, times, values, time_name, value_name, source, licence, path)
