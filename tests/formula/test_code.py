"""The text of a NumPyro program has the sites and the log joint density of the model."""

import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

from bayeskern.formula import regression
from bayeskern.likelihoods import Gaussian
from tests.formula.dense import table

FRAME = table().assign(
    count=lambda f: np.round(f["e"]).astype(int),
    t=lambda f: np.arange(len(f)) % 12,
    side=lambda f: (f["x"] > 0.0).astype(int),
)
CASES = [
    ("y ~ 1", "gaussian", None),
    ("y ~ x + f + (x | g)", "gaussian", None),
    (["y ~ x + s(z) + (1 | g) + (x || h)", "sigma ~ x"], "gaussian", {"x": dist.Cauchy(0.0, 2.0)}),
    ("count ~ gp(x) + mo(t) + (x + z | g) + offset(z)", "poisson", None),
    ("count ~ 0 + f + rw(t) + s(x, by=g)", "negative_binomial", None),
    ("y | weights(e) ~ ar(t) + gp(x, z)", "student_t", {"Intercept": dist.Normal(0.0, 3.0)}),
    ("t ~ x + (1 | g)", "ordered", None),
    ("y | censored(side) ~ x", "gaussian", None),
    (['y ~ C(f, Treatment("b"))', "sigma ~ x"], Gaussian(noise=None), None),
    ("y ~ z", Gaussian(noise=0.5), {"z": dist.Normal(0.0, 1.0).expand([1])}),
]


@pytest.mark.parametrize(("formula", "family", "priors"), CASES, ids=lambda c: str(c)[:40])
def test_program_is_the_model(formula, family, priors):
    model = regression(formula, FRAME, family, priors)
    namespace = {}
    exec(model.code(), namespace)
    sites = handlers.trace(handlers.seed(model, 0)).get_trace()
    is_latent = {name: site["type"] == "sample" and name != "y" for name, site in sites.items()}
    draw = {name: site["value"] for name, site in sites.items() if is_latent[name]}
    expected, by_model = log_density(model, (model.y, model.extra), {}, draw)
    actual, by_program = log_density(namespace["model"], (model.arrays(), model.y), {}, draw)
    assert float(actual) == pytest.approx(float(expected), rel=1e-5)
    assert by_program.keys() == by_model.keys()
    for name in is_latent:
        values = (np.asarray(trace[name]["value"]) for trace in (by_program, by_model))
        np.testing.assert_allclose(*values, rtol=1e-4, atol=1e-6)
