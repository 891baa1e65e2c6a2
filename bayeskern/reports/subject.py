"""The subject of a report: a posterior or a forecast, and shared results about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayeskern.core.batching import evenly
from bayeskern.core.formatting import ROUNDING_ERROR
from bayeskern.core.scalars import scalar_name
from bayeskern.diagnostics.calibration.calibration import Calibration
from bayeskern.diagnostics.drawing import density
from bayeskern.diagnostics.priors import SitePrior, site_priors
from bayeskern.forecast.result import Forecast
from bayeskern.inference import Posterior
from bayeskern.inference.approximation.psis import weighted_difference
from bayeskern.inference.assessment import power_scaling
from bayeskern.inference.assessment.convergence import GOOD_RHAT
from bayeskern.inference.known_marginal import KnownMarginal
from bayeskern.inference.model.trace.axes import netcdf_name
from bayeskern.inference.model.trace.sites import ModelSite
from bayeskern.inference.posterior.summary import summary
from bayeskern.reports.processes import ForecastProcess, Process, processes

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class ForecastSubject:
    """A forecast, and the random seed of its report."""

    forecast: Forecast
    seed: int = 0

    @cached_property
    def process(self) -> ForecastProcess:
        """The structure of the forecast with the largest weight."""
        return ForecastProcess.from_forecast(self.forecast)


class ScalarParameter(NamedTuple):
    """A scalar parameter: an element of a site.

    Attributes:
        name: Unique name in the report, with labels, such as `weights[age]`.
        plain: Name in the verdict, with indices, such as `weights[0]`.
        site: Name of the site.
        index: Index of the element.
    """

    name: str
    plain: str
    site: str
    index: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Subject:
    """A posterior, its name among several, the seed of the report, and its calibration."""

    posterior: Posterior
    name: str = ""
    seed: int = 0
    calibration: Calibration | None = None

    def rng(self) -> np.random.Generator:
        """A new generator from the seed; every section draws the same numbers."""
        return np.random.default_rng(self.seed)

    @cached_property
    def tree(self) -> xr.DataTree:
        """The posterior as a DataTree of ArviZ."""
        return self.posterior.to_arviz()

    def group(self, name: str) -> xr.Dataset:
        """A group of the tree; an empty one if it is missing."""
        import xarray as xr  # slow to import

        return self.tree[name].to_dataset() if name in self.tree.children else xr.Dataset()

    @property
    def has_model(self) -> bool:
        """True if there is a model to run; a posterior read from a file has none."""
        return self.posterior.target is not None

    @property
    def model(self) -> Any:
        """The fitted model, or None."""
        return self.posterior.known_target.model if self.has_model else None

    @cached_property
    def sites(self) -> dict[str, ModelSite]:
        """Description of each site of the model; empty without a model."""
        return self.posterior.known_target.sites() if self.has_model else {}

    @cached_property
    def priors(self) -> dict[str, SitePrior]:
        """The prior of each latent site of the model."""
        return {prior.site: prior for prior in site_priors(self.posterior.known_target)}

    @property
    def has_improper_prior(self) -> bool:
        """True if a prior is missing or cannot be normalised."""
        if self.has_model:
            return bool(self.posterior.known_target.without_prior)
        # Without its model, a posterior has draws from the prior only if the prior is proper.
        return not self.group("prior")

    def prior_density(self, name: str, x: np.ndarray) -> np.ndarray | None:
        """Prior density of a parameter at ascending x; None without a proper prior.

        A prior that depends on other sites has a kernel density estimate.
        """
        _, _, site, index = self.by_name[name]
        exact = self.priors[site].density(index, x) if site in self.priors else None
        if exact is not None:
            return exact
        draws = self.group("prior").get(netcdf_name(site))
        if draws is None:
            return None
        estimate = density(np.asarray(draws, float)[(..., *index)].ravel(), x[0], x[-1])
        return None if estimate is None else np.interp(x, *estimate, left=np.nan, right=np.nan)

    @cached_property
    def processes(self) -> list[Process]:
        """Gaussian processes that the model observes with Gaussian noise."""
        return (
            processes(self.posterior, self.posterior.known_target, self.sites)
            if self.has_model
            else []
        )

    # -- parameters and their names ----------------------------------------------------------------

    @cached_property
    def parameters(self) -> list[ScalarParameter]:
        """All parameters, in the order of flattened draws."""
        return parameters(self.posterior.flat, self.posterior.axis_labels)

    @cached_property
    def label_of(self) -> dict[str, str]:
        """Name of a parameter in this report, by its name in the verdict, without labels."""
        count = Counter(p.plain for p in self.parameters)
        return {p.plain: p.name for p in self.parameters if count[p.plain] == 1}

    @cached_property
    def by_name(self) -> dict[str, ScalarParameter]:
        """Examined parameters by name: evenly spaced ones of each site, and the worst."""
        sites = list(self.posterior.flat)
        # Latent functions have a parameter for each point, and the effective sample size of one
        # parameter takes milliseconds.
        max_per_site = max(50, 500 // max(1, len(sites)))
        evidence = self.posterior.trust.evidence
        worst = {str(value) for name, value in evidence.items() if name.endswith("_at")}
        examined = {}
        for site in sites:
            of_site = [p for p in self.parameters if p.site == site]
            chosen = set(evenly(len(of_site), max_per_site).tolist())
            examined |= {p.name: p for i, p in enumerate(of_site) if i in chosen or p.name in worst}
        return examined

    @property
    def not_examined(self) -> Counter[str]:
        """Number of parameters that are not examined, by site."""
        return Counter(p.site for p in self.parameters if p.name not in self.by_name)

    def known_marginal(self, parameter: ScalarParameter) -> KnownMarginal | None:
        """Exact distribution of a parameter; None if it is unknown."""
        marginal = self.posterior.marginals.get(parameter.site)
        return None if marginal is None else marginal.element(parameter.index)

    def draws(self, parameter: ScalarParameter) -> np.ndarray:
        """Draws (chains, draws) of a parameter."""
        return np.asarray(self.posterior.draws[parameter.site][(..., *parameter.index)], float)

    @cached_property
    def varying(self) -> dict[str, np.ndarray]:
        """Draws of the examined parameters that are finite and not constant, by name."""
        all_draws = {name: self.draws(parameter) for name, parameter in self.by_name.items()}
        return {
            name: x
            for name, x in all_draws.items()
            if np.isfinite(x).all() and np.ptp(x) > ROUNDING_ERROR * np.max(np.abs(x))
        }

    @cached_property
    def scaled_densities(self) -> power_scaling.ScaledDensities:
        """Log prior and log likelihood at some draws, for power scaling."""
        return power_scaling.scaled_densities(self.posterior)

    @cached_property
    def sensitivities(self) -> dict[str, power_scaling.Sensitivity]:
        """Sensitivity to prior and likelihood of up to 80 parameters; empty if unknown."""
        if power_scaling.reason_not_scalable(self.posterior):
            return {}
        densities = self.scaled_densities
        if power_scaling.reason_not_weighted(densities):
            return {}
        draws = {name: x[:, densities.rows] for name, x in list(self.varying.items())[:80]}
        return power_scaling.sensitivities(draws, densities)

    def summary(
        self,
        draws: Mapping[str, np.ndarray],
        known: Mapping[str, KnownMarginal] | None = None,
        **options,
    ) -> Any:
        """The table of posterior.summary, for draws (chains, draws) by name.

        known: Marginal distributions by name, whose moments replace those of draws.
        """
        import xarray as xr  # slow to import

        # One variable for all numbers is fast, but a known marginal belongs to a whole variable.
        if known:
            columns = {name: f"x{i}" for i, name in enumerate(draws)}
            data = xr.Dataset({columns[n]: (("chain", "draw"), x) for n, x in draws.items()})
            marginals = {columns[name]: marginal for name, marginal in known.items()}
        else:
            stacked = np.stack(list(draws.values()), axis=-1)
            data, marginals = xr.Dataset({"x": (("chain", "draw", "number"), stacked)}), {}
        table = summary(self.posterior, data, marginals, round_to="none", **options)
        table.index = list(draws)
        return table

    def first_of_each_site(self, count: int) -> list[str]:
        """Names of `count` varying parameters, taken from each site in turn."""
        taken, turns = Counter(), {}
        for name in self.varying:
            site = self.by_name[name].site
            turns[name] = taken[site]
            taken[site] += 1
        kept = set(sorted(turns, key=lambda name: turns[name])[:count])
        return [name for name in self.varying if name in kept]

    @cached_property
    def worst_first(self) -> list[str]:
        """Names of the varying parameters, worst first.

        Chains are sorted by R-hat and effective draws, weighted draws by the change from weighting.
        """
        from arviz_stats.base.array import array_stats  # slow to import

        names = list(self.varying)
        if not names:
            return []
        if self.posterior.has_chains:
            x = np.stack([self.varying[n] for n in names])
            badness = -np.asarray(array_stats.ess(x))  # pyright: ignore[reportArgumentType]
            if x.shape[1] > 1:
                # R-hat first, if it is not good; then effective draws.
                rhat = np.asarray(array_stats.rhat(x))  # pyright: ignore[reportArgumentType]
                badness = badness + 1e6 * np.maximum(rhat - GOOD_RHAT, 0.0)
        elif self.posterior.importance_weights is not None:
            x = np.stack([self.varying[n].ravel() for n in names], axis=1)
            weights = self.posterior.importance_weights.normal
            shift = weighted_difference(x, x, y_weights=weights)
            badness = np.maximum(shift.mean, shift.log_sd)
        else:
            return names
        badness = np.where(np.isnan(badness), np.inf, badness)
        return [names[i] for i in np.argsort(-badness, kind="stable")]


def parameters(
    draws: Mapping[str, np.ndarray], labels: Mapping[str, list[list[str]]]
) -> list[ScalarParameter]:
    """The parameters of sites, in the order of flattened draws.

    If two parameters have one name, such as the site "x[0]" and the first element of the site "x",
    their names get their sites added.

    Args:
        draws: Draws of each site, (S, *site).
        labels: Labels along each axis of a site; without labels indices count from 0.
    """
    all_parameters = []
    for site, values in draws.items():
        for index in np.ndindex(np.shape(values)[1:]):
            axes = labels.get(site) or [range(size) for size in np.shape(values)[1:]]
            shown: Any = [axis[i] for axis, i in zip(axes, index, strict=True)]
            plain = scalar_name(site, index)
            all_parameters.append(ScalarParameter(scalar_name(site, shown), plain, site, index))
    count = Counter(p.name for p in all_parameters)
    return [
        p if count[p.name] == 1 else p._replace(name=f"{p.name} at {p.site!r}{list(p.index) or ''}")
        for p in all_parameters
    ]
