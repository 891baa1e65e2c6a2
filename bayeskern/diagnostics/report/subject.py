"""What a report is about: a posterior, and what several sections need of it, computed once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import ROUNDING
from bayeskern.core.scalars import scalar_name
from bayeskern.diagnostics.report import labels
from bayeskern.diagnostics.report.observations import Observations, observations
from bayeskern.diagnostics.report.priors import SitePrior, site_priors
from bayeskern.diagnostics.report.processes import Process, processes
from bayeskern.inference.approximation.psis import weighted_difference
from bayeskern.inference.model.trace.sites import ModelSite
from bayeskern.inference.posterior.summary import summary

# About so many numbers are examined, and at least so many of each site: a latent function has one
# for each point, and an effective sample size takes milliseconds.
MAX_NUMBERS, MIN_PER_SITE = 500, 12


class UnreadableError(ValueError):
    """The groups that ArviZ knows cannot be made of a posterior."""


class Subject:
    """A posterior, its name among several, and a seed; or a forecast in its place."""

    def __init__(self, posterior, name: str = "", seed: int = 0, forecast=None):
        self.posterior, self.name, self.seed, self.forecast = posterior, name, seed, forecast
        # Why part of the report cannot be made, once a section has come upon it.
        self.failure = ""

    def rng(self) -> np.random.Generator:
        """A new generator from the seed: every section that asks for one draws the same numbers."""
        return np.random.default_rng(self.seed)

    @cached_property
    def tree(self):
        """The posterior as ArviZ has it. Raises UnreadableError, as all that needs it does."""
        return self._read(self.posterior.to_arviz)

    def _read(self, read):
        try:
            return read()
        except ValueError as error:
            self.failure = str(error)
            raise UnreadableError(self.failure) from error

    @property
    def has_model(self) -> bool:
        """Whether there is a model to run; a posterior that was read from a file has none."""
        return self.posterior is not None and self.posterior.target is not None

    @property
    def model(self):
        """The model that was fitted, or None."""
        return self.posterior.target.model if self.has_model else None

    @cached_property
    def sites(self) -> dict[str, ModelSite]:
        """What is known of each site of the model. Raises UnreadableError."""
        return self._read(self.posterior.target.sites)

    @cached_property
    def observed(self) -> dict[str, np.ndarray]:
        """The observations that count, by site. Raises UnreadableError."""
        return self._read(self.posterior.observed)

    @cached_property
    def priors(self) -> list[SitePrior]:
        """The prior of each latent site of the model."""
        return site_priors(self.posterior)

    @property
    def has_prior_draws(self) -> bool:
        """Whether draws from the prior are known; there are none where it is improper."""
        return len(self.tree.children.get("prior", {})) > 0

    def prior_draws(self, site: str) -> np.ndarray | None:
        """Draws of a site from the prior, (S, shape); None where there are none."""
        draws = self.tree.children.get("prior", {}).get(site.replace("/", "."))
        if draws is None:
            return None
        draws = np.asarray(draws, float)
        return draws.reshape(-1, *draws.shape[2:])

    @cached_property
    def processes(self) -> list[Process]:
        """The Gaussian processes that the model observes with Gaussian noise."""
        return processes(self) if self.has_model or self.forecast is not None else []

    @cached_property
    def observations(self) -> list[Observations]:
        """The observed sites, beside what the model says of them."""
        return observations(self)

    # -- numbers and their names -------------------------------------------------------------------

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The name of each number of each site, in the order of its draws laid flat."""
        axes = {}
        # Without labels nothing has to be asked of ArviZ.
        if self.posterior.coords and self.is_readable:
            group = self.tree["posterior"]
            for site in self.posterior.flat:
                values = group[site.replace("/", ".")]
                axes[site] = [[str(x) for x in values[d].values] for d in values.dims[2:]]
        return labels.number_names(self.posterior.flat, axes)

    @property
    def is_readable(self) -> bool:
        """Whether ArviZ's groups can be made."""
        try:
            return self.tree is not None
        except UnreadableError:
            return False

    @cached_property
    def label_of(self) -> dict[str, str]:
        """The name here of a number, by its name in the verdict, which knows no labels."""
        labels_of: dict[str, list[str]] = {}
        for site, site_names in self.names.items():
            for i, name in enumerate(site_names):
                labels_of.setdefault(self._plain_name(site, i), []).append(name)
        return {plain: names[0] for plain, names in labels_of.items() if len(names) == 1}

    def _plain_name(self, site: str, i: int) -> str:
        shape = self.posterior.flat[site].shape[1:]
        return scalar_name(site, np.unravel_index(i, shape))

    @cached_property
    def examined(self) -> dict[str, np.ndarray]:
        """Which numbers of each site are examined: those that the verdict names, and others."""
        flat = {k: v for k, v in self.posterior.flat.items() if v.dtype.kind in "fiub"}
        sizes = {site: values[0].size for site, values in flat.items()}
        counts = labels.numbers_per_site(sizes, MAX_NUMBERS, MIN_PER_SITE)
        examined = {site: evenly(size, counts[site]) for site, size in sizes.items()}
        evidence = self.posterior.trust.evidence
        worst = {str(value) for name, value in evidence.items() if name.endswith("_at")}
        for site in self._counts_left_out(examined):
            named = [i for i in range(sizes[site]) if self._plain_name(site, i) in worst]
            examined[site] = np.union1d(examined[site], named).astype(int)
        return examined

    @property
    def not_examined(self) -> dict[str, int]:
        """How many numbers of a site are not examined, where some are not."""
        return self._counts_left_out(self.examined)

    def _counts_left_out(self, examined) -> dict[str, int]:
        counts = {s: self.posterior.flat[s][0].size - len(rows) for s, rows in examined.items()}
        return {site: count for site, count in counts.items() if count}

    @cached_property
    def places(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The site of each number that is examined, and its place there, by name."""
        return {
            self.names[site][i]: (site, np.unravel_index(i, self.posterior.flat[site].shape[1:]))
            for site, rows in self.examined.items()
            for i in rows
        }

    @cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        """The draws of each number that is examined, by name: (chains, draws)."""
        draws = self.posterior.draws
        return {
            name: np.asarray(draws[site][(slice(None), slice(None), *place)], float)
            for name, (site, place) in self.places.items()
        }

    @cached_property
    def varying(self) -> dict[str, np.ndarray]:
        """The numbers that are finite and, beyond rounding, not the same in all draws."""
        return {
            name: x
            for name, x in self.numbers.items()
            if np.isfinite(x).all() and np.ptp(x) > ROUNDING * np.max(np.abs(x))
        }

    def summary(self, draws: dict[str, np.ndarray], **options):
        """The table of posterior.summary, of some numbers (chains, draws) by their names here."""
        import xarray as xr  # slow to import

        x = np.stack(list(draws.values()), axis=-1)
        data = xr.Dataset({"x": (("chain", "draw", "number"), x)})
        table = summary(self.posterior, data, **options)
        table.index = list(draws)
        return table

    def first_of_each_site(self, count: int) -> list[str]:
        """So many of the varying numbers, in turn from each site, in the order of the model."""
        by_site: dict[str, list[str]] = {}
        for name in self.varying:
            by_site.setdefault(self.places[name][0], []).append(name)
        names: list[str] = []
        for turn in range(count):
            names += [of_site[turn] for of_site in by_site.values() if turn < len(of_site)]
        kept = set(names[:count])
        return [name for name in self.varying if name in kept]

    @cached_property
    def worst_first(self) -> list[str]:
        """The varying numbers, those that mix worst, or that weighting moves most, first."""
        names = list(self.varying)
        if not names:
            return []
        if self.posterior.has_chains:
            from arviz_stats.base import array_stats  # slow to import

            x = np.stack([self.varying[n] for n in names])
            badness = -array_stats.ess(x)
            if x.shape[1] > 1:
                # R-hat first; where it is fine, the number of effective draws.
                badness = badness + 1e6 * np.maximum(array_stats.rhat(x) - 1.01, 0.0)
        elif self.posterior.importance_weights is not None:
            x = np.stack([self.varying[n].ravel() for n in names], axis=1)
            weights = self.posterior.importance_weights.normal
            shift = weighted_difference(x, x, y_weights=weights)
            badness = np.maximum(shift.mean, shift.log_sd)
        else:
            return names
        badness = np.where(np.isnan(badness), np.inf, badness)
        return [names[i] for i in np.argsort(-badness, kind="stable")]
