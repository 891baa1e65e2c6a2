"""The report: its sections, escaped names, refused input, and numbers of ArviZ."""

import dataclasses
import re

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from scipy.stats import beta

import bayeskern as bk
from bayeskern import gallery
from bayeskern.kernels import RBF, Linear, Periodic
from bayeskern.reports import report
from bayeskern.reports.blocks import missing
from bayeskern.reports.document import FORECAST_SECTIONS, SECTIONS, _blocks
from bayeskern.reports.sections.comparison import Compared, comparison
from bayeskern.reports.subject import Subject
from tests.diagnostics.calibration.known_posteriors import Y_MEAN, Conjugate, mean_of
from tests.marks import few
from tests.reports.pages import Page, page_of

# Sections of every report on a single posterior.
ALWAYS = set(SECTIONS) - {"calibration"}
HOSTILE = "<script>alert(1)</script>"
rng = np.random.default_rng(0)
X = rng.normal(size=40)
Y = 1.0 + 2.0 * X + 0.5 * rng.normal(size=40)


def line(x, y):
    level = numpyro.sample("level", dist.Normal(0.0, 5.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 5.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(level + slope * x, sigma), obs=y)


def hostile(x, y):
    a = numpyro.sample("<b>$a$", dist.Normal(0.0, 5.0))
    with numpyro.plate("row", len(y)):
        numpyro.sample(HOSTILE, dist.Normal(a, 1.0), obs=y)


def read(posterior, folder, **options) -> tuple[Page, str]:
    path = report(posterior, folder / "report.html", **options)
    text = path.read_text(encoding="utf-8")
    return Page(text), text


def fit(method, model=line, data=(X, Y)):
    return bk.infer(model, *data, method=method, seed=0, progress=False)


def classes():
    x = np.linspace(-2.0, 2.0, 40)
    y = np.random.default_rng(1).uniform(size=40) < 1.0 / (1.0 + np.exp(-3.0 * x))
    model = bk.LatentGP(RBF(1.0, dist.HalfNormal(3.0)), bk.likelihoods.Bernoulli())
    return fit("laplace", model, (x, y))


def exact_process():
    x = np.linspace(0.0, 6.0, 40)
    y = np.sin(2.0 * np.pi * x) + 0.5 * x
    kernel = Periodic(1.0, 1.0).named("season") + RBF(5.0, 4.0).named("trend")
    return fit("exact", bk.GPRegression(kernel, noise=0.01), (x, y))


def free_process():
    """The README's example, with fewer rows."""
    x = np.linspace(0.0, 4.0, 40)
    y = 0.3 * x + np.sin(2.0 * np.pi * x) + 0.1 * np.random.default_rng(0).normal(size=40)
    season = Periodic(period=1.0) * RBF(lengthscale=dist.LogNormal(3.0, 0.5))
    kernel = Linear(variance=dist.HalfNormal(0.3)).named("growth") + season.named("season")
    noise = bk.from_sd(dist.HalfNormal(0.1))
    return fit("laplace", bk.GPRegression(kernel, noise=noise), (x, y))


def straight_line():
    frame = pd.DataFrame({HOSTILE: X, "other": rng.normal(size=40)})
    prior, noise = bk.priors.Conjugate(), dist.InverseGamma(2.0, 1.0)
    model = bk.BayesianLinearRegression(prior=prior, noise_variance=noise)
    return fit("exact", model, (frame, Y))


def series():
    t = np.arange(48)
    return bk.forecast(5.0 + np.sin(2 * np.pi * t / 12) + 0.02 * t, 12, season=12)


def counts():
    mean = 4.0 + 2.0 * np.sin(np.arange(48) * 2 * np.pi / 12)
    y = np.random.default_rng(2).poisson(mean).astype(float)
    return bk.forecast(y, 12, season=12, likelihood="poisson")


MAKERS = {
    "nuts": lambda: fit(bk.NUTS(warmup=300, draws=300)),
    "laplace": lambda: fit("laplace"),
    "svi": lambda: fit(bk.SVI(steps=400)),
    "importance": lambda: fit("importance"),
    "map": lambda: fit("map"),
    "exact process": exact_process,
    "process": free_process,
    "linear regression": straight_line,
    "classes": classes,
    "forecast": series,
    "forecast of counts": counts,
}
# Words that the report on each must contain.
SAID = {
    "nuts": ("r_hat", "E-BFMI", "elpd_loo", "LOO-PIT"),
    "laplace": ("Pareto k-hat of the weights", "elpd_loo", "gap", "made a little stronger"),
    "svi": ("The ELBO during the fit of the approximation", "k-hat of the weights"),
    "importance": ("Distinct draws", "of the weight"),
    "map": ("smallest curvature", "A point has no intervals", "LOO needs a spread"),
    "process": ("from_sd(HalfNormal(0.1))",),
    "exact process": (
        "closed form",
        "repeats every 1",
        "a rise more than 99 %",
        "LOO-PIT",
    ),
    "linear regression": ("closed form", HOSTILE, "elpd_loo"),
    "classes": (
        "by its predicted probability (isotonic regression)",
        "The latent function",
        "is not split into components",
        "with the observation left out, the predicted value with it",
    ),
    "forecast": (
        "History and forecast",
        "repeats every 12 steps",
        "80 % intervals held",
        "seasonal naive",
        "weighted by the accuracy of their past forecasts",
        "LOO-PIT: the quantile of each observation",
    ),
    "forecast of counts": ("The PIT of a whole number", "observations inside"),
}


@pytest.fixture(scope="module")
def made():
    found = {}

    def get(name):
        if name not in found:
            found[name] = MAKERS[name]()
        return found[name]

    return get


@pytest.mark.parametrize("name", few(MAKERS, "laplace"))
def test_report_has_all_sections_and_no_links(name, made, tmp_path):
    page, text = read(made(name), tmp_path)
    wanted = FORECAST_SECTIONS if name.startswith("forecast") else SECTIONS
    sections = [i for i in page.ids if i in wanted]
    # The answer, how far to trust it, diagnostics; in the table of contents too.
    assert sections == [i for i in wanted if i != "calibration"]
    targets = [attrs["href"][1:] for tag, attrs in page.tags if tag == "a" and "href" in attrs]
    assert [t for t in targets if t != "verdict"] == [i for i in sections if i != "verdict"]
    # Thresholds stand in tables of evidence and after "What to look for"; nothing says "Good:".
    assert "Good:" not in text and "nan" not in page.words.split()
    assert len(set(page.ids)) == len(page.ids)
    assert len(text) < 3_000_000
    assert not re.search(r"(https?:)?//[a-z]", re.sub(r"base64,[^\"]*", "", text))
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "iframe", "link", "object"})
    said = " ".join(page.text)
    assert "could not be made" not in said
    for words in SAID[name]:
        assert words in said
    # No section is empty, and each figure has a caption.
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.S)
    assert len(captions) == text.count("<figure>") >= 2
    assert not re.search(r"</h2>\s*</section>", text)


