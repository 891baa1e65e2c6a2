"""Predictions of generalized linear models against averages over draws."""

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

import bayeskern as bk
from bayeskern import likelihoods as lk
from tests.linear.glm_data import BINARY, EXPOSURE, POISSON, THREE, X, fit

LABELS = np.array(["low", "mid", "top"])
FRAME = pd.DataFrame(X, columns=["dose", "age"])


@pytest.fixture(scope="module")
def of_labels():
    return fit(bk.BayesianGLM(lk.Categorical()), FRAME, LABELS[THREE])


@pytest.fixture(scope="module")
def binary():
    return fit(bk.BayesianGLM(lk.Bernoulli()), FRAME, np.where(BINARY > 0, "yes", "no"))


@pytest.fixture(scope="module")
def counts():
    return fit(bk.BayesianGLM(lk.Poisson()), FRAME, POISSON, exposure=EXPOSURE)


# -- predictions -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_class_probabilities_are_averages_over_draws(of_labels):
    new = FRAME.iloc[:20]
    prediction = of_labels.predict(new)
    eta = np.einsum("mp,skp->smk", X[:20], of_labels.flat["weights"])
    eta += of_labels.flat["intercept"][:, None]
    chances = np.exp(eta - logsumexp(eta, axis=2, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(prediction.probabilities, chances, rtol=1e-9)
    np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(of_labels.predict(new, latent=True).draws, eta, atol=1e-9)
    assert prediction.classes == ("low", "mid", "top")
    shares = (prediction.draws[..., None] == np.arange(3)).mean(axis=0)
    np.testing.assert_allclose(shares, chances, atol=5.0 / np.sqrt(4 * len(eta)))
    assert list(prediction.most_likely) == list(LABELS[chances.argmax(axis=1)])


@pytest.mark.slow
def test_bernoulli_mean_is_the_second_probability(binary):
    prediction = binary.predict(FRAME.iloc[:9])
    eta = binary.flat["intercept"][:, None] + binary.flat["weights"] @ X[:9].T
    chance = expit(eta).mean(axis=0)
    np.testing.assert_allclose(prediction.mean, chance, rtol=1e-9)
    np.testing.assert_allclose(prediction.probabilities, np.stack([1 - chance, chance], 1))
    assert list(prediction.most_likely) == list(np.where(chance > 0.5, "yes", "no"))


@pytest.mark.slow
def test_ordered_classes_have_quantiles(ordered):
    prediction = ordered.predict(X[:30])
    eta = ordered.flat["weights"] @ (X[:30] - X.mean(axis=0)).T
    below = expit(ordered.flat["cutpoints"][:, None] - eta[..., None]).mean(axis=0)
    np.testing.assert_allclose(np.cumsum(prediction.probabilities, axis=1)[:, :2], below)
    # The median class is the first whose cumulative chance is a half.
    clear = np.abs(below - 0.5).min(axis=1) > 0.05
    np.testing.assert_array_equal(prediction.median[clear], (below < 0.5).sum(axis=1)[clear])


@pytest.mark.slow
def test_predictions_of_counts_with_exposure(counts):
    new, exposure = FRAME.iloc[:6], np.array([1.0, 2.0, 5.0, 0.5, 10.0, 30.0])
    rate = np.exp(counts.flat["intercept"][:, None] + counts.flat["weights"] @ X[:6].T)
    prediction = counts.predict(new, exposure=exposure)
    np.testing.assert_allclose(prediction.mean, exposure * rate.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(counts.predict(new).mean, rate.mean(axis=0), rtol=1e-9)
    # The distribution function of the mixture, exactly.
    for bound, level in zip(prediction.interval(0.9), (0.05, 0.95), strict=True):
        at, before = (stats.poisson(exposure * rate).cdf(bound - d).mean(axis=0) for d in (0, 1))
        assert np.all(at > level - 0.02)
        assert np.all(before < level + 0.02)
    variance = (exposure * rate).mean(axis=0) + (exposure * rate).var(axis=0)
    np.testing.assert_allclose(prediction.variance, variance, rtol=0.12)


@pytest.mark.slow
def test_seed_changes_draws_only(counts):
    new = FRAME.iloc[:6]
    first, same, other = (counts.predict(new, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.draws, same.draws)
    assert np.any(first.draws != other.draws)
    np.testing.assert_array_equal(first.mean, other.mean)


@pytest.mark.slow
def test_predictions_are_chunked_and_thinned(monkeypatch, of_labels):
    from bayeskern.linear import prediction

    new = FRAME.iloc[:20]
    whole = of_labels.predict(new)
    monkeypatch.setattr(prediction, "CHUNK", 7 * 3 * len(whole.draws))
    chunked = of_labels.predict(new)
    np.testing.assert_allclose(chunked.probabilities, whole.probabilities, rtol=1e-9)
    assert chunked.draws.shape == whole.draws.shape
    monkeypatch.setattr(prediction, "MOST_NUMBERS", 300 * 3 * 20)
    thinned = of_labels.predict(new)
    assert thinned.draws.shape == (300, 20)
    np.testing.assert_allclose(thinned.probabilities, whole.probabilities, atol=0.02)
    assert of_labels.predict(new, latent=True).draws.shape == (300, 20, 3)


# -- files and ArviZ -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("classes", [None, ("no", "yes")], ids=["learnt", "given"])
def test_classes_are_saved_and_loaded(tmp_path, classes):
    y = np.where(BINARY > 0, "yes", "no")
    model = bk.BayesianGLM(lk.Bernoulli(classes=classes))
    posterior = fit(model, FRAME, y)
    posterior.save(tmp_path / "fit.nc")
    new = FRAME.iloc[:5]
    loaded = bk.load(tmp_path / "fit.nc", model=model).predict(new[["age", "dose"]])
    np.testing.assert_allclose(loaded.mean, posterior.predict(new).mean)
    assert loaded.classes == ("no", "yes")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Variables y in")
@pytest.mark.parametrize("name", ["binary", "counts", "of_labels"])
def test_conversion_to_arviz(name, request):
    posterior = request.getfixturevalue(name)
    tree = posterior.to_arviz()
    assert set(tree.children) == {
        *("posterior", "sample_stats", "log_likelihood", "log_prior", "posterior_predictive"),
        *("prior", "prior_predictive", "observed_data", "constant_data"),
    }
    assert list(tree.posterior.coords["feature"].values) == ["dose", "age"]
    if name == "of_labels":
        assert list(tree.posterior.coords["output"].values) == list(LABELS)
        assert tree.posterior["weights"].dims == ("chain", "draw", "output", "feature")
    # Replicates of a well fitted model repeat the frequencies of the data.
    values = tree.observed_data["y"].to_numpy()
    new = tree.posterior_predictive["y"].to_numpy()
    assert abs(np.mean(new == 0) - np.mean(values == 0)) < 0.05
    assert np.isfinite(az.loo(tree).elpd)
    az.plot_ppc_dist(tree)
    assert any("weights" in row for row in posterior.summary().index)
