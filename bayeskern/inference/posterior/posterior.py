"""Posterior: the result of every inference method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import counted
from bayeskern.core.scalars import scalar_name, with_labels
from bayeskern.core.threads import blas_threads_for
from bayeskern.core.timing import Stopwatch
from bayeskern.hyperparameters import PointEstimate
from bayeskern.inference.assessment import latent_laplace, power_scaling
from bayeskern.inference.findings import Findings
from bayeskern.inference.model.checks.forgotten_data import forgets_data
from bayeskern.inference.model.target import Target
from bayeskern.inference.model.trace.arguments import model_arguments
from bayeskern.inference.posterior import (
    arviz,
    expectation,
    log_likelihood,
    netcdf,
    predictive,
    summary,
)
from bayeskern.inference.posterior.expectation import Expectation
from bayeskern.inference.posterior.missing import sites_at
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust
from bayeskern.prediction.empirical import Predictions, SampledPrediction
from bayeskern.prediction.mixture import Prediction

if TYPE_CHECKING:
    # pandas and xarray take a while to import.
    import pandas as pd
    import xarray as xr

# Fields of a posterior that the call of `infer` sets, not the method.
CALL_FIELDS = ("coords", "dims", "seed", "made_by", "progress")


class Posterior(Fit):
    """Draws from a posterior, or its mode as a single draw, and a verdict on them.

    Attributes:
        method: Name of the method.
        draws: Each latent and deterministic site as an array (chains, draws, *site), equally
            weighted.
        target: The model and its data; None if the posterior was loaded without the model.
        weighted: Weighted draws, each (S, *site), and their log weights (S,), normalised; None if
            the draws are not weighted.
        log_evidence: log p(data) with its standard error, if it is known and the prior is proper.
        timing: Seconds by part: "compile", "run" and "total"; "sampling" is the time of NUTS with
            its warmup, without compilation.

    `Fit` documents the other attributes.
    """

    @classmethod
    def from_fit(cls, fit: Fit, target: Target, method: str, **known: Any) -> Self:
        """The posterior of a fit, with the sites at its draws.

        Args:
            fit: The fit; a posterior, which has its sites, receives the fields only.
            target: The target that was passed to the method.
            method: Name of the method.
            **known: Fields of the call.
        """
        if isinstance(fit, cls):
            return replace(fit, **known)
        target, findings = fit.target or target, fit.findings
        if fit.optimum is not None:
            findings |= Findings((fit.optimum,))
        known = {f.name: getattr(fit, f.name) for f in fields(fit)} | known
        known |= {
            "method": fit.method or method,
            "target": target,
            # With an improper prior, the evidence has no scale.
            "log_evidence": None if target.without_scale else fit.log_evidence,
        }
        posterior = cls(**known)
        weighted = None
        if fit.weighted_z is not None:
            z, log_weights = fit.weighted_z
            heaviest = np.argsort(-log_weights, kind="stable")[:20]
            findings |= Findings.at(posterior.fitted_target.coordinates, z[heaviest])
            sites = sites_at(posterior, z[None])
            weighted = ({name: values[0] for name, values in sites.items()}, log_weights)
        draws = fit.draws or sites_at(posterior, fit.z)
        return replace(posterior, draws=draws, weighted=weighted, findings=findings)

    # -- verdict ----------------------------------------------------------------------------------

    @cached_property
    def trust(self) -> Trust:
        """Verdict on these draws, and the evidence for it.

        If priors and data disagree by power scaling, the advice says so.
        """
        trust = power_scaling.with_prior_conflict(self, self.trust_in_draws)
        if not self.labels:
            return trust
        evidence = {
            name: self.labels.get(value, value) if name.endswith("_at") else value
            for name, value in trust.evidence.items()
        }
        return replace(trust, advice=with_labels(trust.advice, self.labels), evidence=evidence)

    @cached_property
    def trust_in_draws(self) -> Trust:
        """The verdict without a check of the priors."""
        with blas_threads_for(self.z.shape[-1]):
            trust = latent_laplace.assess_latent_laplace(self, self.assess(self))
        usable = trust.verdict in ("good", "caution")
        # A posterior that was loaded without its model keeps its verdict.
        if not usable or self.target is None or not forgets_data(self.target):
            return trust
        advice = (
            "No site is observed, so that this is the prior: pass obs= to the site that the data "
            "belong to."
        )
        advice += "" if trust.verdict == "good" else f" {trust.advice}"
        return replace(trust, verdict="caution", advice=advice)

    def extend(self, draws: int) -> Posterior:
        """Posterior of the same run with further draws, equal to that of one long run.

        Args:
            draws: Number of further draws of each chain; a multiple of its thinning interval.

        Returns:
            The posterior with all draws, and a verdict on them.

        Raises:
            ValueError: If the method has no chains, or the posterior was loaded from a file.
        """
        if self.continuation is None:
            raise ValueError(
                f"{self.method} has no chains that can go on. Only a posterior by method='nuts' in "
                "the session of its fit can be extended; NUTS(checkpoint=path) keeps a run in a "
                "file."
            )
        draws = validation.positive_integer(draws, "draws")
        with Stopwatch() as watch, blas_threads_for(self.z.shape[-1]):
            fit = self.continuation(draws, self.progress)
            kept = ("target", "marginalized", "attempts", *CALL_FIELDS)
            fit = replace(fit, **{name: getattr(self, name) for name in kept})
            posterior = Posterior.from_fit(fit, self.known_target, self.method)
        return replace(posterior, timing=posterior.timing | watch.seconds)

    def point(self, statistic: str = "mean") -> PointEstimate:
        """One value for each site, such as a kernel can take.

        `kernel.at(posterior.point("mean"))` is the kernel of a model with these values.

        Args:
            statistic: "mean" or "median", over all draws.

        Returns:
            A dict of arrays by site, each of the shape of the site.

        Raises:
            ValueError: If the statistic is unknown.
        """
        statistics = {"mean": np.mean, "median": np.median}
        average = statistics[validation.one_of("statistic", statistic, statistics)]
        return PointEstimate(
            {name: average(draws, axis=(0, 1)) for name, draws in self.draws.items()}
        )

    # -- predictions and summaries ----------------------------------------------------------------

    def expectation(self, f: Callable, match: bool = False) -> Expectation:
        """E[f] under the posterior, with its Monte Carlo standard error.

        Weighted draws give sum w f, self-normalised, with an error by the delta method. Otherwise
        the value is the mean, and its error follows from the effective sample size of Markov
        chains, from the ancestors and islands of particles, and is sd / sqrt(S) for independent
        draws. The error is the sampling error only: `trust` judges the draws themselves.

        Args:
            f: Function of one draw, a dict of values by site, written in JAX. It returns a number,
                an array, or a truth value, whose expectation is a probability.
            match: True to move draws of a proposal or approximation q until their weights p / q
                have a low k-hat (moment matching), and to take these weights.

        Returns:
            Value and error, each of the shape of f, and k-hat if draws are weighted.

        Raises:
            ValueError: If f uses an unknown site, or is NaN or infinite at a draw; if there is
                nothing to match.
            TypeError: If JAX cannot trace f.

        References:
            Owen (2013), "Monte Carlo theory, methods and examples", equations 9.6 and 9.8; Vehtari
            and others (2021), "Rank-normalization, folding, and localization", for chains;
            Paananen and others (2021), "Implicitly adaptive importance sampling", for `match`.

        Examples:
            >>> import bayeskern as bk
            >>> coin = bk.BetaBernoulli(1.0, 1.0)
            >>> posterior = bk.infer(coin, [1, 1, 0, 1], method="exact", seed=0)
            >>> print(posterior.expectation(lambda draw: draw["p"] > 0.5))
            0.80625 ± 0.0063
        """
        return expectation.expectation(self, f, match)

    def predict(
        self,
        *new_args: Any,
        seed: int = 0,
        extend: bool = False,
        draws: int | None = None,
        model_kwargs: dict | None = None,
        **kwargs: Any,
    ) -> Prediction | SampledPrediction | Predictions:
        """The posterior predictive at new arguments of the model.

        It has a closed form for each draw if the model offers `predictive` or observes a
        `GaussianProcess`. Otherwise observations are drawn, one for each draw of the posterior
        (1,000 for a point estimate). Observed sites are drawn even if the arguments contain data
        for them. Exceptions keep their data: sites on which other sites depend, such as a covariate
        with its own distribution, and steps with data in a `scan` under `condition`. After
        `infer(missing="impute")`, NaN of such covariates is drawn from their distribution.

        Args:
            *new_args: Arguments of the model for new data.
            seed: A whole number that determines all random numbers.
            extend: True to append new members to a plate of latents, drawn from their prior given
                the draw: new groups, a longer horizon.
            draws: Largest number of draws of the posterior that the prediction averages. By default
                500 of a `LatentGP`, 200 of another Gaussian process, each of which costs a
                factorization, and all draws of other models.
            model_kwargs: Named arguments of the model whose name is an option of this method.
            **kwargs: Other named arguments of the model; `latent=True` if the model offers it.

        Returns:
            A `Prediction`, or a `SampledPrediction`; a dict of predictions by site if there are
            several observed sites. Its `trust` is a verdict on its means and sds at these points,
            by weighted or other draws.

        Raises:
            ValueError: If a latent has another shape at the new arguments, naming the site; if
                `seed` may be meant for the model.
        """
        if draws is not None:
            draws = validation.positive_integer(draws, "draws")
        model = self.known_target.model
        options = {"seed": seed, "extend": extend, "draws": draws}
        named = model_arguments(self.predict, model, new_args, kwargs, model_kwargs, options)
        return predictive.predict(self, new_args, seed, extend, draws, named)

    def deterministics(
        self,
        *new_args: Any,
        seed: int = 0,
        extend: bool = False,
        model_kwargs: dict | None = None,
        **kwargs: Any,
    ) -> dict[str, np.ndarray]:
        """Deterministic sites at new arguments of the model, at each draw.

        Args:
            *new_args: Arguments of the model for new data, as in `predict`.
            seed: Seed of new observations on which the sites depend.
            extend: As in `predict`.
            model_kwargs: Named arguments of the model whose name is an option of this method.
            **kwargs: Other named arguments of the model.

        Returns:
            Each deterministic site, chains joined: (S, *site). Empty if there are none.

        Raises:
            ValueError: As `predict` does.
        """
        model, options = self.known_target.model, {"seed": seed, "extend": extend}
        named = model_arguments(self.deterministics, model, new_args, kwargs, model_kwargs, options)
        return predictive.deterministics(self, new_args, seed, extend, named)

    def infer_discrete(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Discrete sites that were summed out, drawn given the data, once for each draw.

        Args:
            seed: A whole number that determines all random numbers.

        Returns:
            Each discrete site, chains joined: (S, *site). Empty if there are none.

        Raises:
            ValueError: If they are the states of a `scan`, which NumPyro does not draw.
        """
        return predictive.infer_discrete(self, seed)

    def replicates(self, count: int) -> dict[str, np.ndarray]:
        """New data at the arguments of the fit, at `count` evenly spaced draws.

        Returns:
            Each site (count, *data); empty if the model cannot draw its own observations.
        """
        return predictive.replicates_at(self, count)

    def log_likelihood(self) -> dict[str, np.ndarray]:
        """Pointwise log likelihood, log p(y_i | draw).

        Values under `.to_event` are separate observations, masked observations are left out, and
        subsampled plates count in full, unscaled. A `numpyro.factor` is not an observation. For a
        `GaussianProcess`, values are log p(y_i | other observations, draw), at up to 200 evenly
        spaced draws (Buerkner, Gabry and Vehtari 2021). They also have this form if discrete
        latents were summed out; an event is then one observation.

        Returns:
            For each observed site (chains, draws, *data).

        Raises:
            ValueError: If this is a point estimate, or a discrete latent that was summed out ties
                several observations together.
        """
        return log_likelihood.log_likelihood(self)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the data of the fit: missing observations."""
        masks = self.missing_values
        if not masks:
            return ()
        count = sum(int(mask.sum()) for mask in masks.values())
        sites, more = [*masks][:3], ["..."] if len(masks) > 3 else []
        drawn = [f"{name}_missing" for name in sites]
        return (
            f"{counted(count, 'value')} of {', '.join([*sites, *more])} "
            f"{'is' if count == 1 else 'are'} missing: drawn as {', '.join([*drawn, *more])}, "
            "and left out of the log likelihood and of leave-one-out",
        )

    def observed(self) -> dict[str, np.ndarray]:
        """Observations of the fit, by site."""
        return arviz.observed(self)

    def to_arviz(self) -> xr.DataTree:
        """An xarray DataTree with the groups and named axes of ArviZ.

        Returns:
            The groups posterior, sample_stats, log_likelihood, log_prior, posterior_predictive,
            prior, prior_predictive, observed_data and constant_data, if the model and the method
            provide them.
        """
        return arviz.to_arviz(self)

    def summary(self, **options: Any) -> pd.DataFrame:
        """Table of means, sds and intervals of all sites.

        R-hat and effective sample sizes are shown for MCMC only. Numbers are shown to the second
        digit of their sd; the table itself keeps all digits.

        Args:
            **options: Options of `arviz.summary`.

        Returns:
            A pandas data frame with a row for each number.
        """
        return summary.summary(self, self._parameters(), **options)

    def _parameters(self) -> xr.Dataset:
        """Draws of all sites as a data set with named axes."""
        return arviz.parameters(self)

    @cached_property
    def axis_labels(self) -> dict[str, list[list[str]]]:
        """Labels along the axes of each site; empty if no axis has labels."""
        return arviz.axis_labels(self, self._parameters()) if self.coords else {}

    @cached_property
    def labels(self) -> dict[str, str]:
        """Map from names with indices, "theta[0]", to names with labels, "theta[A]"."""
        labels = {}
        for site, axes in self.axis_labels.items():
            for index in np.ndindex(*map(len, axes)):
                labels_at = [axis[i] for axis, i in zip(axes, index, strict=True)]
                labels[scalar_name(site, index)] = scalar_name(site, labels_at)
        return labels

    def save(self, path: str | Path) -> None:
        """Write the posterior to a netCDF file for `bk.load`, ArviZ and xarray.

        Args:
            path: Name of the file, which is written whole or not at all.

        Raises:
            OSError: If the path is a folder or cannot be written to.
        """
        netcdf.save(self, self.to_arviz(), path)

    def __repr__(self) -> str:
        sites = ", ".join(f"{k}{list(v.shape[2:]) or ''}" for k, v in self.draws.items())
        chains, count = self.shape
        head = f"Posterior(method={self.method!r}, {chains} x {count} draws of {sites})"
        lines = [head, *(f"{remark}." for remark in self.remarks)]
        return "\n".join([*lines, repr(self.trust)])
