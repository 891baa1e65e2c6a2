"""Figures of a report by kind of outcome; calibration against scikit-learn."""

import dataclasses
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from sklearn.isotonic import IsotonicRegression

import bayeskern as bk
from bayeskern import likelihoods
from bayeskern.inference import Method
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust
from bayeskern.kernels import RBF
from bayeskern.reports.observations import Observations
from bayeskern.reports.outcome_plots import Event, calibration, residuals
from bayeskern.reports.outcomes import kind_of
from bayeskern.reports.sections.classes import class_calibration
from bayeskern.reports.sections.fit import _covariates, fit
from bayeskern.reports.subject import Subject
from tests.marks import slow
from tests.reports.pages import page_of

rng = np.random.default_rng(0)
N = 120
X = rng.normal(size=N)
CUTS, CHANCES = jnp.array([-1.0, 1.0]), jnp.array([0.2, 0.3, 0.5])


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (dist.Bernoulli(0.3), "binary"),
        (dist.Bernoulli(logits=jnp.zeros(3)).to_event(1), "binary"),
        (dist.Binomial(5, 0.3), "count"),
        (dist.OrderedLogistic(0.2, CUTS).mask(True), "ordinal"),
        (dist.Categorical(CHANCES), "categorical"),
        (dist.Categorical(logits=CHANCES), "categorical"),
        (dist.Poisson(3.0), "count"),
        (dist.NegativeBinomial2(3.0, 1.0), "count"),
        (dist.ZeroInflatedPoisson(0.2, 3.0), "count"),
        (dist.Normal(), "continuous"),
        (dist.Beta(1.0, 1.0), "continuous"),
        (likelihoods.Bernoulli(classes=(0, 1)).distribution(jnp.zeros(3)), "binary"),
        (likelihoods.Ordered([0.0, 1.0], classes=(0, 1, 2)).distribution(jnp.zeros(3)), "ordinal"),
        (
            bk.LatentProcess(RBF(1.0), X[:4], likelihoods.Categorical(classes=(0, 1, 2))),
            "categorical",
        ),
        (bk.LatentProcess(RBF(1.0), X[:4], likelihoods.Poisson()), "count"),
    ],
)
def test_kind_of_outcome(fn, kind):
    assert kind_of(fn) == kind


# -- which figures appear --------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Near(Method):
    """Draws close to a slope of 1, without a fit."""

    name = "near"

    def run(self, target, seed, progress):
        z = 1.0 + 0.1 * np.random.default_rng(seed).normal(size=(1, 200, target.size))
        return Fit(z=z, assess=lambda _: Trust("good", "", {}))


DISTRIBUTIONS = {
    "bernoulli": lambda eta: dist.Bernoulli(0.5 + 0.4 * jnp.tanh(eta)),
    "bernoulli logits": lambda eta: dist.Bernoulli(logits=eta),
    "ordered logistic": lambda eta: dist.OrderedLogistic(eta, CUTS),
    "categorical": lambda eta: dist.Categorical(logits=eta[:, None] * jnp.arange(3.0)),
    "binomial": lambda eta: dist.Binomial(10, logits=eta),
    "poisson": lambda eta: dist.Poisson(jnp.exp(eta)),
    "negative binomial": lambda eta: dist.NegativeBinomial2(jnp.exp(eta), 5.0),
    "normal": lambda eta: dist.Normal(eta, 1.0),
}
COUNTS = ("binomial", "poisson", "negative binomial")


def line(x, y, law):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", DISTRIBUTIONS[law](slope * x), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize("law", DISTRIBUTIONS)
def test_figures_of_a_likelihood(law):
    y = np.asarray(DISTRIBUTIONS[law](jnp.asarray(X)).sample(rng_key()))
    posterior = bk.infer(line, X, y, law, method=Near(), progress=False)
    page = page_of(fit(Subject(posterior)))
    classes = law not in (*COUNTS, "normal")
    assert ("isotonic regression" in page.words) == classes
    assert ("minus predicted probability" in page.words) == classes
    assert ("rootogram" in page.words) == (law in COUNTS)
    assert ("LOO-PIT" in page.words) == (not classes)
    assert "could not be" not in page.words
    assert ("all classes up to the one above the panel" in page.words) == (
        law == "ordered logistic"
    )
    assert ("Brier score" in page.words) == law.startswith("bernoulli")


def rng_key():
    import jax

    return jax.random.key(4)


# -- calibration -----------------------------------------------------------------------------------


def event(chance, y, count=2000):
    return Event("1", y, (rng.random((count, len(y))) < chance).astype(int))


def distinct(chance, y, count=4000):
    """An event whose predicted probabilities are near `chance` and all differ."""
    ones = np.sort(rng.choice(np.arange(1, count), size=N, replace=False))
    ones = ones[np.argsort(np.argsort(chance))]
    return Event("1", y, (np.arange(count)[:, None] < ones).astype(int)), ones / count


