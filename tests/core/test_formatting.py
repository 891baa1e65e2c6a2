"""Numbers and names as text."""

import numpy as np
import pytest

from bayeskern.core.formatting import abbreviated, alike, counted, number, short, suggestion


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 axes"), (1, "1 axis"), ("1", "1 axis"), (2, "2 axes")]
)
def test_counted(count, said):
    assert counted(count, "axis", "axes") == said
    assert counted(count, "draw").endswith("s") == (said[0] != "1")
    assert counted(count, "new series") == f"{count} new series"


def test_names_are_abbreviated_and_suggested():
    assert abbreviated(["a", 1, "c"]) == "a, 1, c"
    assert abbreviated("abcd", 2) == "a, b, ..."
    assert suggestion("nutz", ["laplace", "nuts"]) == " Did you mean 'nuts'?"
    assert suggestion("x", ["laplace", "nuts"]) == ""


def test_short_keeps_both_ends_of_a_name():
    assert short("slope", 5) == "slope"
    name = "kernel.seasonal.lengthscale[12]"
    assert len(short(name, 20)) == 20
    assert short(name, 20).startswith("kernel.se") and short(name, 20).endswith("scale[12]")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-3.0, "-3"),
        (1234.6, "1,235"),
        (0.012345, "0.0123"),
        (1e-9, "1e-09"),
        (np.nan, "-"),
        (np.inf, "∞"),
    ],
)
def test_number(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("values", "spread", "texts"),
    [
        ((1234.56789, 0.0142), 0.0142, ("1,234.5679", "0.0142")),
        ((371.438, 372.8), 1.0, ("371.44", "372.80")),
        ((-0.00004, 0.5), 0.5, ("0.0000", "0.5000")),
        ((1.5e-7, 2e-8), 2e-8, ("1.500e-07", "2.00e-08")),
        ((3.2e12, 1e9), 1e9, ("3.20000e+12", "1.00e+09")),
        # Positive numbers: 0.0003 must not be rounded to 0.
        ((1000.0, 0.0003), 5e4, ("1,000", "0.0003")),
        ((2.0, np.nan), 0.5, ("2.000", "-")),
        ((12.34567, 3.0), 0.0, ("12.35", "3")),
        ((0.1, 1.4e-17), 1.4e-17, ("0.1", "1.4e-17")),
        ((12.34567, -np.inf), np.nan, ("12.35", "-∞")),
    ],
)
def test_alike(values, spread, texts):
    assert alike(values, spread) == texts
