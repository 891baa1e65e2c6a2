"""The subject of a report: a posterior or forecast, and shared results about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import jax
import numpy as np
import xarray as xr
from arviz_stats.base.array import array_stats

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import ROUNDING_ERROR
from bayeskern.core.scalars import scalar_name
from bayeskern.diagnostics.report.priors import (
    DensityCurve,
    SitePrior,
    prior_curve,
    site_priors,
)
from bayeskern.diagnostics.report.processes import ForecastProcess, Process, processes
from bayeskern.forecast.result import Forecast
from bayeskern.inference import Posterior, Target
from bayeskern.inference.approximation.psis import weighted_difference
from bayeskern.inference.assessment.convergence import ChainLimits
from bayeskern.inference.model.trace.sites import ModelSite
from bayeskern.inference.posterior.summary import summary

Result = TypeVar("Result")


class UnreadableError(ValueError):
    """A posterior cannot be converted to the groups of ArviZ."""


class Subject:
    """A posterior, its name among several, and a seed; or a forecast instead.

    Attributes:
        name: The name.
        seed: Seed of everything random in the report.
        forecast: The forecast, or None.
        failure: Reason why parts of the report cannot be made, once a section has met it.
    """

    def __init__(
        self,
        posterior: Posterior | None,
        name: str = "",
        seed: int = 0,
        forecast: Forecast | None = None,
    ):
        self._posterior = posterior
        self.name, self.seed, self.forecast = name, seed, forecast
        self.failure = ""

    @property
    def posterior(self) -> Posterior:
        """The posterior. Raises ValueError for a forecast."""
        if self._posterior is None:
            raise ValueError("a forecast has no single posterior.")
        return self._posterior

    def rng(self) -> np.random.Generator:
        """A new generator from the seed; every section draws the same numbers."""
        return np.random.default_rng(self.seed)

    def _read(self, read: Callable[[], Result]) -> Result:
        try:
            return read()
        except ValueError as error:
            self.failure = str(error)
            raise UnreadableError(self.failure) from error

    @cached_property
    def tree(self) -> xr.DataTree:
        """The posterior as ArviZ has it. Raises UnreadableError, as do its users."""
        return self._read(self.posterior.to_arviz)

    def group(self, name: str) -> xr.Dataset:
        """A group of the tree; an empty one if it is missing."""
        return self.tree[name].to_dataset() if name in self.tree.children else xr.Dataset()

    @property
    def has_model(self) -> bool:
        """True if there is a model to run; a posterior read from a file has none."""
        return self._posterior is not None and self._posterior.target is not None

    @property
    def target(self) -> Target:
        """The model and its data. Raises ValueError without a model."""
        if self.posterior.target is None:
            raise ValueError("the posterior has no model.")
        return self.posterior.target

    @property
    def model(self) -> Any:
        """The fitted model, or None."""
        return self.target.model if self.has_model else None

    @cached_property
    def sites(self) -> dict[str, ModelSite]:
        """Description of each site of the model. Raises UnreadableError."""
        return self._read(self.target.sites)

    @cached_property
    def observed(self) -> dict[str, np.ndarray]:
        """Observations that are not masked, by site. Raises UnreadableError."""
        return self._read(self.posterior.observed)

    @cached_property
    def priors(self) -> list[SitePrior]:
        """The prior of each latent site of the model."""
        return site_priors(self.target)

    @property
    def has_improper_prior(self) -> bool:
        """True if a prior is missing or cannot be normalised."""
        if self.has_model:
            return bool(self.target.without_prior)
        # A posterior without its model then has no draws from the prior.
        return not self.group("prior")

    def prior_draws(self, site: str) -> np.ndarray | None:
        """Draws of a site from the prior, (S, shape); None if there are none."""
        draws = self.group("prior").get(site.replace("/", "."))
        if draws is None:
            return None
        values = np.asarray(draws, float)
        return values.reshape(-1, *values.shape[2:])

    def prior_density(self, prior: SitePrior, draws: int = 2000) -> DensityCurve | None:
        """Density of the first parameter of a site; None without a proper prior."""
        if prior.distribution is None or 0 in prior.shape:
            return None
        if prior.is_constant:
            # Sampling the distribution costs far less than running the model.
            key = jax.random.key(self.seed)
            values = np.asarray(prior.distribution.sample(key, (draws,)), float)
        else:
            values = self.prior_draws(prior.site)
        if values is None:
            return None
        return prior_curve(self.names[prior.site][0], prior, values)

    @cached_property
    def processes(self) -> list[Process]:
        """Gaussian processes that the model observes with Gaussian noise."""
        return processes(self.posterior, self.target, self.sites) if self.has_model else []

    @cached_property
    def forecast_process(self) -> ForecastProcess:
        """The most probable structure of the forecast. Raises ValueError for a posterior."""
        if self.forecast is None:
            raise ValueError("a posterior has no structures.")
        return ForecastProcess.of(self.forecast)

    # -- parameters and their names ----------------------------------------------------------------

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """Names of the parameters of each site, in the order of its flattened draws."""
        axes = {}
        # ArviZ is asked only for labels.
        if self.posterior.coords and self.is_readable:
            group = self.group("posterior")
            for site in self.posterior.flat:
                values = group[site.replace("/", ".")]
                axes[site] = [[str(x) for x in values[d].values] for d in values.dims[2:]]
        return parameter_names(self.posterior.flat, axes)

    @property
    def is_readable(self) -> bool:
        """True if the groups of ArviZ can be made."""
        try:
            return self.tree is not None
        except UnreadableError:
            return False

    @cached_property
    def label_of(self) -> dict[str, str]:
        """Name of a parameter in this report, by its name in the verdict, without labels."""
        labels_of: dict[str, list[str]] = {}
        for site, site_names in self.names.items():
            for i, name in enumerate(site_names):
                labels_of.setdefault(self._plain_name(site, i), []).append(name)
        return {plain: names[0] for plain, names in labels_of.items() if len(names) == 1}

    def _index(self, site: str, i: int) -> tuple[int, ...]:
        """Index of the parameter i of a flattened site."""
        return tuple(map(int, np.unravel_index(i, self.posterior.flat[site].shape[1:])))

    def _plain_name(self, site: str, i: int) -> str:
        return scalar_name(site, self._index(site, i))

    @cached_property
    def examined(self) -> dict[str, np.ndarray]:
        """Parameters to examine of each site: an even selection, and those in the verdict."""
        flat = {k: v for k, v in self.posterior.flat.items() if v.dtype.kind in "fiub"}
        sizes = {site: values[0].size for site, values in flat.items()}
        counts = parameters_per_site(sizes)
        examined = {site: evenly(size, counts[site]) for site, size in sizes.items()}
        evidence = self.posterior.trust.evidence
        worst = {str(value) for name, value in evidence.items() if name.endswith("_at")}
        for site in self._counts_left_out(examined):
            named = [i for i in range(sizes[site]) if self._plain_name(site, i) in worst]
            examined[site] = np.union1d(examined[site], named).astype(int)
        return examined

    @property
    def not_examined(self) -> dict[str, int]:
        """Number of parameters of a site that are not examined, if any."""
        return self._counts_left_out(self.examined)

    def _counts_left_out(self, examined: Mapping[str, np.ndarray]) -> dict[str, int]:
        counts = {s: self.posterior.flat[s][0].size - len(rows) for s, rows in examined.items()}
        return {site: count for site, count in counts.items() if count}

    @cached_property
    def locations(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Site and index of each examined parameter, by name."""
        return {
            self.names[site][i]: (site, self._index(site, i))
            for site, rows in self.examined.items()
            for i in rows
        }

    @cached_property
    def examined_draws(self) -> dict[str, np.ndarray]:
        """Draws (chains, draws) of each examined parameter, by name."""
        draws = self.posterior.draws
        return {
            name: np.asarray(draws[site][(slice(None), slice(None), *index)], float)
            for name, (site, index) in self.locations.items()
        }

    @cached_property
    def varying(self) -> dict[str, np.ndarray]:
        """Draws of the examined parameters that are finite and vary beyond rounding."""
        return {
            name: x
            for name, x in self.examined_draws.items()
            if np.isfinite(x).all() and np.ptp(x) > ROUNDING_ERROR * np.max(np.abs(x))
        }

    def summary(self, draws: Mapping[str, np.ndarray], **options) -> Any:
        """The table of posterior.summary, for draws (chains, draws) by name."""
        x = np.stack(list(draws.values()), axis=-1)
        data = xr.Dataset({"x": (("chain", "draw", "number"), x)})
        table = summary(self.posterior, data, **options)
        table.index = list(draws)
        return table

    def first_of_each_site(self, count: int) -> list[str]:
        """Names of `count` varying parameters, taken from each site in turn."""
        by_site: dict[str, list[str]] = {}
        for name in self.varying:
            by_site.setdefault(self.locations[name][0], []).append(name)
        names: list[str] = []
        for turn in range(count):
            names += [site_names[turn] for site_names in by_site.values() if turn < len(site_names)]
        kept = set(names[:count])
        return [name for name in self.varying if name in kept]

    @cached_property
    def worst_first(self) -> list[str]:
        """Names of the varying parameters, sorted by mixing or by their change by weighting."""
        names = list(self.varying)
        if not names:
            return []
        if self.posterior.has_chains:
            x = np.stack([self.varying[n] for n in names])
            badness = -np.asarray(array_stats.ess(x))  # pyright: ignore[reportArgumentType]
            if x.shape[1] > 1:
                # R-hat first, if it is not good; then effective draws.
                limit = ChainLimits().good_rhat
                rhat = np.asarray(array_stats.rhat(x))  # pyright: ignore[reportArgumentType]
                badness = badness + 1e6 * np.maximum(rhat - limit, 0.0)
        elif self.posterior.importance_weights is not None:
            x = np.stack([self.varying[n].ravel() for n in names], axis=1)
            weights = self.posterior.importance_weights.normal
            shift = weighted_difference(x, x, y_weights=weights)
            badness = np.maximum(shift.mean, shift.log_sd)
        else:
            return names
        badness = np.where(np.isnan(badness), np.inf, badness)
        return [names[i] for i in np.argsort(-badness, kind="stable")]


