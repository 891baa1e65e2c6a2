"""Posteriors side by side: cost, verdict, log evidence and differences."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import aligned
from bayeskern.core.scalars import scalar_columns
from bayeskern.core.verdict import WIDTH
from bayeskern.diagnostics.comparison.forecasts import (
    ForecastComparison,
    Peer,
    compare_forecasts,
)
from bayeskern.diagnostics.comparison.marginals_plot import marginals
from bayeskern.diagnostics.comparison.stacking import are_one_model, stacked
from bayeskern.diagnostics.leave_one_out.loo import joined, loo_by_site
from bayeskern.diagnostics.leave_one_out.result import CrossValidation
from bayeskern.forecast.result import Forecast
from bayeskern.inference import Posterior
from bayeskern.inference.model.trace.enumeration import NoPointwiseError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def compare(
    posteriors: Mapping[str, Posterior] | Mapping[str, Forecast | Peer],
    reference: str | None = None,
) -> Comparison | ForecastComparison:
    """Compare posteriors of the same model and data, or forecasts of the same series.

    Forecasts are scored at past dates of the series, the same dates as for their verdict. Models of
    statsforecast (`pip install bayeskern[peers]`) can be compared with them at these dates.

    Args:
        posteriors: Posteriors by name, as in `{"laplace": p1, "nuts": p2}`; or forecasts and
            models, as in `{"ours": forecast, "ets": AutoETS(season_length=12)}`.
        reference: Name of the posterior that the others are measured against. The default is the
            first one with a good verdict that is exact or comes from MCMC; if there is none, the
            differences are left out.

    Returns:
        The comparison; printed, it is a table. For forecasts it holds mae, rmse, crps and
        coverages.

    Raises:
        ValueError: If `posteriors` is not a dict or is empty, if `reference` is not one of its
            names, or if a posterior shares no site with the reference.
        TypeError: If a value of `posteriors` has another type.
    """
    if not isinstance(posteriors, dict) or not posteriors:
        raise ValueError(
            "posteriors must be a dict of at least one name and posterior, as in "
            f'{{"laplace": p1, "nuts": p2}}; got {type(posteriors).__name__}.'
        )
    if any(isinstance(value, Forecast) for value in posteriors.values()):
        if reference is not None:
            raise ValueError(
                "reference= is for posteriors only; forecasts are scored by observed values."
            )
        return compare_forecasts(posteriors)
    by_name = {}
    for name, value in posteriors.items():
        if not isinstance(value, Posterior):
            raise TypeError(f"{name} must be a posterior of bk.infer; got {type(value).__name__}.")
        by_name[name] = value
    return compare_posteriors(by_name, reference)


def compare_posteriors(
    posteriors: dict[str, Posterior], reference: str | None = None
) -> Comparison:
    """Compare posteriors by name, as `compare` does."""
    if reference is None:
        reference = next((name for name, p in posteriors.items() if _is_good_reference(p)), None)
    else:
        validation.one_of("reference", reference, posteriors)
    results = {name: _leave_one_out(posterior) for name, posterior in posteriors.items()}
    table = {name: _table_row(p, results[name]) for name, p in posteriors.items()}
    with_other_data, baseline = _with_other_data(posteriors, table, reference)
    for name in with_other_data:
        densities = ("elpd", "elpd_error", "loo_khat", "elbo", "log_evidence")
        table[name] |= dict.fromkeys((*densities, "log_evidence_error"), np.nan)
    comparable = {n: r for n, r in results.items() if r is not None and n not in with_other_data}
    stacking = _stacking(posteriors, comparable)
    for name, row in stacking.items():
        table[name] |= row
    return Comparison(
        posteriors=dict(posteriors),
        reference=reference,
        table=table,
        parameters=_differences(posteriors, reference),
        remarks=(
            *(
                f"The elpd, log evidence and ELBO of {name} are left out, because its data differ "
                f"from those of {baseline}."
                for name in with_other_data
            ),
            *_too_influential(comparable),
            *(f"{name}: {remark}" for name, r in comparable.items() for remark in r.remarks),
            *([NO_WEIGHTS] if any(np.isnan(row["weight"]) for row in stacking.values()) else []),
        ),
    )


@dataclass(frozen=True, eq=False)
class Comparison:
    """Posteriors side by side, as `compare` returns them.

    Attributes:
        posteriors: The posteriors by name.
        reference: Name of the posterior that the others are measured against, or None.
        table: Measures of each posterior, by name: method, verdict, seconds, draws, ess_per_second
            (of the worst site for MCMC, of the weights p / q otherwise), khat, elbo, log_evidence
            and log_evidence_error, elpd (expected log predictive density by leave-one-out, with
            moment matching where PSIS fails) and elpd_error (its standard error), and loo_khat (its
            largest k-hat). For different models of the same data also weight and weight_error
            (stacking weight and its bootstrap error), elpd_difference and elpd_difference_error
            (from the largest elpd). Unknown values are NaN.
        parameters: Differences from the reference, by posterior and by parameter, named as in
            `posterior.summary()`: mean_error (in sds of the reference), sd_ratio, and wasserstein
            (1-Wasserstein distance of the marginals, in sds of the reference).
        remarks: Remarks on missing values. The elpd, log evidence and ELBO of a posterior are left
            out if its data differ from those of the reference (or, without a reference, of the
            first posterior that has such a value).
    """

    posteriors: dict[str, Posterior]
    reference: str | None
    table: dict[str, dict]
    parameters: dict[str, dict[str, dict[str, float]]]
    remarks: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas data frame, with a row for each posterior."""
        import pandas as pd  # slow to import

        return pd.DataFrame.from_dict(self.table, orient="index")

    def parameters_to_frame(self) -> pd.DataFrame:
        """Differences from the reference, as a data frame by posterior and parameter."""
        import pandas as pd  # slow to import

        rows = {
            (name, parameter): measures
            for name, differences in self.parameters.items()
            for parameter, measures in differences.items()
        }
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=list(DISTANCES))
        frame.index = pd.MultiIndex.from_tuples(list(rows), names=["posterior", "parameter"])
        return frame

    def plot(self, parameters: list[str] | None = None) -> Figure:
        """Plot overlaid marginal densities, and their 50 % and 90 % intervals.

        Args:
            parameters: Parameters to show, such as "weights[0]"; by default the first ten.

        Returns:
            A matplotlib figure.

        Raises:
            ValueError: If a parameter is unknown.
        """
        draws = {name: _draws_by_parameter(p) for name, p in self.posteriors.items()}
        names = list(next(iter(draws.values())))
        for parameter in parameters or ():
            validation.one_of("parameter", parameter, names)
        return marginals(draws, parameters or names[:10])

    def __repr__(self) -> str:
        lines = aligned([HEADINGS, *(table_cells(n, row) for n, row in self.table.items())])
        weights = stacking_cells(self.table)
        if weights:
            lines += ["", "models of the same data, averaged by stacking:"]
            lines += aligned([("", *STACKING), *weights])
        if self.parameters:
            worst = [self.worst(name) for name in self.parameters]
            lines += ["", f"against {self.reference}, the worst parameter of each:"]
            lines += aligned([("", *DISTANCES.values()), *worst])
        for remark in self.remarks:
            lines += ["", *textwrap.wrap(remark, WIDTH)]
        return "\n".join(lines)

    def worst(self, name: str) -> tuple[str, ...]:
        """Cells of a table row: the posterior, and its worst parameter by each measure."""
        differences = self.parameters[name]

        def largest(measure: str, size: Callable[[float], float]) -> str:
            # NaN counts as the worst value.
            sizes = {p: size(values[measure]) for p, values in differences.items()}
            parameter = max(sizes, key=lambda p: np.inf if np.isnan(sizes[p]) else sizes[p])
            return f"{differences[parameter][measure]:.2f} ({parameter})"

        return (
            name,
            largest("mean_error", abs),
            largest("sd_ratio", lambda x: abs(np.log(x)) if x > 0 else np.inf),
            largest("wasserstein", abs),
        )