def test_line_is_the_isotonic_regression_of_scikit_learn():
    chance = rng.uniform(0.05, 0.95, size=N)
    y = (rng.random(N) < chance**2).astype(int)
    one, predicted = distinct(chance, y)
    (axis,) = calibration([one]).axes
    (curve,) = [c for c in (line.get_xydata() for line in axis.get_lines()) if len(c) == N]
    np.testing.assert_allclose(curve[:, 0], np.sort(predicted))
    expected = IsotonicRegression().fit_transform(predicted, y)
    np.testing.assert_allclose(curve[:, 1], expected[np.argsort(predicted)], atol=1e-12)


def test_residuals_are_the_line_minus_the_predictions():
    y = (rng.random(N) < 1.0 / (1.0 + np.exp(-X))).astype(int)
    one, predicted = distinct(X, y)
    made = residuals(one, {"a": X, "b": X**2})
    assert [axis.get_xlabel() for axis in made.axes] == ["a", "b"]
    fitted = IsotonicRegression().fit_transform(predicted, y) - predicted
    found = np.ma.getdata(made.axes[0].collections[-1].get_offsets())
    np.testing.assert_allclose(found[:, 0], np.sort(X))
    np.testing.assert_allclose(found[:, 1], fitted[np.argsort(X)], atol=1e-12)


def band_of(one):
    """Share of the line inside the band."""
    (axis,) = calibration([one]).axes
    (curve,) = [c for c in (line.get_xydata() for line in axis.get_lines()) if len(c) == N]
    (band,) = axis.collections
    outline = band.get_paths()[0]
    return np.mean([outline.contains_point(point, radius=1e-3) for point in curve])


def test_band_holds_right_predictions_and_not_wrong_ones():
    chance = rng.uniform(0.02, 0.98, size=N)
    y = (rng.random(N) < chance).astype(int)
    assert band_of(event(chance, y)) > 0.9
    assert band_of(event(0.5 + 0.2 * (chance - 0.5), y)) < 0.6


def site(chance, y):
    draws = (rng.random((400, len(y))) < chance).astype(int)
    return Observations(
        "y", y, list(map(str, y)), draws, draws.mean(axis=0), y, "left_out", "binary", draws
    )


def test_even_predictions_have_no_curve():
    y = (rng.random(N) < 0.25).astype(int)
    page = page_of(class_calibration(site(np.full(N, 0.3), y), None, {"x": X}))
    share = f"{100 * y.mean():.0f} % observed"
    assert "nearly the same for all observations" in page.words and share in page.words
    assert page.count("figure") == 0


def test_few_observations_have_no_calibration():
    y = np.array([0, 1] * 5)
    page = page_of(class_calibration(site(np.full(10, 0.5), y), None, {}))
    assert "at least 20 observations" in page.words


def test_labels_of_classes_are_shown():
    chance = 1.0 / (1.0 + np.exp(-2 * X))
    y = (rng.random(N) < chance).astype(int)
    page = page_of(class_calibration(site(chance, y), ("no", "yes"), {}))
    assert "the observed frequency of 'yes', by its predicted probability" in page.words
    assert page.count("figure") == 1


@pytest.mark.parametrize(
    ("outcome", "classes", "words"),
    [
        slow("categorical", 12, "3 more classes, the rarest, are not shown"),
        ("ordinal", 12, "2 more limits are not shown"),
        slow("categorical", 4, ""),
    ],
)
def test_classes_without_a_panel_are_counted(outcome, classes, words):
    chances = rng.dirichlet(np.ones(classes), size=N)
    draws = np.stack([rng.choice(classes, size=200, p=p) for p in chances], axis=1)
    labels = [str(i) for i in range(N)]
    site = Observations(
        "y", draws[0].astype(float), labels, draws, None, None, "in_sample", outcome, draws
    )
    text = page_of(class_calibration(site, None, {})).words
    assert ("not shown" in text) == bool(words) and words in text


def test_columns_of_tables_without_names_are_numbered():
    """The names of the columns of a model are those of the table that has as many columns."""
    groups = {
        "observed_data": {"y": np.zeros(5)},
        "constant_data": {"X": rng.normal(size=(5, 2)), "Z": rng.normal(size=(5, 3))},
    }
    subject = SimpleNamespace(model=SimpleNamespace(columns=("a", "b")), group=groups.get)
    covariates = _covariates(subject, SimpleNamespace(site="y"))
    assert [*covariates] == ["a", "b", "Z[0]", "Z[1]", "Z[2]"]
    np.testing.assert_array_equal(covariates["Z[2]"], groups["constant_data"]["Z"][:, 2])
