"""The gallery: problems, verdicts, and known results on their data."""

import importlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import arviz as az
import numpy as np
import numpyro
import pytest
from scipy.integrate import quad

import bayeskern as bk
import models
from bayeskern import gallery
from bayeskern.inference.problem import Problem, bind
from bayeskern.protocols import DoesNotApplyError
from models import (
    airline,
    coal_mining,
    gp_classification,
    horseshoe,
    linear_regression,
    logistic_regression,
    motorcycle,
    robust_regression,
)
from tests.inference.methods.cases import CASES
from tests.marks import few

NAMES = sorted(path.stem for path in Path(models.__path__[0]).glob("[!_]*.py"))
REFERENCE = Path(__file__).parent / "reference"
# Methods whose fits of the whole gallery take minutes: `auto` runs the others, particles take more.
METHODS = {name: case for name, case in CASES.items() if name not in ("auto", "mle", "smc")}

# NIST Statistical Reference Datasets, Longley: certified values and their standard deviations, of
# the intercept and the six weights.
LONGLEY = np.array(
    [
        [-3482258.63459582, 890420.383607373],
        [15.0618722713733, 84.9149257747669],
        [-0.358191792925910e-01, 0.334910077722432e-01],
        [-2.02022980381683, 0.488399681651699],
        [-1.03322686717359, 0.214274163161675],
        [-0.511041056535807e-01, 0.226073200069370],
        [1829.15146461355, 455.478499142212],
    ]
)
CERTIFIED, CERTIFIED_SD = ({"intercept": x[0], "weights": x[1:]} for x in LONGLEY.T)
RESIDUAL_SD, FREE = 304.854073561965, 9


@cache
def fit(module, method):
    return bk.infer(module.model, *module.data(), method=method, seed=1, progress=False)


def test_names_and_titles():
    assert list(gallery.names()) == NAMES
    for name in NAMES:
        title = gallery.title(name)
        assert title == importlib.import_module(f"models.{name}").__doc__.splitlines()[0]
        assert title.endswith(".") and len(title) <= 80


@pytest.mark.parametrize("name", few(NAMES, "coin", "co2"))
def test_problems_of_the_gallery(name):
    problem = gallery.load(name)
    assert isinstance(problem, Problem)
    bound = bind(problem, (), {})
    # Values do not come from the prior, which may be improper.
    started = numpyro.handlers.substitute(
        numpyro.handlers.seed(bound.model, 0), substitute_fn=numpyro.infer.init_to_uniform
    )
    trace = numpyro.handlers.trace(started).get_trace(*bound.args, **bound.kwargs)
    assert all(np.all(np.isfinite(site["value"])) for site in trace.values())
    # Each site with named axes has a name for each axis.
    for site, axes in (problem.dims or {}).items():
        assert np.ndim(trace[site]["value"]) == len(axes)


# -- every backend against long runs ---------------------------------------------------------------


@cache
def reference(name):
    """Means and sds by site, of a long run (benchmarks/gallery_reference.py)."""
    text = (REFERENCE / f"{name}.json").read_text(encoding="utf-8")
    return {
        site: {k: np.array(v) for k, v in numbers.items()}
        for site, numbers in json.loads(text).items()
    }


def wrong(posterior, name) -> list[str]:
    """Sites with a mean off by more than 0.25 sd, or an sd off by more than 25 %."""
    found = []
    for site, numbers in reference(name).items():
        # Some methods integrate out sites.
        if site in posterior.flat:
            draws, sd = posterior.flat[site], numbers["sd"]
            shift = np.max(np.abs(draws.mean(axis=0) - numbers["mean"]) / sd)
            ratio = np.max(np.abs(draws.std(axis=0) / sd - 1.0))
            if not (shift < 0.25 and ratio < 0.25):
                found.append(f"{site}: mean off by {shift:.2f} sd, sd by {100 * ratio:.0f} %")
    assert set(reference(name)) & set(posterior.flat)
    return found


def test_long_runs_match_known_posteriors():
    assert {path.stem for path in REFERENCE.glob("*.json")} == set(NAMES)
    # p ~ Beta(16, 8), known up to the error of 5,000 effective draws: 0.014 sd
    p, sd = reference("coin")["p"], np.sqrt(2.0 / 225.0)
    assert abs(p["mean"] - 2.0 / 3.0) < 0.05 * sd
    np.testing.assert_allclose(p["sd"], sd, rtol=0.03)
    # posteriordb, eight_schools_noncentered
    for site, at, mean, sd in (
        ("mu", (), 4.4105, 3.3093),
        ("tau", (), 3.6021, 3.1985),
        ("theta", 0, 6.1505, 5.6159),
    ):
        found = reference("eight_schools")[site]
        assert abs(found["mean"][at] - mean) < 0.05 * sd
        assert abs(found["sd"][at] / sd - 1.0) < 0.06
    # The cycle of Wolf (1852)
    period = reference("sunspots")["cycle.periodic.period"]
    assert abs(period["mean"] - 11.1) < 3.0 * period["sd"]
    # The lasso selects these three first, and age last but one.
    names, weights = gallery.load("horseshoe").coords["feature"], reference("horseshoe")["weights"]
    away = dict(zip(names, np.abs(weights["mean"]) / weights["sd"], strict=True))
    assert min(away[name] for name in ("bmi", "s5", "bp")) > 3.0 and away["age"] < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method", "verdict"),
    [
        ("coin", "exact", "good"),
        ("coin", "map", "not assessable"),
        ("bimodal", "laplace", "bad"),
        ("bimodal", "importance", "good"),
        ("funnel", "laplace", "bad"),
        ("logistic_regression", "importance", "good"),
    ],
)
def test_verdicts_of_the_gallery(name, method, verdict):
    posterior = gallery.load(name).fit(METHODS[method], progress=False)
    assert posterior.trust.verdict == verdict, posterior.trust
    if verdict == "good":
        assert not wrong(posterior, name)
    if verdict == "bad":
        assert wrong(posterior, name)


