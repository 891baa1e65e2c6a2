"""Leave-one-out cross-validation by PSIS, moment matching and refits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import abbreviated, message_of
from bayeskern.core.progress import Progress, hidden_progress
from bayeskern.core.scalars import scalar_name
from bayeskern.diagnostics.calibration.refit import FAILURES
from bayeskern.diagnostics.leave_one_out.estimates import (
    MATCHED,
    PSIS,
    REFITTED,
    Estimates,
    log_mean,
)
from bayeskern.diagnostics.leave_one_out.moment_matching import Matching
from bayeskern.diagnostics.leave_one_out.psis import (
    in_chunks,
    relative_efficiency,
    smoothed_weights,
    why_unavailable,
)
from bayeskern.diagnostics.leave_one_out.refits import refit_without, template_without
from bayeskern.diagnostics.leave_one_out.result import CrossValidation
from bayeskern.inference import METHODS, NUTS, Method, Posterior, Target, Trust
from bayeskern.inference.approximation.psis import khat_threshold
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.evaluation import PROGRESS_DELAY_SECONDS
from bayeskern.inference.posterior.log_likelihood import (
    factors_of,
    masks_of,
    powers_of,
    spread_constants,
)
from bayeskern.protocols import HasLogLikelihood

# Maximum number of observations that a report or a comparison matches, most influential first.
MAX_MATCHED = 20


def loo(
    posterior: Posterior,
    refit: str | Method = "never",
    max_refits: int = 20,
    seed: int = 0,
    progress: bool = True,
) -> CrossValidation:
    """Leave-one-out cross-validation: predict each observation by the others.

        elpd = sum_i log p(y_i | y without y_i)

    Draws of the posterior are weighted by 1 / p(y_i | draw) (PSIS). Where the Pareto k-hat of the
    weights is too high, the draws move towards the posterior without y_i (moment matching), and
    where that does not help, the model is fitted again without y_i if `refit` asks for it. If no
    k-hat is high, the values are those of PSIS. Under `numpyro.handlers.scale` an observation has a
    power s in the posterior: the weights are 1 / p(y_i | draw)^s.

    Args:
        posterior: A posterior with draws. Moment matching and refits need its model.
        refit: "never"; "auto" to refit, by the same method with its default options (NUTS after
            an exact fit), where k-hat stays too high; or a method, such as `bk.NUTS(draws=2000)`,
            for these refits.
        max_refits: Maximum number of refits; the observations with the highest k-hat are refitted.
        seed: Seed of the refits.
        progress: True to show a progress bar on a terminal.

    Returns:
        The elpd with its standard error, the number of effective parameters, the values and
        k-hats of all observations, and a verdict. Printed, it is a summary.

    Raises:
        ValueError: If the posterior is a point estimate, has fewer than two observations or no
            pointwise log likelihood, or if an option is invalid. If refits are needed and
            impossible: the model is not loaded, the method is unknown, or the model has its own log
            likelihood.
        TypeError: If `posterior` is not a posterior, or `refit` is neither a string nor a method.

    References:
        Vehtari, Gelman and Gabry (2017), "Practical Bayesian model evaluation using leave-one-out
        cross-validation and WAIC"; Paananen, Piironen, Buerkner and Vehtari (2021), "Implicitly
        adaptive importance sampling".

    Examples:
        >>> import numpy as np, numpyro, numpyro.distributions as dist, bayeskern as bk
        >>> def model(y):
        ...     mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
        ...     numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
        >>> posterior = bk.infer(model, np.array([0.1, -0.4, 0.3, 6.0]), method="laplace")
        >>> bk.loo(posterior).labels
        ('y[0]', 'y[1]', 'y[2]', 'y[3]')
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(
            f"posterior must be a posterior of bk.infer; got {type(posterior).__name__}."
        )
    if not isinstance(refit, str | Method):
        raise TypeError(
            f"refit must be 'never', 'auto' or a method such as bk.NUTS(draws=2000); got {refit!r}."
        )
    if isinstance(refit, str):
        validation.one_of("refit", refit, ("never", "auto"))
    validation.positive_integer(max_refits, "max_refits")
    validation.seed(seed)
    result = joined(loo_by_site(posterior, posterior.log_likelihood(), None, progress))
    if not len(result.unreliable):
        return result
    if posterior.target is None:
        remedy = "load the posterior with its model, as in bk.load(path, model=...)"
        if refit != "never":
            raise ValueError(f"{len(result.unreliable)} observations need a refit: {remedy}.")
        remark = f"Moments were not matched, which needs the model: {remedy}."
        return replace(result, remarks=(*result.remarks, remark))
    if refit == "never":
        return result
    method = _refit_method(posterior, refit)
    return with_refits(result, posterior, method, max_refits, seed, progress)


