"""Posteriors of one model side by side: their cost, trust and evidence, and how they differ."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

import equinox as eqx
import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import aligned
from bayeskern.core.scalars import scalar_columns
from bayeskern.diagnostics.comparison import marginals_plot
from bayeskern.diagnostics.comparison.forecasts import (
    ForecastComparison,
    Peer,
    compare_forecasts,
)
from bayeskern.diagnostics.loo import psis_loo, relative_efficiency
from bayeskern.forecast.result import Forecast
from bayeskern.inference import Posterior
from bayeskern.inference.model.trace.enumeration import NoPointwiseError
from bayeskern.inference.verdict import WIDTH


def compare(
    posteriors: dict[str, Posterior | Forecast | Peer], reference: str | None = None
) -> Comparison | ForecastComparison:
    """Put posteriors of the same model and data side by side, or forecasts of the same series.

    Forecasts are scored from past dates of the series, those that their own verdict rests on.
    Beside them may stand models of statsforecast (`pip install bayeskern[peers]`), which forecast
    from the same dates.

    Args:
        posteriors: The posteriors by name, as in `{"laplace": p1, "nuts": p2}`; or forecasts and
            models, as in `{"ours": forecast, "ets": AutoETS(season_length=12)}`.
        reference: The name of the posterior that the others are measured against. By default it is
            the first one with a good verdict that is exact or comes from MCMC; without such a one
            the differences are left out.

    Returns:
        The comparison; printed, it is a table. That of forecasts has mae, rmse, crps and coverages.

    Raises:
        ValueError: If `posteriors` is no dict or empty, if `reference` is none of its names, or if
            a posterior shares no site with the reference.
    """
    if not isinstance(posteriors, dict) or not posteriors:
        raise ValueError(
            'posteriors must be a dict of names and posteriors, as in {"laplace": p1, "nuts": p2}, '
            f"got {type(posteriors).__name__} of {np.size(posteriors)}."
        )
    if any(isinstance(one, Forecast) for one in posteriors.values()):
        if reference is not None:
            raise ValueError("reference= is for posteriors: forecasts are measured by what came.")
        return compare_forecasts(posteriors)
    if reference is None:
        reference = next((name for name, p in posteriors.items() if _is_good_reference(p)), None)
    else:
        validation.one_of("reference", reference, posteriors)
    table = {name: _table_row(posterior) for name, posterior in posteriors.items()}
    others, first = _with_other_data(posteriors, table, reference)
    for name in others:
        table[name] |= NO_LOO | NO_EVIDENCE
    return Comparison(
        posteriors=dict(posteriors),
        reference=reference,
        table=table,
        parameters=_differences(posteriors, reference),
        remarks=tuple(
            f"The elpd, log evidence and ELBO of {name} are left out: they are of other data than "
            f"those of {first}."
            for name in others
        ),
    )


@dataclass(frozen=True, eq=False)
class Comparison:
    """Posteriors side by side, as `compare` returns them.

    Attributes:
        posteriors: The posteriors by name.
        reference: The name of the posterior that the others are measured against, or None.
        table: A dict for each posterior, by name. It holds method, verdict, seconds, draws,
            ess_per_second (of the worst site for MCMC, of the weights p / q otherwise), khat, elbo,
            log_evidence and log_evidence_error, elpd (the expected log predictive density by
            PSIS-LOO) and elpd_error, its standard error, and loo_khat, the largest of its k-hats.
            NaN stands for what is not known.
        parameters: How each posterior but the reference differs from it, by posterior and by
            number of a site: mean_error (in sds of the reference), sd_ratio, and wasserstein (the
            1-Wasserstein distance of the marginals, in sds of the reference).
        remarks: What a reader must know beside the numbers. The elpd, log evidence and ELBO of a
            posterior are left out if its data are not those of the reference (or, without one, of
            the first posterior that has such a number).
    """

    posteriors: dict[str, Posterior]
    reference: str | None
    table: dict[str, dict]
    parameters: dict[str, dict[str, dict[str, float]]]
    remarks: tuple[str, ...] = ()

    def to_frame(self):
        """The table as a pandas data frame, with a row for each posterior."""
        import pandas as pd  # optional

        return pd.DataFrame.from_dict(self.table, orient="index")

    def parameters_to_frame(self):
        """The differences from the reference as a data frame, with rows (posterior, parameter)."""
        import pandas as pd  # optional

        rows = {
            (name, parameter): measures
            for name, differences in self.parameters.items()
            for parameter, measures in differences.items()
        }
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=list(MEASURES))
        frame.index = pd.MultiIndex.from_tuples(list(rows), names=["posterior", "parameter"])
        return frame

    def plot(self, parameters: list[str] | None = None):
        """Overlaid marginal densities, and their 50 % and 90 % intervals.

        Args:
            parameters: The numbers to show, such as "weights[0]"; by default the first ten.

        Returns:
            A matplotlib figure.

        Raises:
            ValueError: If a parameter is unknown.
        """
        draws = {name: _draws_by_number(p) for name, p in self.posteriors.items()}
        numbers = list(next(iter(draws.values())))
        for parameter in parameters or ():
            validation.one_of("parameter", parameter, numbers)
        parameters = parameters or numbers[: marginals_plot.MAX_PARAMETERS]
        return marginals_plot.marginals(draws, parameters)

    def __repr__(self) -> str:
        lines = aligned([HEADINGS, *(table_cells(n, row) for n, row in self.table.items())])
        if self.parameters:
            worst = [self.worst(name) for name in self.parameters]
            lines += ["", f"against {self.reference}, the worst parameter of each:"]
            lines += aligned([("", *MEASURES.values()), *worst])
        for remark in self.remarks:
            lines += ["", *textwrap.wrap(remark, WIDTH)]
        return "\n".join(lines)

    def worst(self, name) -> tuple[str, ...]:
        """The cells of one row: the posterior's name, and its worst parameter by each measure."""
        differences = self.parameters[name]

        def largest(measure, size):
            # NaN is the worst of all.
            sizes = {p: size(values[measure]) for p, values in differences.items()}
            parameter = max(sizes, key=lambda p: np.inf if np.isnan(sizes[p]) else sizes[p])
            return f"{differences[parameter][measure]:.2f} ({parameter})"

        return (
            name,
            largest("mean_error", abs),
            largest("sd_ratio", lambda x: abs(np.log(x)) if x > 0 else np.inf),
            largest("wasserstein", abs),
        )