DISTANCES = {"mean_error": "mean, sds off", "sd_ratio": "sd, ratio", "wasserstein": "Wasserstein"}
NO_WEIGHTS = "The stacking weights are unknown, because their optimisation did not converge."
STACKING = ("weight", "elpd, difference from the largest")
HEADINGS = (
    *("", "method", "verdict", "seconds", "draws", "ESS/s", "k-hat"),
    *("ELBO", "log evidence", "elpd (LOO)"),
)


def _is_good_reference(posterior: Posterior) -> bool:
    """True if the method is exact in the limit of many draws, and its verdict good."""
    converges = posterior.method in ("exact", "smc") or posterior.is_mcmc
    return converges and posterior.trust.verdict == "good"


def _table_row(posterior: Posterior, result: CrossValidation | None) -> dict:
    trust, elbo, log_evidence = posterior.trust, posterior.elbo, posterior.log_evidence
    seconds = posterior.timing.get("total", np.nan)
    draws = math.prod(posterior.shape)
    ess = trust.evidence.get("ess_bulk", trust.evidence.get("ess_of_weights", np.nan))
    if posterior.method == "exact":
        ess = draws
    return {
        "method": posterior.method,
        "verdict": trust.verdict,
        "seconds": seconds,
        "draws": draws,
        "ess_per_second": ess / seconds if seconds > 0 else np.nan,
        "khat": trust.evidence.get("khat", np.nan),
        "elbo": np.nan if elbo is None else elbo.value,
        "log_evidence": np.nan if log_evidence is None else log_evidence.value,
        "log_evidence_error": np.nan if log_evidence is None else log_evidence.error,
        "elpd": np.nan if result is None else result.elpd,
        "elpd_error": np.nan if result is None else result.elpd_error,
        "loo_khat": np.nan if result is None else float(np.max(result.estimates.khat)),
    }


