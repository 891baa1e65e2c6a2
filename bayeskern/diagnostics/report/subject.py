"""What a report is about: a posterior, and what several sections need to know of it, found once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayeskern.diagnostics.report.observations import Observations, observations
from bayeskern.diagnostics.report.processes import Process, processes
from bayeskern.inference import sites
from bayeskern.inference.constrain import columns
from bayeskern.inference.weights import compare, smooth

# Parameters are looked at by so many numbers at most: a latent function has one for each point.
MOST_NUMBERS = 500


class Subject:
    """A posterior, its name among several, the forecast that it came from, and a seed."""

    def __init__(self, posterior, name: str = "", seed: int = 0, forecast=None):
        self.posterior, self.name, self.seed, self.forecast = posterior, name, seed, forecast

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    @cached_property
    def tree(self):
        """The posterior as ArviZ has it."""
        return self.posterior.to_arviz()

    @property
    def has_model(self) -> bool:
        """Whether there is a model to run; a posterior that was read from a file has none."""
        return self.posterior is not None and self.posterior.target is not None

    @property
    def is_mcmc(self) -> bool:
        return "diverging" in self.posterior.sample_stats

    @cached_property
    def sites(self) -> dict[str, sites.Site]:
        return sites.look(self.posterior.target)

    @cached_property
    def prior(self) -> dict[str, np.ndarray]:
        """Draws of each site from the prior, (S, shape); nothing where it is improper."""
        drawn = self.tree.children.get("prior", {})
        found = {str(name): np.asarray(drawn[name], float) for name in drawn}
        return {name: x.reshape(-1, *x.shape[2:]) for name, x in found.items()}

    @cached_property
    def processes(self) -> list[Process]:
        return processes(self) if self.has_model else []

    @cached_property
    def observations(self) -> list[Observations]:
        return observations(self)

    @cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        """The draws of each number, (chains, draws), small sites first: at most MOST_NUMBERS."""
        chains, count = next(iter(self.posterior.draws.values())).shape[:2]
        found = {}
        for name in sorted(self.posterior.flat, key=lambda k: self.posterior.flat[k][0].size):
            left = MOST_NUMBERS - len(found)
            values = self.posterior.flat[name]
            if values[0].size > left or values.dtype.kind not in "fiub":
                continue
            names, numbers = columns({name: values.astype(float)})
            numbers = numbers.reshape(chains, count, -1)
            found |= {n: numbers[..., i] for i, n in enumerate(names)}
        return {n: found[n] for site in self.posterior.flat for n in found if _of(n, site)}

    @cached_property
    def moving(self) -> dict[str, np.ndarray]:
        """The numbers that are finite and not the same in all draws."""
        return {n: x for n, x in self.numbers.items() if np.isfinite(x).all() and np.ptp(x) > 0}

    def first(self, most: int) -> list[str]:
        """So many of the moving numbers, in turn from each site, in the order of the model."""
        by_site = {s: [n for n in self.moving if _of(n, s)] for s in self.posterior.flat}
        chosen: list[str] = []
        for turn in range(most):
            chosen += [names[turn] for names in by_site.values() if turn < len(names)]
        kept = set(chosen[:most])
        return [n for n in self.moving if n in kept]

    @cached_property
    def by_badness(self) -> list[str]:
        """The moving numbers, those that behave worst first."""
        names = list(self.moving)
        if not names:
            return []
        if self.is_mcmc:
            from arviz_stats.base import array_stats

            x = np.stack([self.moving[n] for n in names])
            badness = -array_stats.ess(x)
            if x.shape[1] > 1:
                # R-hat first; where it is fine, the number of effective draws.
                badness = badness + 1e6 * np.maximum(array_stats.rhat(x) - 1.01, 0.0)
        elif self.log_weights is not None:
            x = np.stack([self.moving[n].ravel() for n in names], axis=1)
            shift = compare(x, x, y_weights=np.exp(self.log_weights))
            badness = np.maximum(shift.mean, shift.log_sd)
        else:
            return names
        badness = np.where(np.isnan(badness), np.inf, badness)
        return [names[i] for i in np.argsort(-badness, kind="stable")]

    @cached_property
    def log_weights(self) -> np.ndarray | None:
        """The smoothed log weights p / q of the draws, where q is known and they are unweighted."""
        if self.posterior.log_ratios is None:
            return None
        return smooth(self.posterior.log_ratios).log


def _of(number: str, site: str) -> bool:
    return number == site or number.startswith(f"{site}[")
