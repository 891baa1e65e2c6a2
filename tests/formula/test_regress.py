"""The command `regress`, sentences on effects, and the report of a regression."""

import re

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk
from bayeskern import cli
from bayeskern.formula.averages import average_sentences


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Counts that a unit of x multiplies by 2, in ten shops that differ by an sd of .5."""
    rng = np.random.default_rng(0)
    shop, x = np.repeat(np.arange(10), 12), rng.normal(size=120)
    kind = rng.choice(["new", "old"], 120)
    eta = 1.0 + np.log(2.0) * x + 0.5 * rng.normal(size=10)[shop] + 0.3 * (kind == "old")
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    pd.DataFrame({"n": rng.poisson(np.exp(eta)), "x": x, "kind": kind, "shop": shop}).to_csv(path)
    return path


def test_regress_prints_the_effects_and_writes_the_files(visits, tmp_path, capsys):
    formula = "n ~ x + kind + (1 | shop)"
    arguments = ["--family", "poisson", "--method", "laplace", "--output", str(tmp_path)]
    with pytest.raises(SystemExit) as end:
        cli.main(["regress", str(visits), formula, *arguments])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "One unit more of x multiplies n by 1.9" in printed or "multiplies n by 2.0" in printed
    assert "kind = old rather than new multiplies n by 1." in printed
    assert "Groups of shop differ in n by a standard deviation of 0." in printed
    loaded = bk.load(tmp_path / "posterior.nc")
    table = pd.read_csv(tmp_path / "effects.csv", index_col=0)
    assert list(table.index[:3]) == ["Intercept", "x", "kind"]
    assert table.loc["x", "mean"] == pytest.approx(loaded.draws["x"].mean(), abs=0.01)
    page = (tmp_path / "report.html").read_text()
    for text in ("One unit more of x multiplies n by", "Effects of each shop in order", formula):
        assert text in page


def test_effects_in_several_terms_are_averaged(visits):
    frame = pd.read_csv(visits)
    model = bk.regression("n ~ x * kind", frame, "poisson")
    posterior = bk.infer(model, method="laplace", progress=False)
    slope, change = average_sentences(posterior)
    # The average over the data, by hand.
    draws, x, old = posterior.flat, frame["x"].to_numpy(), (frame["kind"] == "old").to_numpy(float)
    b = [np.ravel(draws[site])[:, None] for site in ("Intercept", "x", "kind", "x:kind")]

    def rate(x, old):
        return np.exp(b[0] + b[1] * x + b[2] * old + b[3] * x * old).mean()

    expected = rate(x, 1.0) - rate(x, 0.0), rate(x + 1.0, old) - rate(x, old)
    for sentence, words, value in zip(
        (slope, change),
        ("kind = old rather than new changes", "one unit more of x"),
        expected,
        strict=True,
    ):
        assert words in sentence
        number = float(re.search(r"expected n by (-?[\d.]+) ", sentence)[1])
        assert number == pytest.approx(value, rel=0.02)


def test_transforms_without_values_beyond_the_data_have_average_slopes(visits):
    frame = pd.read_csv(visits)
    model = bk.regression("n ~ bs(x, df=4)", frame, "poisson")
    posterior = bk.infer(model, method="laplace", progress=False)
    with pytest.raises(ValueError, match="beyond the data of the fit.*Take s"):
        bk.comparisons(posterior, "x")
    (sentence,) = average_sentences(posterior)
    slope = bk.slopes(posterior, "x").draws.mean()
    found = re.search(r"the slope of the expected n in x is (-?[\d.]+) ", sentence)
    assert float(found[1]) == pytest.approx(slope, rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["n ~ z"], "no column 'z'"),
        (["n ~ x +"], "cannot be read"),
        ([], "there is no formula"),
        (["n ~ x", "--family", "posson"], "Did you mean 'poisson'"),
        (["n ~ x", "--method", "nut"], "Did you mean 'nuts'"),
    ],
)
def test_regress_refuses_mistakes_in_a_line(visits, tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as end:
        cli.main(["regress", str(visits), *arguments, "--output", str(tmp_path)])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