def loo_by_site(
    posterior: Posterior,
    log_likelihood: Mapping[str, np.ndarray],
    max_matched: int | None = MAX_MATCHED,
    progress: bool = False,
) -> dict[str, CrossValidation | str]:
    """Leave-one-out of each observed site, by PSIS and moment matching.

    Args:
        posterior: A posterior with draws.
        log_likelihood: Result of `posterior.log_likelihood()`, or some sites of it.
        max_matched: Maximum number of observations at which moments are matched, 0 if the log
            density is costly; None to match all.
        progress: True to show a progress bar on a terminal.

    Returns:
        Result of each site, or a sentence with the reason why it is unavailable.
    """
    efficiency = relative_efficiency(posterior)
    by_site: dict[str, CrossValidation | str] = {}
    matching: Matching | None = None
    powers = {} if posterior.target is None else powers_of(posterior)
    remarks = () if posterior.target is None else _remarks(posterior)
    for site, values in log_likelihood.items():
        estimates = _psis(values, efficiency, powers.get(site, 1.0))
        if isinstance(estimates, str):
            by_site[site] = estimates
            continue
        threshold = khat_threshold(values.shape[0] * values.shape[1])
        rows = _rows_to_match(posterior, estimates.psis_khat, threshold, max_matched)
        if len(rows):
            matching = matching or Matching.from_posterior(posterior, values.shape[1], efficiency)
            # A draw at the edge of a support has no finite coordinates.
            if matching is not None and np.isfinite(matching.proposal.z).all():
                _match(estimates, matching, site, rows, progress)
        by_site[site] = CrossValidation(
            {site: len(estimates.elpd)},
            _labels(posterior, site, values.shape[2:]),
            estimates,
            threshold,
            posterior.trust,
            {},
            remarks,
        )
    return by_site


def _rows_to_match(
    posterior: Posterior, khat: np.ndarray, threshold: float, max_matched: int | None
) -> np.ndarray:
    """Indices of the observations to match. Arguments as in `loo_by_site`."""
    rows = worst_first(khat, threshold)
    if posterior.target is None:
        return rows[:0]
    if max_matched is None or not len(rows):
        return rows
    return rows[: 0 if is_costly(posterior.target) else max_matched]


def worst_first(khat: np.ndarray, threshold: float) -> np.ndarray:
    """Indices of k-hats above the threshold, largest first, with NaN as infinity."""
    order = np.argsort(-np.where(np.isnan(khat), np.inf, khat), kind="stable")
    return order[~(khat[order] <= threshold)]


def _remarks(posterior: Posterior) -> tuple[str, ...]:
    """Remark on parts of the density that belong to no observation."""
    factors = factors_of(posterior)
    if not factors:
        return ()
    return (
        f"No observation belongs to {abbreviated(map(repr, factors), 5)} (numpyro.factor), so "
        "nothing of it is left out. If it holds data, write them as observed sites, one value for "
        "each observation.",
    )


def _psis(values: np.ndarray, efficiency: float, power: np.ndarray | float) -> Estimates | str:
    """PSIS of log likelihoods (chains, draws, *site), or the reason why it failed."""
    by_draw = values.reshape(values.shape[0] * values.shape[1], -1)
    reason = why_unavailable(by_draw)
    if reason:
        return reason
    powers, parts = np.broadcast_to(np.ravel(power), by_draw.shape[1]), []
    uniform = np.full((len(by_draw), 1), -np.log(len(by_draw)))
    for chunk in in_chunks(by_draw):
        log_values = spread_constants(by_draw[None, :, chunk])[0]
        weights = smoothed_weights(log_values, efficiency, powers[chunk])
        if isinstance(weights, str):
            return weights
        log_weights, khat = weights
        elpd, error = log_mean(log_weights, log_values, efficiency)
        in_sample, how = log_mean(uniform, log_values, efficiency)[0], [PSIS] * len(khat)
        parts.append(Estimates(elpd, in_sample, khat.copy(), khat, error, np.array(how, object)))
    return Estimates.join(parts)