def _leave_one_out(posterior: Posterior) -> CrossValidation | None:
    """Leave-one-out of all sites with several observations; None if a site fails."""
    if posterior.is_point:
        return None
    try:
        by_site = posterior.log_likelihood()
    except NoPointwiseError:
        return None
    # A single observation cannot be left out.
    by_site = {site: values for site, values in by_site.items() if values[0, 0].size > 1}
    results = loo_by_site(posterior, by_site)
    if not results or any(isinstance(result, str) for result in results.values()):
        return None
    return joined(results)


def _stacking(
    posteriors: dict[str, Posterior], results: dict[str, CrossValidation]
) -> dict[str, dict[str, float]]:
    """Stacking weights and differences in elpd; empty for posteriors of one model."""
    if len(results) < 2 or are_one_model([posteriors[name] for name in results]):
        return {}
    if len({result.labels for result in results.values()}) > 1:
        return {}
    return {
        name: {
            "weight": row.weight.value,
            "weight_error": row.weight.error,
            "elpd_difference": row.elpd_difference.value,
            "elpd_difference_error": row.elpd_difference.error,
        }
        for name, row in stacked(results).items()
    }


def _too_influential(results: Mapping[str, CrossValidation]) -> Iterator[str]:
    """Yield a remark if observations are too influential."""
    counts = [f"{name} {len(r.unreliable)}" for name, r in results.items() if len(r.unreliable)]
    if counts:
        listed = ", ".join(counts)
        yield (
            f"The elpd is uncertain, since some observations have a high k-hat ({listed}): "
            "they are too influential for their own prediction. Refit the model without them: "
            "bk.loo(posterior, refit='auto')."
        )


