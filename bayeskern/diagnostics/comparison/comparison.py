"""Posteriors of one model side by side: their cost, trust and evidence, and how they differ."""

from __future__ import annotations

import textwrap
import warnings
from dataclasses import dataclass

import equinox as eqx
import numpy as np

from bayeskern.core import validation
from bayeskern.diagnostics.comparison import marginals_plot
from bayeskern.inference import Posterior
from bayeskern.inference.model.constrain import columns


def compare(posteriors: dict[str, Posterior], reference: str | None = None) -> Comparison:
    """Put posteriors of the same model and data side by side.

    reference: the name of the one that the others are measured against; by default the first that
    is exact, or MCMC, with a good verdict, if there is one. Raises ValueError on an unknown name,
    and where a site has another shape in another posterior.
    """
    if not isinstance(posteriors, dict) or not posteriors:
        raise ValueError(
            'posteriors must be a dict of names and posteriors, as in {"laplace": p1, "nuts": p2}, '
            f"got {type(posteriors).__name__} of {np.size(posteriors)}."
        )
    if reference is None:
        good = [n for n, p in posteriors.items() if may_refer(p) and p.trust.verdict == "good"]
        reference = good[0] if good else None
    else:
        validation.one_of("reference", reference, posteriors)
    table = {name: _row(posterior) for name, posterior in posteriors.items()}
    others, first = _of_other_data(posteriors, table, reference)
    for name in others:
        table[name] |= UNKNOWN | NO_EVIDENCE
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
    """Posteriors side by side.

    table: for each of them a dict of method, verdict, seconds, draws, ess_per_second (of the worst
    site for MCMC; of the weights p / q else; NaN where neither is known), khat, elbo, log_evidence
    and its error, elpd (expected log predictive density, by PSIS-LOO) and its standard error, and
    loo_khat, the largest of its k-hats.

    parameters: for each of them but the reference, and each number of each site, mean_error (in
    sds of the reference), sd_ratio, and wasserstein: the 1-Wasserstein distance of the marginals,
    in sds of the reference.

    remarks: what to know beside. An elpd, log evidence or ELBO of other data than those of the
    reference (or else of the first that has one) is left out.
    """

    posteriors: dict[str, Posterior]
    reference: str | None
    table: dict[str, dict]
    parameters: dict[str, dict[str, dict[str, float]]]
    remarks: tuple[str, ...] = ()

    def to_frame(self):
        """The table as a pandas data frame, a row for each posterior."""
        import pandas as pd

        return pd.DataFrame.from_dict(self.table, orient="index")

    def parameters_to_frame(self):
        """The differences from the reference as a data frame: rows (posterior, parameter)."""
        import pandas as pd

        rows = {
            (name, parameter): values
            for name, found in self.parameters.items()
            for parameter, values in found.items()
        }
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=list(MEASURES))
        frame.index = pd.MultiIndex.from_tuples(list(rows), names=["posterior", "parameter"])
        return frame

    def plot(self, parameters: list[str] | None = None):
        """Overlaid marginals and intervals of the parameters (by default the first ten).

        Returns the figure.
        """
        numbers = {name: _numbers(p) for name, p in self.posteriors.items()}
        known = list(next(iter(numbers.values())))
        for parameter in parameters or ():
            validation.one_of("parameter", parameter, known)
        return marginals_plot.marginals(numbers, parameters or known[: marginals_plot.MOST])

    def __repr__(self) -> str:
        lines = _aligned([HEADINGS, *(cells(n, row) for n, row in self.table.items())])
        if self.parameters:
            worst = [self.worst(name) for name in self.parameters]
            lines += ["", f"against {self.reference}, the worst parameter of each:"]
            lines += _aligned([("", *MEASURES.values()), *worst])
        for remark in self.remarks:
            lines += ["", *textwrap.wrap(remark, WIDTH)]
        return "\n".join(lines)

    def worst(self, name) -> tuple[str, ...]:
        found = self.parameters[name]

        def most(measure, size):
            # NaN is the worst of all.
            at = max(found, key=lambda p: _infinite_if_nan(size(found[p][measure])))
            return f"{found[at][measure]:.2f} ({at})"

        return (
            name,
            most("mean_error", abs),
            most("sd_ratio", lambda x: abs(np.log(x)) if x > 0 else np.inf),
            most("wasserstein", abs),
        )


MEASURES = {"mean_error": "mean, sds off", "sd_ratio": "sd, ratio", "wasserstein": "Wasserstein"}
HEADINGS = (
    *("", "method", "verdict", "seconds", "draws", "ESS/s", "k-hat"),
    *("ELBO", "log evidence", "elpd (LOO)"),
)


# Lines of text are at most so long.
WIDTH = 100
# Of a posterior without LOO.
UNKNOWN = {"elpd": np.nan, "elpd_error": np.nan, "loo_khat": np.nan}
NO_EVIDENCE = {"elbo": np.nan, "log_evidence": np.nan, "log_evidence_error": np.nan}
# What may be set beside that of the same data only.
OF_THE_DATA = ("elpd", "elbo", "log_evidence")


