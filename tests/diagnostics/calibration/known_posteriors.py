"""Models with known posteriors, and deliberately faulty methods."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayeskern.diagnostics.calibration.augmented import AugmentedModel
from bayeskern.inference import Method
from bayeskern.inference.prior_predictive import simulate
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust
from bayeskern.protocols import ClosedForm

ROWS = 4
Y = np.zeros(ROWS)


class Known(eqx.Module):
    """mu ~ N(0, 1), y_i ~ N(mu, 1): the posterior is N(sum(y) / (n + 1), 1 / (n + 1)).

    scale, shift: errors of the offered closed form, in posterior sds.
    """

    scale: float = 1.0
    shift: float = 0.0
    prior: bool = eqx.field(static=True, default=False)

    def __call__(self, y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)

    def exact(self, y) -> ClosedForm:
        mean, sd = jnp.sum(y) / (ROWS + 1), 1.0 / np.sqrt(ROWS + 1)
        if self.prior:
            mean, sd = 0.0, 1.0

        def draw(key, n):
            return {"mu": mean + sd * (self.shift + self.scale * jax.random.normal(key, (n,)))}

        return ClosedForm(draw, 0.0)


class FromPrior(Method):
    """Returns the prior instead of the posterior, and fails on demand."""

    name, takes_marginal = "prior", False

    def __init__(self, fails=lambda target: False, value=None, error=ValueError):
        self.fails, self.value, self.error = fails, value, error

    def run(self, target, seed, progress):
        if self.fails(target):
            raise self.error("it would not be fitted.")
        found, _ = simulate(target, 200, seed)
        if self.value is not None:
            found = {name: np.full_like(x, self.value) for name, x in found.items()}
        return Fit(
            z=np.zeros((1, 200, target.size)),
            assess=lambda _: Trust("good", "", {}),
            draws={name: x[None] for name, x in found.items()},
        )


def mean_of(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]), obs=y)


@dataclass(frozen=True)
class Conjugate(Method):
    """The posterior of `mean_of` given one data set or two, with a wrong sd or mean."""

    spread: float = 1.0
    shift: float = 0.0
    one_data_set: bool = False

    name, takes_marginal = "conjugate", False

    def run(self, target, seed, progress):
        model = target.model
        data = [target.args[0]]
        if isinstance(model, AugmentedModel):
            data = [model.target.args[0], target.args[0]["y"]]
        y = np.concatenate([np.asarray(part) for part in data[: 1 if self.one_data_set else 2]])
        sd = 1.0 / np.sqrt(len(y) + 1)
        normal = np.random.default_rng(seed).normal(size=1000)
        mu = y.sum() / (len(y) + 1) + sd * (self.shift + self.spread * normal)
        return Fit(z=mu[None, :, None], assess=lambda _: Trust("good", "", {}))


Y_MEAN = np.array([1.0, 3.0, 2.0, 4.0])