def test_a_section_that_cannot_be_made_warns():
    """The default tests turn the warning into an error."""

    def broken(subject):
        yield missing("before the error")
        raise KeyError("a fault")

    says = "could not be made: KeyError: 'a fault'"
    with pytest.warns(RuntimeWarning, match=says):
        blocks = _blocks(broken, None)
    assert "before the error" in blocks[0].html() and "could not be made" in blocks[1].html()
    with pytest.raises(RuntimeWarning, match=says):
        _blocks(broken, None)


@pytest.mark.slow
def test_table_compares_several_posteriors(made, tmp_path):
    found = {HOSTILE: made("laplace"), "nuts": made("nuts")}
    page, text = read(found, tmp_path)
    assert HOSTILE not in text
    rows = page.table("posterior", "method", "verdict")
    assert {n: row["method"] for n, row in rows.items()} == {HOSTILE: "laplace", "nuts": "nuts"}
    wanted = bk.compare(found).table["nuts"]
    assert rows["nuts"]["elpd (LOO)"] == f"{wanted['elpd']:.2f} ± {wanted['elpd_error']:.2f}"
    assert {f"p{i}-{name}" for i in (0, 1) for name in ALWAYS} <= set(page.ids)
    # One model of the same data is described once, and each posterior is folded.
    assert "fitted" in page.ids and text.count("def line(x, y):") == 1
    assert text.count('<details class="chapter">') == 2 and page.count("pre") == 1


