"""Site or line of the model at which a library raised an error."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.inference import Target

X, Y = np.linspace(-1.0, 1.0, 6), np.zeros(6)


def negative_scale(X, y):
    mu = numpyro.sample("mu", dist.Normal())
    numpyro.sample(
        "y",
        dist.Normal(mu, -1.0),
        obs=y,
    )


def broadcast(X, y):
    weights = numpyro.sample("weights", dist.Normal().expand([3]))
    numpyro.sample("y", dist.Normal(X * weights, 1.0), obs=y)


def product_before_its_site(X, y):
    weights = numpyro.sample("weights", dist.Normal().expand([3]))
    mean = X @ weights
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def wrong_plate(X, y):
    with numpyro.plate("groups", 4):
        numpyro.sample("effects", dist.Normal(jnp.zeros(6), 1.0))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (negative_scale, r"^site 'y' \(test_error_location.py, line 19\): Normal .* invalid scale"),
        (broadcast, r"^site 'y' .*line 26\).*shapes for broadcasting: \(6,\), \(3,\)"),
        (product_before_its_site, r"line 31, `mean = X @ weights`: .*\(6,\) and \(3,\)"),
        (wrong_plate, r"^site 'effects' .*broadcasting"),
    ],
)
def test_site_or_line_of_an_error(model, says):
    with pytest.raises((ValueError, TypeError), match=says):
        Target.from_model(model, (X, Y), {})


def test_errors_that_the_model_raises_are_unchanged():
    def model(y):
        if len(y) < 9:
            raise ValueError("too few wells")

    with pytest.raises(ValueError, match="^too few wells"):
        Target.from_model(model, (Y,), {})


def test_errors_that_this_package_raises_are_unchanged():
    def model(y):
        bk.GaussianProcess(bk.kernels.RBF(lengthscale=-1.0), y[:, None])

    with pytest.raises(ValueError, match="lengthscale") as error:
        Target.from_model(model, (Y,), {})
    assert "line" not in str(error.value)


def test_model_without_a_source_file():
    source = "def model(y):\n    numpyro.sample('y', dist.Normal(0.0, -1.0), obs=y)"
    names = {"numpyro": numpyro, "dist": dist}
    exec(source, names)
    with pytest.raises(ValueError, match="^<string>, line 2: Normal distribution got invalid"):
        Target.from_model(names["model"], (Y,), {})