def parameter_names(
    draws: Mapping[str, np.ndarray], axes: Mapping[str, list[list[str]]]
) -> dict[str, list[str]]:
    """Unique names of the parameters of each site, such as `weights[age]`.

    Args:
        draws: Draws of each site, (S, shape).
        axes: Labels along each axis of a site; without labels indices count from 0.

    Returns:
        Names in the order of flattened draws. Names that two parameters would share, such as the
        site "x[0]" and the first of "x", name their site.
    """
    names = {}
    for site, values in draws.items():
        shape = np.shape(values)[1:]
        labels = axes.get(site) or [list(map(str, range(size))) for size in shape]
        names[site] = [
            scalar_name(site, [axis[i] for axis, i in zip(labels, index, strict=True)])
            for index in np.ndindex(shape)
        ]
    count = Counter(name for site_names in names.values() for name in site_names)
    for site, site_names in names.items():
        indices = np.ndindex(np.shape(draws[site])[1:])
        names[site] = [
            name if count[name] == 1 else f"{name} at {site!r}{list(index) or ''}"
            for name, index in zip(site_names, indices, strict=True)
        ]
    return names


def parameters_per_site(
    sizes: Mapping[str, int], total: int = 500, min_per_site: int = 12
) -> dict[str, int]:
    """Number of parameters to examine of each site.

    A latent function has a parameter for each point, and an effective sample size takes
    milliseconds.

    Args:
        sizes: Number of parameters of each site.
        total: Number of parameters in all, split evenly among sites; small sites stay whole.
        min_per_site: Lower bound for each site, which may exceed the total.
    """
    remaining, counts = total, {}
    for i, (site, size) in enumerate(sorted(sizes.items(), key=lambda item: item[1])):
        counts[site] = min(size, max(min_per_site, remaining // (len(sizes) - i)))
        remaining -= counts[site]
    return counts