@pytest.mark.slow
def test_eight_schools_by_four_methods_has_at_most_900_words_in_view(tmp_path):
    """Words of the page without its folded parts; words in figures are not counted."""
    problem = gallery.load("eight_schools")
    methods = ("laplace", "svi", "importance", "nuts")
    fits = {m: problem.fit(m, seed=0, progress=False) for m in methods}
    page, text = read(fits, tmp_path, title=gallery.title("eight_schools"))
    assert len(page.in_view) < 900
    assert " ".join(page.text).count(gallery.title("eight_schools")) == 2
    # Labels in place of indices, in verdicts, tables and figures; one table of priors.
    assert "theta[A]" in text and not re.search(r"(theta|standardised)\[\d", text)
    assert text.count("HalfCauchy(5)") == 1 and "nan ± nan" not in text
    # Estimates of the posterior with the best evidence come before the verdicts on the others.
    assert text.index("Estimates by nuts") < text.index('id="verdict"') < text.index('id="p0"')


@pytest.mark.slow
def test_answer_of_a_closed_form_is_exact(tmp_path):
    page, _ = read(gallery.load("coin").fit("exact", progress=False), tmp_path)
    assert "What do 20 values of y say about p?" in page.words
    row = page.table("parameter", "mean")["p"]
    low, high = beta(16, 8).interval(0.89)
    assert row["mean"] == "0.6667" and row["89 % interval"] == f"{low:.4f} to {high:.4f}"
    assert "p ~ Beta(16, 8) (prior Beta(2, 2))" in page.words
    assert len(page.in_view) < 350


@pytest.mark.slow
def test_differences_need_a_reference(made):
    subjects = [Subject(made(name), name) for name in ("laplace", "map")]
    said = page_of(comparison(Compared(subjects))).words
    assert "there is no reference" in said and "The worst parameter" not in said


@pytest.mark.slow
def test_names_are_escaped(made, tmp_path):
    of_model = fit("laplace", hostile)
    for posterior, name in ((made("linear regression"), HOSTILE), (of_model, "<b>$a$")):
        page, text = read(posterior, tmp_path)
        assert name in "".join(page.text)
        assert name not in text and "<script" not in text
        assert all(not k.startswith("on") for _, attrs in page.tags for k in attrs)


@pytest.mark.slow
def test_bad_verdict_comes_first(tmp_path):
    posterior = fit(bk.NUTS(warmup=20, draws=20, chains=2))
    assert posterior.trust.verdict == "bad"
    page, text = read(posterior, tmp_path)
    # In brief before any number, with its reason after the answer.
    assert text.index('class="chip bad"') < text.index("<table")
    assert 'class="verdict bad"' in text
    assert " ".join(posterior.trust.advice.split()) in page.words


@pytest.mark.slow
def test_numbers_match_arviz(made, tmp_path):
    posterior = made("nuts")
    page, _ = read(posterior, tmp_path)
    tree = posterior.to_arviz()
    table, rows = az.summary(tree, round_to="none"), page.table("parameter", "mean")
    for name in ("level", "slope", "sigma"):
        np.testing.assert_allclose(float(rows[name]["mean"]), table.loc[name, "mean"], rtol=1e-2)
        np.testing.assert_allclose(float(rows[name]["sd"]), table.loc[name, "sd"], rtol=1e-2)
    worst = page.table("parameter", "ess_bulk")
    for name in worst:
        np.testing.assert_allclose(float(worst[name]["r_hat"]), table.loc[name, "r_hat"], rtol=1e-3)
    loo, own = az.loo(tree, pointwise=True), page.table("leave-one-out", "value")
    elpd = own["elpd_loo (expected log predictive density)"]["value"]
    assert elpd == f"{loo.elpd:.2f} ± {loo.se:.2f}"
    largest = float(own["largest Pareto k-hat"]["value"])
    assert largest == pytest.approx(float(loo.pareto_k.max()), abs=0.01)
    (worst_row, *_) = page.table("observation", "observed")
    assert worst_row == str(int(np.argmin(loo.elpd_i.values)))


@pytest.mark.slow
def test_same_seed_gives_the_same_file(made, tmp_path):
    first = report(made("laplace"), tmp_path / "a.html", seed=3).read_bytes()
    assert report(made("laplace"), tmp_path / "b.html", seed=3).read_bytes() == first


