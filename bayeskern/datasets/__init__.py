"""Small real series for examples, each with its source and its licence (in SOURCES.md)."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayeskern.core import validation

__all__ = ["Dataset", "load", "names"]

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
        name: Name for `load`.
        title: Measured quantity, its unit, place and time.
        times: Dates (datetime64[D]), years (int64) or numbers (float64), shape (n,).
        values: Values (float64), shape (n,); NaN where one is missing.
        time_name: Name of the column of times.
        value_name: Name of the column of values.
        source: Publication of the data.
        licence: Terms of use.
        path: CSV file.
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
    """Return the names of all series, in alphabetical order."""
    return tuple(_ABOUT)


def load(name: str) -> Dataset:
    """Load a series that comes with the package.

    Args:
        name: One of `names()`, such as "co2".

    Raises:
        ValueError: No series has that name; the message suggests the nearest one.

    Examples:
        >>> from bayeskern import datasets
        >>> nile = datasets.load("nile")
        >>> nile.times[:2], nile.values[:2]
        (array([1871, 1872]), array([1120., 1160.]))
    """
    title, kind, source, licence = _ABOUT[validation.one_of("name", name, _ABOUT)]
    path = Path(__file__).with_name(f"{name}.csv")
    with path.open(newline="", encoding="utf-8") as file:
        (time_name, value_name), *rows = csv.reader(file)
    times = np.array([time for time, _ in rows]).astype(kind)
    values = np.array([float(value or "nan") for _, value in rows])
    return Dataset(name, title, times, values, time_name, value_name, source, licence, path)