def _with_other_data(
    posteriors: dict[str, Posterior], table: dict[str, dict], reference: str | None
) -> tuple[list[str], str | None]:
    """Names of posteriors whose data differ from those of a baseline, and its name.

    Only posteriors with an elpd, ELBO or log evidence are considered. The baseline is the reference
    if it has one of them, otherwise the first such posterior.
    """
    names = [
        name
        for name, row in table.items()
        if not all(np.isnan(row[density]) for density in ("elpd", "elbo", "log_evidence"))
    ]
    baseline = reference if reference in names else next(iter(names), None)
    if baseline is None:
        return [], None
    data = {name: posteriors[name].observed() for name in names}
    return [n for n in names if not _are_equal(data[n], data[baseline])], baseline


def _are_equal(x: dict[str, np.ndarray], y: dict[str, np.ndarray]) -> bool:
    return len(x) == len(y) and all(map(np.array_equal, x.values(), y.values()))


def _draws_by_parameter(posterior: Posterior) -> dict[str, np.ndarray]:
    """Draws (S,) of each parameter, by name."""
    names, values = scalar_columns(posterior.flat)
    columns = values.T.astype(float)
    return {posterior.labels.get(n, n): x for n, x in zip(names, columns, strict=True)}


def _differences(
    posteriors: dict[str, Posterior], reference: str | None
) -> dict[str, dict[str, dict[str, float]]]:
    """Differences of each parameter from the reference."""
    if reference is None:
        return {}
    draws = {name: _draws_by_parameter(p) for name, p in posteriors.items()}
    reference_draws = draws.pop(reference)
    differences = {}
    for name, own_draws in draws.items():
        shared = [parameter for parameter in reference_draws if parameter in own_draws]
        if not shared:
            raise ValueError(
                f"{name!r} and {reference!r} share no site: they have {', '.join(own_draws)} and "
                f"{', '.join(reference_draws)}. Compare posteriors of the same model."
            )
        differences[name] = {
            parameter: _difference(own_draws[parameter], reference_draws[parameter])
            for parameter in shared
            # A common constant, such as the corner of a Cholesky factor, is left out.
            if np.ptp(reference_draws[parameter]) > 0
            or np.any(own_draws[parameter] != reference_draws[parameter][0])
        }
    return differences


def _difference(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Differences of draws x from draws y, in sds of y."""
    from scipy.stats import wasserstein_distance  # slow to import

    sd = np.std(y)
    if not sd > 0:
        return dict.fromkeys(DISTANCES, np.nan)
    return {
        "mean_error": float((np.mean(x) - np.mean(y)) / sd),
        "sd_ratio": float(np.std(x) / sd),
        "wasserstein": float(wasserstein_distance(x, y) / sd),
    }


# -- text ------------------------------------------------------------------------------------------


def table_cells(name: str, row: dict) -> tuple[str, ...]:
    """Cells of a row of the table, in the order of HEADINGS."""
    formats = (("ess_per_second", ".0f"), ("khat", ".2f"), ("elbo", ".2f"))
    return (
        name,
        row["method"],
        row["verdict"],
        f"{row['seconds']:.2f}",
        str(row["draws"]),
        *("-" if np.isnan(row[key]) else format(row[key], spec) for key, spec in formats),
        _with_error(row["log_evidence"], row["log_evidence_error"]),
        _with_error(row["elpd"], row["elpd_error"]),
    )


def stacking_cells(table: dict[str, dict]) -> list[tuple[str, ...]]:
    """Rows of the table of stacking weights: name and STACKING; empty without weights."""
    return [
        (
            name,
            _with_error(row["weight"], row["weight_error"]),
            _with_error(row["elpd_difference"], row["elpd_difference_error"]),
        )
        for name, row in table.items()
        if "weight" in row
    ]


def _with_error(value: float, error: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.2f}" if np.isnan(error) or error == 0 else f"{value:.2f} ± {error:.2f}"