def test_bad_input_is_refused_and_the_old_file_kept(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    for wrong in (3, {}, {"a": 3}):
        with pytest.raises(TypeError, match="posterior"):
            report(wrong, path)
    assert path.read_text() == "old"
    with pytest.raises(OSError, match="choose another folder"):
        report(fit("map"), path / "inside.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [None, RBF(3.0, 1.0)])
def test_forecast_components_in_words(tmp_path, kernel):
    """Effects of regressors, and kernels without a trend."""
    promo = np.arange(46) % 5 == 0
    sold = np.where(np.arange(46) < 40, 3.0 + promo + 0.1 * np.sin(np.arange(46)), np.nan)
    frame = pd.DataFrame({"week": np.arange(46), "sold": sold, "promo": promo.astype(float)})
    options = {"value": "sold", "regressors": None if kernel else ["promo"]}
    f = bk.forecast(
        bk.read_series(frame[["week", "sold"]] if kernel else frame, **options),
        6,
        season=0,
        model=bk.StructuralModel(kernel=kernel),
    )
    page, _ = read(f, tmp_path)
    said = " ".join(page.text)
    assert "could not be made" not in said
    assert ("the mean of the values" if kernel else "an effect; from its lowest") in said


@pytest.mark.slow
def test_forecast_at_the_mode_has_no_hyperparameter_intervals(tmp_path):
    y = np.sin(np.arange(40.0) / 5.0) + 0.1 * rng.normal(size=40)
    model = bk.StructuralModel(log=False, method="map")
    page, _ = read(bk.forecast(y, 4, season=0, trend="drift", model=model), tmp_path)
    assert "hyperparameter of the first mode" in page.words
    assert "Only the mode was computed" in page.words


def test_constant_series_has_a_short_report(tmp_path):
    page, text = read(bk.forecast(np.full(20, 3.0), 4, season=0), tmp_path)
    said = " ".join(page.text)
    assert "Nothing was fitted" in said and "could not be made" not in said
    assert text.count("<figure>") == 1


# -- calibration -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checked():
    posterior = bk.infer(mean_of, Y_MEAN, method=Conjugate(), seed=0, progress=False)
    return posterior, bk.calibrate(posterior, simulations=40, progress=False)


@pytest.mark.slow
def test_calibration_is_shown_where_it_is_given(checked, tmp_path):
    posterior, result = checked
    page, _ = read(posterior, tmp_path, calibration=result)
    assert "calibration" in page.ids
    assert "Result for conjugate at these data: calibrated as far as 40" in page.words
    shares = page.table("parameter", "50 % interval")["mu"]
    assert shares["95 % interval"] == f"{100 * result.coverage(0.95)['mu'][0]:.0f} %"
    assert shares["fault"] == "none" and "could not be made" not in page.words
    assert "calibration" not in read(posterior, tmp_path)[0].ids


@pytest.mark.slow
def test_calibration_is_computed_on_request(checked, tmp_path, monkeypatch):
    posterior, result = checked
    other = bk.infer(mean_of, Y_MEAN, method=Conjugate(spread=0.4), seed=0, progress=False)
    page, _ = read({"right": posterior, "narrow": other}, tmp_path, calibration=True)
    assert {"p0-calibration", "p1-calibration"} <= set(page.ids)
    assert "mu: posterior too narrow" in page.words and "200 data sets were simulated" in page.words
    named, _ = read({"a": posterior, "b": other}, tmp_path, calibration={"a": result})
    assert "p0-calibration" in named.ids and "p1-calibration" not in named.ids


def test_calibrations_of_other_posteriors_are_refused(checked, tmp_path):
    posterior, result = checked
    path = tmp_path / "r.html"
    with pytest.raises(ValueError, match=r"names of the posteriors \(a, b\).*got c"):
        report({"a": posterior, "b": posterior}, path, calibration={"c": result})
    with pytest.raises(ValueError, match="names of the posteriors"):
        report({"a": posterior, "b": posterior}, path, calibration=result)
    with pytest.raises(TypeError, match="calibration must be True, a result of"):
        report(posterior, path, calibration=100)
    renamed = dataclasses.replace(result, uniforms={"nu": result.uniforms["mu"]})
    with pytest.raises(ValueError, match="ranks nu, and the posterior has mu"):
        report(posterior, path, calibration=renamed)
    with pytest.raises(TypeError, match="rolling-origin"):
        report(series(), path, calibration=True)
    assert not path.exists()
