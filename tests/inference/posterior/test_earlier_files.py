"""Files that an earlier version wrote still load.

`saved_by_0_1` holds `laplace.nc` and `nuts.nc` of commit 792ad63, and `linear.nc` of 5126fd2.
"""

from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk

FOLDER = Path(__file__).parent / "saved_by_0_1"
X, Y = np.linspace(0.0, 1.0, 6), np.array([0.1, 0.4, 0.3, 0.8, 0.9, 1.2])
# As that version printed them: the mean of the slope, its first two draws, and the verdict.
PRINTED = {
    "laplace": (1.1863389145363816, [1.1535461141188301, 1.2312115884104369], "bad"),
    "nuts": (1.1510551796821338, [0.7891446208314429, 0.7581549678570176], "bad"),
}


def line(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, sd), obs=y)


@pytest.mark.parametrize("method", PRINTED)
def test_file_of_0_1_loads_without_its_model(method):
    mean, first, verdict = PRINTED[method]
    posterior = bk.load(FOLDER / f"{method}.nc")
    assert posterior.method == method and posterior.trust.verdict == verdict
    slope = posterior.draws["slope"]
    assert slope.mean() == pytest.approx(mean, rel=1e-14)
    np.testing.assert_array_equal(slope.ravel()[:2], first)
    np.testing.assert_array_equal(posterior.observed()["y"], Y)
    assert ("diverging" in posterior.sample_stats) == (method == "nuts")


def test_file_of_0_1_predicts_with_its_model():
    posterior = bk.load(FOLDER / "laplace.nc", line)
    # E[y | x] is the mean slope times x; 30 draws of an sd of about 0.2.
    mean = posterior.predict(np.array([2.0])).mean
    assert mean[0] == pytest.approx(2.0 * PRINTED["laplace"][0], abs=0.3)
    assert posterior.log_evidence.value == pytest.approx(-1.40675, abs=5e-6)


def test_file_of_0_1_loads_with_renamed_arguments():
    """The file was written with prior=2.0, noise=0.04."""
    model = bk.BayesianLinearRegression(prior_sd=2.0, noise_variance=0.04)
    loaded = bk.load(FOLDER / "linear.nc", model)
    # The default prior of the intercept is N(mean(y), (2.5 sd(y))^2) at the mean of x.
    centred = X - X.mean()
    slope = centred @ Y / (centred @ centred + 0.04 / 2.0**2)
    precision = len(Y) / 0.04 + 1.0 / (2.5 * Y.std()) ** 2
    at_1 = Y.mean() + slope * 0.5
    variance = 1.0 / precision + 0.25 / (centred @ centred / 0.04 + 1.0 / 2.0**2)
    predicted = loaded.predict(np.array([1.0]), latent=True)
    np.testing.assert_allclose(predicted.mean, at_1, rtol=1e-12)
    np.testing.assert_allclose(predicted.sd, np.sqrt(variance), rtol=1e-12)
    with pytest.raises(ValueError, match="not the fitted model"):
        bk.load(FOLDER / "linear.nc", bk.BayesianLinearRegression(prior_sd=2.0, noise_variance=0.2))