MEASURES = {"mean_error": "mean, sds off", "sd_ratio": "sd, ratio", "wasserstein": "Wasserstein"}
HEADINGS = (
    *("", "method", "verdict", "seconds", "draws", "ESS/s", "k-hat"),
    *("ELBO", "log evidence", "elpd (LOO)"),
)
NO_LOO = {"elpd": np.nan, "elpd_error": np.nan, "loo_khat": np.nan}
NO_EVIDENCE = {"elbo": np.nan, "log_evidence": np.nan, "log_evidence_error": np.nan}
# Densities of the data, which can only be compared where the data are the same.
DATA_DENSITIES = ("elpd", "elbo", "log_evidence")


def is_asymptotically_exact(posterior) -> bool:
    """Whether the method is right but for the noise of its draws, if nothing went wrong."""
    return posterior.method in ("exact", "smc") or posterior.is_mcmc


def _is_good_reference(posterior) -> bool:
    return is_asymptotically_exact(posterior) and posterior.trust.verdict == "good"


def _table_row(posterior: Posterior) -> dict:
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
        **_elpd(posterior),
    }


def _elpd(posterior: Posterior) -> dict[str, float]:
    """The expected log predictive density by PSIS-LOO, summed over sites; a point has none."""
    import arviz as az  # slow to import

    if posterior.is_point:
        return NO_LOO
    try:
        by_site = posterior.log_likelihood()
    except NoPointwiseError:
        return NO_LOO
    log_likelihood = {k: v for k, v in by_site.items() if v[0, 0].size > 1}
    if not log_likelihood:
        # Leaving out the only observation leaves nothing to learn from.
        return NO_LOO
    efficiency = relative_efficiency(posterior)
    # A tree does not allow every name that a site may have.
    trees = [
        az.from_dict({"log_likelihood": {"y": np.asarray(values)}})
        for values in log_likelihood.values()
    ]
    loos = [psis_loo(tree, "y", efficiency) for tree in trees]
    return {
        "elpd": float(sum(loo.elpd for loo in loos)),
        "elpd_error": float(np.sqrt(sum(loo.se**2 for loo in loos))),
        "loo_khat": float(max(np.max(loo.pareto_k.values) for loo in loos)),
    }