def may_refer(posterior) -> bool:
    """Whether its method is right up to the noise of its draws, where nothing went wrong."""
    return posterior.method == "exact" or "diverging" in posterior.sample_stats


def _row(posterior: Posterior) -> dict:
    evidence, trust = posterior.log_evidence, posterior.trust
    seconds = posterior.timing.get("total", np.nan)
    chains, count = next(iter(posterior.draws.values())).shape[:2]
    ess = trust.evidence.get("ess_bulk", trust.evidence.get("ess_of_weights", np.nan))
    if posterior.method == "exact":
        ess = chains * count
    elbo = posterior.elbo
    return {
        "method": posterior.method,
        "verdict": trust.verdict,
        "seconds": seconds,
        "draws": chains * count,
        "ess_per_second": ess / seconds if seconds > 0 else np.nan,
        "khat": trust.evidence.get("khat", np.nan),
        "elbo": np.nan if elbo is None else elbo.value,
        "log_evidence": np.nan if evidence is None else evidence.value,
        "log_evidence_error": np.nan if evidence is None else evidence.error,
        **_elpd(posterior),
    }


def _elpd(posterior: Posterior) -> dict[str, float]:
    """The expected log predictive density by PSIS-LOO, summed over sites: a point has none."""
    import arviz as az

    if posterior.is_point or (posterior.target and posterior.target.discrete):
        return UNKNOWN
    pointwise = {k: v for k, v in posterior.log_likelihood().items() if v[0, 0].size > 1}
    if not pointwise:
        # Leaving out the only observation leaves nothing to learn from.
        return UNKNOWN
    efficiency = relative_efficiency(posterior)
    found = []
    for values in pointwise.values():
        # Not by the name of the site, which may hold what a tree does not allow.
        tree = az.from_dict({"log_likelihood": {"y": np.asarray(values)}})
        with warnings.catch_warnings():
            # The k-hats stand in the table.
            warnings.simplefilter("ignore")
            found.append(az.loo(tree, var_name="y", reff=efficiency, pointwise=True))
    return {
        "elpd": float(sum(f.elpd for f in found)),
        "elpd_error": float(np.sqrt(sum(f.se**2 for f in found))),
        "loo_khat": float(max(np.max(f.pareto_k.values) for f in found)),
    }


def of_one_model(posteriors: dict[str, Posterior]) -> bool:
    """Whether all are known to be of the same model and arguments; a file keeps no model."""
    first, *others = (p.target for p in posteriors.values())
    return first is not None and all(
        other is not None
        and _alike(other.model, first.model)
        and bool(eqx.tree_equal(other.arguments, first.arguments))
        for other in others
    )


def _alike(model, other) -> bool:
    # What a user's own model holds is not known: it must be the very same.
    return model is other or (isinstance(model, eqx.Module) and bool(eqx.tree_equal(model, other)))


def _of_other_data(posteriors, table, reference) -> tuple[list[str], str | None]:
    """Those whose densities are of other data than the reference's, or the first's; that name."""
    known = [n for n in posteriors if any(not np.isnan(table[n][w]) for w in OF_THE_DATA)]
    first = reference if reference in known else next(iter(known), None)
    data = {name: list(posteriors[name].observed().values()) for name in known}
    return [name for name in known if not _same(data[name], data[first])], first


def _same(x: list, y: list) -> bool:
    return len(x) == len(y) and all(map(np.array_equal, x, y))


def relative_efficiency(posterior) -> float:
    """Effective draws for each draw, on average over the numbers of the posterior."""
    if "diverging" not in posterior.sample_stats:
        return 1.0
    from arviz_stats.base import array_stats

    chains, count = next(iter(posterior.draws.values())).shape[:2]
    x = columns(posterior.flat)[1].reshape(chains, count, -1)
    relative = array_stats.ess(np.moveaxis(x, -1, 0), method="mean", relative=True)
    return float(np.clip(np.nanmean(relative), 1e-3, 1.0))


def _numbers(posterior) -> dict[str, np.ndarray]:
    """The draws of each number by name: (S,)."""
    names, values = columns(posterior.flat)
    return dict(zip(names, values.T.astype(float), strict=True))


def _differences(posteriors, reference) -> dict:
    if reference is None:
        return {}
    numbers = {name: _numbers(p) for name, p in posteriors.items()}
    truth = numbers[reference]
    found = {}
    for name, own in numbers.items():
        if name == reference:
            continue
        shared = [parameter for parameter in truth if parameter in own]
        if not shared:
            raise ValueError(
                f"{name!r} and {reference!r} share no site: {', '.join(own)} and "
                f"{', '.join(truth)}. Compare posteriors of the same model."
            )
        # A constant, such as the corner of a Cholesky factor, is left out.
        moving = [p for p in shared if np.ptp(truth[p]) > 0 or np.any(own[p] != truth[p][0])]
        found[name] = {p: _difference(own[p], truth[p]) for p in moving}
    return found


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


def cells(name: str, row: dict) -> tuple[str, ...]:
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


def _aligned(rows) -> list[str]:
    """Columns of text: the first one to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _infinite_if_nan(x: float) -> float:
    return np.inf if np.isnan(x) else x
