"""What a report is about: a posterior, and what several sections need to know of it, found once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import ROUNDING
from bayeskern.diagnostics.report import labels
from bayeskern.diagnostics.report.observations import Observations, observations
from bayeskern.diagnostics.report.processes import Process, processes
from bayeskern.inference.approximation.psis import compare, smooth
from bayeskern.inference.model import sites
from bayeskern.inference.model.target import number_name
from bayeskern.inference.posterior.arviz import summary as summary_of

# About so many numbers are looked at, and so many of each site: a latent function has one for each
# point, and an effective sample size takes milliseconds.
MOST_NUMBERS, LEAST_OF_A_SITE = 500, 12
# Log weights that are so far apart come of no density that could be computed.
OVERFLOWS = 1e15


class UnreadableError(ValueError):
    """The groups that ArviZ knows cannot be made of a posterior."""


class Subject:
    """A posterior, its name among several, the forecast that it came from, and a seed."""

    def __init__(self, posterior, name: str = "", seed: int = 0, forecast=None):
        self.posterior, self.name, self.seed, self.forecast = posterior, name, seed, forecast
        # Why part of the report cannot be made, once a section has come upon it.
        self.trouble = ""

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    @cached_property
    def tree(self):
        """The posterior as ArviZ has it. Raises UnreadableError, as all that needs it does."""
        return self._read(self.posterior.to_arviz)

    def _read(self, how):
        try:
            return how()
        except ValueError as error:
            self.trouble = str(error)
            raise UnreadableError(self.trouble) from error

    @property
    def has_model(self) -> bool:
        """Whether there is a model to run; a posterior that was read from a file has none."""
        return self.posterior is not None and self.posterior.target is not None

    @property
    def is_mcmc(self) -> bool:
        return "diverging" in self.posterior.sample_stats

    @cached_property
    def sites(self) -> dict[str, sites.Site]:
        return self._read(lambda: sites.look(self.posterior.target))

    @cached_property
    def observed(self) -> dict[str, np.ndarray]:
        """The observations that count, by site. Raises UnreadableError."""
        return self._read(self.posterior.observed)

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
    def names(self) -> dict[str, list[str]]:
        """What each number of each site is called, in the order of its draws laid flat."""
        axes = {}
        # Without labels nothing has to be asked of ArviZ.
        if self.posterior.coords and self.is_readable:
            read = self.tree["posterior"]
            for site in self.posterior.flat:
                values = read[site.replace("/", ".")]
                axes[site] = [[str(x) for x in values[d].values] for d in values.dims[2:]]
        return labels.names(self.posterior.flat, axes)

    @property
    def is_readable(self) -> bool:
        """Whether ArviZ's groups can be made."""
        try:
            return self.tree is not None
        except UnreadableError:
            return False

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The names that the verdict gives to numbers, and those that this report does."""
        found = {}
        for site, (i, name) in self._each():
            found.setdefault(_place_name(self.posterior.flat[site], site, i), []).append(name)
        return {own: names[0] for own, names in found.items() if len(names) == 1}

    def _each(self):
        return ((site, item) for site, each in self.names.items() for item in enumerate(each))

    @cached_property
    def chosen(self) -> dict[str, np.ndarray]:
        """Which numbers of each site are looked at: those that the verdict names, and others."""
        flat = {k: v for k, v in self.posterior.flat.items() if v.dtype.kind in "fiub"}
        sizes = {site: values[0].size for site, values in flat.items()}
        share = labels.shares(sizes, MOST_NUMBERS, LEAST_OF_A_SITE)
        found = {site: evenly(size, share[site]) for site, size in sizes.items()}
        worst = {str(v) for k, v in self.posterior.trust.evidence.items() if k.endswith("_at")}
        for site in self._unseen_of(found):
            named = [i for i in range(sizes[site]) if _place_name(flat[site], site, i) in worst]
            found[site] = np.union1d(found[site], named).astype(int)
        return found

    @property
    def unseen(self) -> dict[str, int]:
        """How many numbers of a site are not looked at, where some are not."""
        return self._unseen_of(self.chosen)

    def _unseen_of(self, chosen) -> dict[str, int]:
        left = {site: self.posterior.flat[site][0].size - len(i) for site, i in chosen.items()}
        return {site: count for site, count in left.items() if count}

    @cached_property
    def places(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The site of each number that is looked at, and its place there."""
        return {
            self.names[site][i]: (site, np.unravel_index(i, self.posterior.flat[site].shape[1:]))
            for site, rows in self.chosen.items()
            for i in rows
        }

    @cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        """The draws of each number that is looked at: (chains, draws)."""
        draws = self.posterior.draws
        return {
            name: np.asarray(draws[site][(slice(None), slice(None), *place)], float)
            for name, (site, place) in self.places.items()
        }

    @cached_property
    def moving(self) -> dict[str, np.ndarray]:
        """The numbers that are finite and, beyond rounding, not the same in all draws."""
        return {
            name: x
            for name, x in self.numbers.items()
            if np.isfinite(x).all() and np.ptp(x) > ROUNDING * np.max(np.abs(x))
        }

    def summary(self, draws: dict[str, np.ndarray], **options):
        """The table of posterior.summary, of some numbers (chains, draws) by their names here."""
        import xarray as xr

        x = np.stack(list(draws.values()), axis=-1)
        data = xr.Dataset({"x": (("chain", "draw", "number"), x)})
        table = summary_of(self.posterior, data, **options)
        table.index = list(draws)
        return table

    def first(self, most: int) -> list[str]:
        """So many of the moving numbers, in turn from each site, in the order of the model."""
        by_site: dict[str, list[str]] = {}
        for name in self.moving:
            by_site.setdefault(self.places[name][0], []).append(name)
        found: list[str] = []
        for turn in range(most):
            found += [names[turn] for names in by_site.values() if turn < len(names)]
        kept = set(found[:most])
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
        log_ratios = self.posterior.log_ratios
        if log_ratios is None or not np.nanmax(log_ratios) - np.nanmin(log_ratios) < OVERFLOWS:
            return None
        return smooth(log_ratios).log


def _place_name(values, site: str, i: int) -> str:
    """The name of a number outside of reports, which knows no labels."""
    return number_name(site, np.unravel_index(i, values.shape[1:]))