def _match(
    estimates: Estimates, matching: Matching, site: str, rows: np.ndarray, progress: bool
) -> None:
    """Replace the estimates of `rows` where moment matching lowers their k-hat."""
    title = "leave-one-out: moment matching"
    with Progress(title, len(rows), progress, delay=PROGRESS_DELAY_SECONDS) as bar:
        for row in rows:
            left_out = matching.leave_out(matching.observation(site, row))
            # NaN is worse than any other k-hat.
            if left_out.khat < np.nan_to_num(estimates.khat[row], nan=np.inf):
                estimates.set(row, left_out, MATCHED)
            bar.advance()


def _labels(posterior: Posterior, site: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names of the unmasked observations of a site with `shape` log likelihoods."""
    indices = list(np.ndindex(shape))
    has_masks = posterior.target is not None and not isinstance(
        posterior.target.model, HasLogLikelihood
    )
    mask = masks_of(posterior)[site] if has_masks else None
    if mask is not None and not mask.all():
        indices = [tuple(index) for index in np.argwhere(mask).tolist()]
    return tuple(scalar_name(site, index) for index in indices)


def joined(by_site: dict[str, CrossValidation | str]) -> CrossValidation:
    """Combine the results of all sites; a site without a result becomes a remark."""
    results = [result for result in by_site.values() if isinstance(result, CrossValidation)]
    reasons = {site: reason for site, reason in by_site.items() if isinstance(reason, str)}
    if not results:
        raise ValueError(
            " ".join(reasons.values())
            or "the model has no observations, so there is nothing to leave out. Pass obs= to the "
            "sites that the data belong to."
        )
    return replace(
        results[0],
        sites={site: count for result in results for site, count in result.sites.items()},
        labels=tuple(label for result in results for label in result.labels),
        estimates=Estimates.join([result.estimates for result in results]),
        threshold=min(result.threshold for result in results),
        remarks=(
            *results[0].remarks,
            *(f"The site {site!r} is left out. {why}" for site, why in reasons.items()),
        ),
    )


# -- refits ----------------------------------------------------------------------------------------


def _refit_method(posterior: Posterior, refit: str | Method) -> Method:
    """The method of the refits."""
    if isinstance(refit, Method):
        if refit.is_point:
            raise ValueError(
                f"refit={refit!r} finds a single point, which does not say how well an "
                "observation is predicted. Take a method with draws, such as bk.NUTS()."
            )
        return refit
    if posterior.method == "exact":
        # The closed form is not known without one observation.
        return NUTS()
    if posterior.method not in METHODS:
        raise ValueError(
            f"the method of the fit, {posterior.method!r}, is unknown here. Pass the method of the "
            "refits, as in refit=bk.NUTS()."
        )
    return METHODS[posterior.method]()


def with_refits(
    result: CrossValidation,
    posterior: Posterior,
    method: Method,
    max_refits: int,
    seed: int,
    progress: bool,
) -> CrossValidation:
    """Replace the estimates with the highest k-hats by those of refits.

    Args:
        result: Leave-one-out of the posterior.
        posterior: The posterior, with its model.
        method: Method of the refits.
        max_refits: Maximum number of refits.
        seed: Seed of each refit.
        progress: True to show a progress bar on a terminal.
    """
    estimates = Estimates(*map(np.copy, result.estimates))
    matching = Matching.from_posterior(posterior, 1, 1.0)
    # A model without latents has no k-hat.
    assert matching is not None
    site_rows = [(site, i) for site, count in result.sites.items() for i in range(count)]
    order = worst_first(result.estimates.khat, result.threshold)
    templates: dict[str, Target] = {}
    refits: dict[str, Trust] = {}
    remarks = list(result.remarks)
    if len(order) > max_refits:
        remarks.append(
            f"{len(order)} observations need a refit; the {max_refits} with the highest "
            "k-hat were refitted. Raise max_refits for more."
        )
    total = min(len(order), max_refits)
    with Progress("leave-one-out: refits", total, progress) as bar:
        for row in order[:max_refits]:
            label, (site, row_of_site) = result.labels[row], site_rows[row]
            observation = matching.observation(site, row_of_site)
            if site not in templates:
                templates[site] = template_without(matching.target, site)
            arguments = (templates[site], observation, method, seed)
            try:
                with hidden_progress():
                    left_out, refits[label] = refit_without(*arguments)
            except FAILURES as error:
                remarks.append(f"The refit without {label} failed: {message_of(error)}")
            else:
                estimates.set(row, left_out, REFITTED)
            bar.advance()
    return replace(result, estimates=estimates, refits=refits, remarks=tuple(remarks))