def have_same_model(posteriors: dict[str, Posterior]) -> bool:
    """Whether all are known to be of the same model and arguments; a file keeps no model."""
    first, *others = (p.target for p in posteriors.values())
    return first is not None and all(
        other is not None
        and _are_same_model(other.model, first.model)
        and bool(eqx.tree_equal(other.arguments, first.arguments))
        for other in others
    )


def _are_same_model(model, other) -> bool:
    # A user's own model may hold anything, so only the very same object is known to be the same.
    return model is other or (isinstance(model, eqx.Module) and bool(eqx.tree_equal(model, other)))


def _with_other_data(posteriors, table, reference) -> tuple[list[str], str | None]:
    """The posteriors whose data densities are of other data than the first's; the first's name.

    The first is the reference if it has such a density, or else the first posterior that has one.
    """
    names = [n for n in posteriors if not all(np.isnan(table[n][d]) for d in DATA_DENSITIES)]
    first = reference if reference in names else next(iter(names), None)
    data = {name: list(posteriors[name].observed().values()) for name in names}
    return [name for name in names if not _are_equal(data[name], data[first])], first


def _are_equal(x: list, y: list) -> bool:
    return len(x) == len(y) and all(map(np.array_equal, x, y))


def _draws_by_number(posterior) -> dict[str, np.ndarray]:
    """The draws (S,) of each number of each site, by its name."""
    names, values = scalar_columns(posterior.flat)
    return dict(zip(names, values.T.astype(float), strict=True))


def _differences(posteriors, reference) -> dict:
    if reference is None:
        return {}
    draws = {name: _draws_by_number(p) for name, p in posteriors.items()}
    truth = draws.pop(reference)
    differences = {}
    for name, approximate in draws.items():
        shared = [parameter for parameter in truth if parameter in approximate]
        if not shared:
            raise ValueError(
                f"{name!r} and {reference!r} share no site: {', '.join(approximate)} and "
                f"{', '.join(truth)}. Compare posteriors of the same model."
            )
        differences[name] = {
            parameter: _difference(approximate[parameter], truth[parameter])
            for parameter in shared
            # A constant, such as the corner of a Cholesky factor, is left out.
            if np.ptp(truth[parameter]) > 0 or np.any(approximate[parameter] != truth[parameter][0])
        }
    return differences


def _difference(x, y) -> dict[str, float]:
    """How the draws x differ from the draws y, in sds of y."""
    # Here, since scipy.stats takes a while to import.
    from scipy.stats import wasserstein_distance

    sd = np.std(y)
    if not sd > 0:
        return dict.fromkeys(MEASURES, np.nan)
    return {
        "mean_error": float((np.mean(x) - np.mean(y)) / sd),
        "sd_ratio": float(np.std(x) / sd),
        "wasserstein": float(wasserstein_distance(x, y) / sd),
    }


# -- text ------------------------------------------------------------------------------------------


def table_cells(name: str, row: dict) -> tuple[str, ...]:
    """A row of the table as text, in the order of HEADINGS."""
    return (
        name,
        row["method"],
        row["verdict"],
        f"{row['seconds']:.2f}",
        str(row["draws"]),
        _number(row["ess_per_second"], ".0f"),
        _number(row["khat"], ".2f"),
        _number(row["elbo"], ".2f"),
        _with_error(row["log_evidence"], row["log_evidence_error"]),
        _with_error(row["elpd"], row["elpd_error"]),
    )


def _number(value: float, form: str) -> str:
    return "-" if np.isnan(value) else format(value, form)


def _with_error(value: float, error: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:.2f}" if np.isnan(error) or error == 0 else f"{value:.2f} ± {error:.2f}"
