"""Reference posteriors of posteriordb: models in NumPyro, and distances of draws.

The numbers (data, and means and sds of 10,000 reference draws) lie beside the repository, in
shared/posteriordb.
"""

import json
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "posteriordb"
needed = pytest.mark.skipif(not FOLDER.is_dir(), reason="no shared/posteriordb beside the project")


def flat(*shape):
    return dist.ImproperUniform(dist.constraints.real, (), shape)


def ark(lags, y):
    alpha = numpyro.sample("alpha", dist.Normal(0.0, 10.0))
    beta = numpyro.sample("beta", dist.Normal(0.0, 10.0).expand([5]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(alpha + lags @ beta, sigma), obs=y)


def eight_schools(y, sigma):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", len(y)):
        theta_trans = numpyro.sample("theta_trans", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * theta_trans)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def gp_regr(x, y):
    rho = numpyro.sample("rho", dist.Gamma(25.0, 4.0))
    alpha = numpyro.sample("alpha", dist.HalfNormal(2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    apart = jnp.square(x[:, None] - x)
    # sigma is the variance of the noise.
    K = jnp.square(alpha) * jnp.exp(-0.5 * apart / jnp.square(rho)) + sigma * jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(len(x)), K), obs=y)


def kidscore(X, y):
    beta = numpyro.sample("beta", flat(X.shape[1]))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(2.5))
    numpyro.sample("y", dist.Normal(X @ beta, sigma), obs=y)


def blr(X, y):
    beta = numpyro.sample("beta", dist.Normal(0.0, 10.0).expand([5]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(10.0))
    numpyro.sample("y", dist.Normal(X @ beta, sigma), obs=y)


def _lags(d):
    y, K = d["y"], d["K"]
    return np.stack([y[K - k : len(y) - k] for k in range(1, K + 1)], axis=1), y[K:]


def _interaction(d):
    hs, iq = d["mom_hs"], d["mom_iq"]
    return np.stack([np.ones(len(iq)), hs, iq, hs * iq], axis=1), d["kid_score"]


def _momiq(d):
    return np.stack([np.ones(len(d["mom_iq"])), d["mom_iq"]], axis=1), d["kid_score"]


# name: the model and its arguments, from the data of the file
_MODELS = {
    "arK-arK": (ark, _lags),
    "eight_schools-eight_schools_noncentered": (eight_schools, lambda d: (d["y"], d["sigma"])),
    "gp_pois_regr-gp_regr": (gp_regr, lambda d: (d["x"], d["y"])),
    "kidiq-kidscore_interaction": (kidscore, _interaction),
    "kidiq-kidscore_momiq": (kidscore, _momiq),
    "sblrc-blr": (blr, lambda d: (d["X"], d["y"])),
}
NAMES = tuple(_MODELS)


def load(name):
    """A model, its arguments, and the reference: {"beta[1]": {"mean": ..., "sd": ...}}."""
    found = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    model, arguments = _MODELS[name]
    data = {key: np.asarray(value, float) for key, value in found["data"].items() if key != "K"}
    if "K" in found["data"]:
        data["K"] = found["data"]["K"]
    return model, arguments(data), found["reference"]


class Errors(NamedTuple):
    """Distance of draws from each number of the reference."""

    names: list[str]
    mean: np.ndarray  # |difference of the means| in reference sds
    sd: np.ndarray  # |sd / reference sd - 1|

    def __str__(self):
        rows = zip(self.names, self.mean, self.sd, strict=True)
        return "\n".join(
            f"{n:>10}: mean off by {m:.3f} sd, sd by {100 * s:.1f} %" for n, m, s in rows
        )


def errors(posterior, reference) -> Errors:
    """The draws of a posterior against the reference, whose indices start at 1."""
    draws = _numbered(posterior.flat)
    names = list(reference)
    mean, sd = (np.array([reference[name][what] for name in names]) for what in ("mean", "sd"))
    ours = np.stack([draws[name] for name in names], axis=1)
    return Errors(names, np.abs(ours.mean(axis=0) - mean) / sd, np.abs(ours.std(axis=0) / sd - 1.0))


def _numbered(draws):
    found = {}
    for name, values in draws.items():
        for index in np.ndindex(values.shape[1:]):
            label = f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name
            found[label] = values[(slice(None), *index)]
    return found