# A fit of these takes a minute with some of the methods.
LONG = (
    "airline",
    "bayesian_network",
    "co2",
    "coal_mining",
    "gp_classification",
    "horseshoe",
    "housing",
    "motorcycle",
    "nile",
    "rats",
    "sunspots",
)
PAIRS = [
    pytest.param(name, method, marks=[pytest.mark.long] if name in LONG else [])
    for name, method in itertools.product(NAMES, METHODS)
]


@pytest.mark.slow
@pytest.mark.usefixtures("_few_executables_each")
@pytest.mark.parametrize(("name", "method"), PAIRS)
def test_no_verdict_good_is_wrong(name, method):
    try:
        posterior = gallery.load(name).fit(METHODS[method], progress=False)
    except DoesNotApplyError:
        assert method in ("exact", "laplace")
        return
    if method == "map":
        assert posterior.trust.verdict in ("bad", "not assessable"), posterior.trust
        return
    assert posterior.trust.verdict != "good" or not wrong(posterior, name), posterior.trust


# -- files of the user -----------------------------------------------------------------------------

OWN = """
import numpyro, numpyro.distributions as dist
from beside import Y
from bayeskern import Problem

def model(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

def problem():
    return Problem(model, (Y,))
"""


def test_file_can_import_its_neighbours(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    (tmp_path / "beside.py").write_text("Y = 2.5")
    path = tmp_path / "my own.py"
    path.write_text(OWN)
    before = list(sys.path)
    assert gallery.load(path).data == (2.5,) and gallery.load(str(path)).data == (2.5,)
    assert sys.path == before


BAD_FILES = {
    "a name error": ("x = 1\ny = foo\n", "line 2: NameError: name 'foo' is not defined"),
    "no Python": ("x = 1\ndef f(:\n", "line 2: SyntaxError: "),
    "an end": ("import sys\nsys.exit(3)\n", "line 2: SystemExit: 3"),
    "no problem": ("x = 1\n", r"has no function problem\(\)\. Add one"),
    "a problem that is none": (
        "def problem():\n    return 3\n",
        r"problem\(\) must return a bk\.Problem\(model, data\), got int",
    ),
    "a problem that fails": (
        "def helper():\n    return {}['a']\n\ndef problem():\n    return helper()\n",
        "line 2: KeyError: 'a'",
    ),
    "a model that cannot be called": (
        "from bayeskern import Problem\ndef problem():\n    return Problem(3)\n",
        "line 3: TypeError: model must be a callable NumPyro model; got int",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_errors_of_a_file_name_the_line(tmp_path, text, message):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as info:
        gallery.load(path)
    assert str(info.value).startswith(str(path))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("eight_school", "model='eight_school' is not known. Did you mean 'eight_schools'?"),
        ("models/nosuch/co2.py", "there is no file models/nosuch/co2.py. The gallery has 'co2'"),
        ("zzz.py", "there is no file zzz.py.$"),
    ],
)
def test_unknown_model_is_refused(source, message):
    with pytest.raises(ValueError, match=message):
        gallery.load(source)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "model.txt"
    path.write_text(OWN)
    with pytest.raises(ValueError, match=r"its name must end in \.py"):
        gallery.load(path)


@pytest.mark.slow
def test_installed_gallery(tmp_path):
    # The wheel has the files beside the code that reads them.
    package = Path(bk.__file__).parent
    installed = tmp_path / "bayeskern"
    shutil.copytree(package, installed, ignore=shutil.ignore_patterns("__pycache__"))
    for name in NAMES:
        shutil.copy(Path(models.__path__[0]) / f"{name}.py", installed / "gallery")
    code = (
        "from bayeskern import gallery; from bayeskern.gallery import coin; "
        "print(coin.__file__, gallery.find('co2'), *gallery.names())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    folder = installed / "gallery"
    assert done.stdout.split() == [str(folder / "coin.py"), str(folder / "co2.py"), *NAMES]


# -- known results on the data ---------------------------------------------------------------------


def test_airline_growth_and_season():
    _, standardised = airline.data()
    logs = np.log(bk.datasets.load("airline").values)
    np.testing.assert_allclose(standardised * logs.std() + logs.mean(), logs)
    by_year = np.exp(logs).reshape(12, 12)
    yearly = by_year.mean(axis=1)
    np.testing.assert_array_equal(yearly.round()[[0, -1]], [127, 476])
    assert round((yearly[-1] / yearly[0]) ** (1 / 11), 3) == 1.128
    season = (by_year / yearly[:, None]).mean(axis=0)
    np.testing.assert_allclose(season[[6, 7, 10]], [1.25, 1.25, 5 / 6], atol=0.02)


def test_coal_mining_rates_before_and_after_1890():
    years, disasters = coal_mining.data()
    assert len(years) == 112 and disasters.sum() == 191
    before, after = disasters[years < 1890], disasters[years >= 1890]
    assert (round(before.mean(), 1), round(after.mean(), 1)) == (3.2, 0.9)


@pytest.mark.slow
def test_shuttle_risk_in_the_cold():
    damaged = logistic_regression.data()[1]
    assert (len(damaged), damaged.sum()) == (23, 7)
    problem = gallery.load("logistic_regression")
    prediction = fit(logistic_regression, "importance").predict(*problem.predict)
    # Less certain than by maximum likelihood.
    assert 0.9 < prediction.mean[0] < 0.9996


def test_diabetes_matches_published_fits():
    from sklearn.linear_model import LinearRegression, lars_path

    X, y = horseshoe.data()
    names = gallery.load("horseshoe").coords["feature"]
    assert round(LinearRegression().fit(X, y).score(X, y), 2) == 0.52
    first = lars_path(X, y - y.mean(), method="lasso")[1][:3]
    assert [names[i] for i in first] == ["bmi", "s5", "bp"]


def test_motorcycle_noise_grows_after_the_crash():
    times, acceleration = motorcycle.data()
    assert 1.0 < acceleration[times < 14.0].std() < 2.0
    sd = {site: value["mean"] for site, value in reference("motorcycle").items()}
    scale = dict(zip(motorcycle.KNOTS, np.exp(sd["log_sd"]), strict=True))
    assert scale[5.0] < 2.0 and min(scale[t] for t in (20.0, 25.0, 30.0, 35.0)) > 20.0


# -- Longley ---------------------------------------------------------------------------------------


def test_longley_data_match_statsmodels():
    other = pytest.importorskip("statsmodels.api").datasets.longley.load_pandas()
    X, y = linear_regression.data()
    np.testing.assert_array_equal(X, other.exog)
    np.testing.assert_array_equal(y, other.endog)


@pytest.mark.slow
def test_longley_mode_has_the_certified_digits():
    found = fit(linear_regression, "map").draws
    for name, wanted in CERTIFIED.items():
        # The condition number of 5e9 costs about 4 of 15 digits, since columns are centred.
        np.testing.assert_allclose(found[name][0, 0], wanted, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["importance", "nuts"])
def test_longley_posterior_matches_certified_values(method):
    posterior = fit(linear_regression, method)
    assert posterior.trust.verdict == "good"
    draws = posterior.flat
    noise = mean_of_the_noise()
    error = 4.0 / np.sqrt(1000)
    np.testing.assert_allclose(draws["noise"].mean(), noise, rtol=error)
    for name, wanted in CERTIFIED.items():
        # Given the noise, weights are Gaussian; the certified covariance is at the certified noise.
        sd = CERTIFIED_SD[name] * np.sqrt(noise) / RESIDUAL_SD
        assert np.all(np.abs(draws[name].mean(axis=0) - wanted) < error * sd), name
        np.testing.assert_allclose(draws[name].std(axis=0), sd, rtol=error)


def mean_of_the_noise() -> float:
    """Posterior mean by quadrature over the sd s: s^-9 exp(-rss / (2 s^2)) times its prior."""
    prior = 1.0 / linear_regression.data()[1].std()

    def density(s):
        return (s / RESIDUAL_SD) ** -FREE * np.exp(-0.5 * FREE * (RESIDUAL_SD / s) ** 2 - prior * s)

    moments = [quad(lambda s, k=k: s**k * density(s), 50.0, 2e4, limit=500)[0] for k in (0, 2)]
    return moments[1] / moments[0]


# -- telephone calls -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["importance", "nuts"])
def test_robust_slope_resists_a_third_of_outliers(method):
    posterior = fit(robust_regression, method)
    assert posterior.trust.verdict == "good"
    slope = posterior.flat["weights"][:, 0]
    lower, upper = np.quantile(slope, [0.025, 0.975])
    # Tukey's biweight and the least median of squares; least squares has 5.04.
    assert lower < 1.10 < upper and lower < 1.15 < upper
    assert 1.0 < slope.mean() < 1.2 and slope.std() < 0.1
    assert np.quantile(posterior.flat["df"], 0.95) < 1.0


# -- iris ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_iris_leave_one_out_errors():
    posterior = fit(gp_classification, "laplace")
    # Probability of each class, leave-one-out.
    left_out = az.loo(posterior.to_arviz(), pointwise=True)
    chance = np.exp(left_out.elpd_i.values)
    assert 4 <= np.sum(chance < 0.5) <= 7
    # The posterior of the latent function is not Gaussian.
    assert posterior.trust.verdict == "caution" and "inner_khat" in posterior.trust.evidence
