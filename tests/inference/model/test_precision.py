"""32-bit numbers: predictions keep their digits, and data that do not fit are named."""

import subprocess
import sys

import pytest

CODE = """
import os
os.environ["JAX_ENABLE_X64"] = "0"
import numpy as np, numpyro, numpyro.distributions as dist, bayeskern as bk

def model(n, y=None):
    m = numpyro.sample("m", dist.Normal(1e6, 10.0))
    with numpyro.plate("row", n):
        numpyro.sample("y", dist.Normal(m, 1.0), obs=y)

y = 1e6 + np.random.default_rng(0).normal(size=50)
posterior = bk.infer(model, 50, y, method="laplace", progress=False)
prediction = posterior.predict(1)
print(prediction.mean[0] - y.mean(), prediction.sd[0])
"""


@pytest.mark.slow
def test_predictions_far_from_zero_keep_their_digits():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    error, sd = map(float, done.stdout.split())
    # A float32 near 1e6 is a multiple of 1/16. The mean of 4,000 draws has an error of 0.016.
    assert abs(error) < 0.0625 + 0.05
    assert abs(sd - 1.01) < 0.05
    assert "y has values up to 1e+06 with an sd of" in done.stderr
    assert done.stderr.count("JAX_ENABLE_X64=0") == 1
