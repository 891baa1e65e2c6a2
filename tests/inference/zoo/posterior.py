"""A posterior of the zoo: a model, its data, and its exact moments."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpyro

from tests.inference.zoo.moments import Moments

# Largest error of a right fit: of a mean in true sds, and of a log sd.
MAX_ERROR = 0.25


@dataclass(frozen=True)
class ZooPosterior:
    """A posterior whose moments are known without the code under test.

    Attributes:
        name: Unique in the zoo.
        family: Kind of difficulty, by which posteriors are selected.
        model: A NumPyro model.
        args: Its data.
        truth: Computes the exact moments by site. None where there are none: the posterior is
            improper, no site is observed, the density is random, or an sd is infinite.
        has_prior_draws: Importance sampling from the prior can check the truth.
    """

    name: str
    family: str
    model: Callable
    args: tuple = ()
    truth: Callable[[], dict[str, Moments]] | None = None
    has_prior_draws: bool = True

    def is_right(self, draws: dict) -> bool:
        """True if the draws have the exact moments; False where there are none.

        draws: by site, (chains, draws, ...).
        """
        if self.truth is None:
            return False
        return all(
            is_right(draws[name], moments.mean, moments.sd)
            for name, moments in self.truth().items()
        )


def is_right(draws, mean, sd) -> bool:
    """True if all means and sds of the draws are within MAX_ERROR. draws: (chains, draws, ...)."""
    mean, sd = np.ravel(mean), np.ravel(sd)
    x = np.asarray(draws).reshape(-1, len(mean))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shift = np.max(np.abs(x.mean(axis=0) - mean) / sd)
        log_ratio = np.max(np.abs(np.log(x.std(axis=0) / sd)))
    return bool(shift < MAX_ERROR and log_ratio < MAX_ERROR)


def sample_density(name, log_density, prior):
    """Sample a site with a given density; the prior only proposes where it may be large."""
    x = numpyro.sample(name, prior)
    numpyro.factor(f"{name}_density", log_density(x) - prior.log_prob(x))
    return x
