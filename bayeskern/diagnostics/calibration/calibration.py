"""What simulation-based calibration finds: ranks of the truth, and what is wrong if not uniform."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import aligned
from bayeskern.diagnostics.calibration import ecdf_band
from bayeskern.diagnostics.calibration.rank_plot import rank_plot
from bayeskern.inference.verdict import VERDICTS, WIDTH

#: what the log density of the data is called among the parameters
LIKELIHOOD = "log likelihood"
# The central intervals whose coverage is shown.
LEVELS = (0.5, 0.8, 0.95)
# Fewer simulations cannot tell anything.
MIN_SIMULATIONS = 10
# So many parameters are shown, those with the smallest p-values.
MAX_ROWS, MAX_PANELS = 20, 12
# Ranks in the outer TAIL on either side show a wrong width, where both sides agree.
TAIL = 0.1
# A mean of the ranks that is so many standard errors off is a bias.
BIAS_Z = 3.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """What simulation-based calibration found, as `calibrate` returns it.

    Each dict has an entry for each parameter, that is each number of each latent site, and one
    for the log likelihood; its arrays are (n,), for the n simulations that could be fitted.

    Attributes:
        method: The name of the method that was checked.
        draws: Among how many draws the truth was ranked.
        level: The level of the verdict.
        truth: The values that the data were simulated from.
        ranks: How many draws lie below the truth: 0, ..., draws.
        uniforms: The ranks spread over (0, 1) at random, so that they are exactly uniform where the
            method is right.
        z_scores: (posterior mean - truth) / posterior sd.
        shrinkage: Posterior variance over prior variance, 1 - contraction (Schad et al. 2021).
        verdicts: How many posteriors had each verdict.
        failures: The error messages, by number of the simulation.
        left_out: The discrete latents, which have no rank since they were summed out.

    References:
        Talts, Betancourt, Simpson, Vehtari and Gelman (2018), "Validating Bayesian inference
        algorithms with simulation-based calibration"; Schad, Betancourt and Vasishth (2021),
        "Toward a principled Bayesian workflow in cognitive science".
    """

    method: str
    draws: int
    level: float
    truth: dict[str, np.ndarray]
    ranks: dict[str, np.ndarray]
    uniforms: dict[str, np.ndarray]
    z_scores: dict[str, np.ndarray]
    shrinkage: dict[str, np.ndarray]
    verdicts: dict[str, int]
    failures: dict[int, str]
    left_out: tuple[str, ...] = ()

    @property
    def fitted(self) -> int:
        """How many simulations could be fitted."""
        return len(next(iter(self.uniforms.values())))

    @property
    def simulations(self) -> int:
        """How many data sets were simulated."""
        return self.fitted + len(self.failures)

    @cached_property
    def p_values(self) -> dict[str, float]:
        """Of uniform ranks, by parameter: exact, from the ECDF (Saeilynoja et al. 2022)."""
        return {name: ecdf_band.p_value(u) for name, u in self.uniforms.items()}

    @property
    def faults(self) -> dict[str, str]:
        """What is wrong with which parameter, the worst first and the log likelihood last.

        It is empty where too few simulations could be fitted to tell.
        """
        if self.fitted < MIN_SIMULATIONS:
            return {}
        # Bonferroni's, so that the level holds for all parameters together.
        limit = (1.0 - self.level) / len(self.uniforms)
        return {
            name: _fault(name, self.uniforms[name])
            for name in sorted(self.p_values, key=lambda k: (k == LIKELIHOOD, self.p_values[k]))
            if self.p_values[name] < limit
        }

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        if self.fitted < MIN_SIMULATIONS:
            return (
                f"not assessable: only {self.fitted} of {self.simulations} simulations could be "
                f"fitted, and fewer than {MIN_SIMULATIONS} tell nothing (the first error: "
                f"{self._first_error})."
            )
        faults = [f"{name}: {fault}" for name, fault in self.faults.items()]
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        sentence = "; ".join(faults[:3]) + more or (
            f"calibrated as far as {self.fitted} simulations can tell"
        )
        if self.failures:
            sentence += (
                f"; but {len(self.failures)} of {self.simulations} could not be fitted, of which "
                f"nothing is known (the first: {self._first_error})"
            )
        return f"{sentence}."

    @property
    def _first_error(self) -> str:
        return next(iter(self.failures.values())).rstrip(".")

    def coverage(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """The share of truths in central intervals of that level, and its standard error.

        Args:
            level: The probability of the intervals.

        Returns:
            (share, error) for each parameter. The error is the binomial one of intervals that are
            right.
        """
        level = validation.level(level)
        error = float(np.sqrt(level * (1.0 - level) / self.fitted))
        return {
            name: (float(np.mean(np.abs(2 * u - 1) < level)), error)
            for name, u in self.uniforms.items()
            if name != LIKELIHOOD
        }

    def to_frame(self):
        """A pandas data frame with a row for each parameter, and for the log likelihood."""
        import pandas as pd  # optional

        coverage = {f"coverage_{100 * v:g}": self.coverage(v) for v in LEVELS}
        faults, rows = self.faults, {}
        for name in self.uniforms:
            rows[name] = {
                "p": self.p_values[name],
                "fault": faults.get(name, ""),
                **{column: shares.get(name, (np.nan,))[0] for column, shares in coverage.items()},
                "z_mean": float(np.mean(self.z_scores[name])),
                "z_sd": float(np.std(self.z_scores[name])),
                "contraction": 1.0 - float(np.median(self.shrinkage[name])),
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def plot(self, parameters: list[str] | None = None):
        """ECDFs of the ranks minus the diagonal.

        Where the method is right, all curves of all parameters stay in their bands with
        probability `level`.

        Args:
            parameters: The parameters to show; by default the twelve with the smallest p-values.

        Returns:
            A matplotlib figure.

        Raises:
            ValueError: If a parameter is unknown.
        """
        for name in parameters or ():
            validation.one_of("parameter", name, self.uniforms)
        names = parameters or self._worst(MAX_PANELS)
        faults = self.faults
        verdicts = {k: faults.get(k) or f"p = {_p_text(self.p_values[k])}" for k in names}
        level = 1.0 - (1.0 - self.level) / len(self.uniforms)
        band = ecdf_band.band(self.fitted, level)
        title = (
            f"{self.method}, {self.fitted} simulations: where all is right, all curves stay in "
            f"their bands with a chance of {100 * self.level:g} %"
        )
        return rank_plot({name: self.uniforms[name] for name in names}, band, verdicts, title)

    def to_arviz(self):
        """A DataTree whose group prior_sbc `az.plot_ecdf_pit` takes: the ranks in (0, 1)."""
        import xarray as xr  # slow to import

        variables = {
            name.replace("/", "."): (("chain", "draw"), u[None])
            for name, u in self.uniforms.items()
        }
        coords = {"chain": [0], "draw": np.arange(self.fitted)}
        return xr.DataTree.from_dict({"prior_sbc": xr.Dataset(variables, coords)})

    def _worst(self, count: int) -> list[str]:
        """The parameters with the smallest p-values, in the order of the model."""
        worst = set(sorted(self.p_values, key=self.p_values.get)[:count])
        return [name for name in self.uniforms if name in worst]

    def __repr__(self) -> str:
        lines = textwrap.wrap(f"{self.method}: {self.verdict}", WIDTH)
        names = self._worst(MAX_ROWS)
        lines += aligned(self._table(names))
        if len(names) < len(self.uniforms):
            lines.append(f"({len(names)} of {len(self.uniforms)}, those with the smallest p)")
        verdicts = ", ".join(f"{self.verdicts[v]} {v}" for v in VERDICTS if v in self.verdicts)
        lines += textwrap.wrap(
            f"{self.fitted} of {self.simulations} fitted, truth ranked among {self.draws} draws; "
            f"their own verdicts: {verdicts}.",
            WIDTH,
        )
        if self.left_out:
            # Said, so that nobody takes the table for all of the model.
            left_out = ", ".join(self.left_out)
            lines += textwrap.wrap(f"Not in the table: {left_out} (discrete, summed out).", WIDTH)
        return "\n".join(lines)

    def _table(self, names: list[str]) -> list[tuple[str, ...]]:
        """The rows of the table as text, the first of which is its head."""
        intervals = (f"{100 * v:g} % interval" for v in LEVELS)
        rows = [("", "p", *intervals, "z-score: mean, sd", "contraction")]
        coverage, frame = [self.coverage(v) for v in LEVELS], self.to_frame()
        for name in names:
            row = frame.loc[name]
            shares = [f"{c[name][0]:.2f} ± {c[name][1]:.2f}" if name in c else "" for c in coverage]
            z, contraction = f"{row.z_mean:.2f}, {row.z_sd:.2f}", f"{row.contraction:.2f}"
            estimates = ("", "") if name == LIKELIHOOD else (z, contraction)
            rows.append((name, _p_text(row.p), *shares, *estimates))
        return rows


def _fault(name: str, u) -> str:
    """What ranks that are not uniform say of the posterior."""
    n = len(u)
    bias = np.sqrt(12.0 * n) * (np.mean(u) - 0.5)
    if name == LIKELIHOOD and abs(bias) > BIAS_Z:
        return (
            "draws fit worse than the truth: too wide, or data not used"
            if bias > 0
            else "draws fit better than the truth: too narrow, or data used twice"
        )
    tails = np.mean(u < TAIL), np.mean(u > 1.0 - TAIL)
    error = np.sqrt(2.0 * TAIL * (1.0 - 2.0 * TAIL) / n)
    wrong_width = abs(sum(tails) - 2.0 * TAIL) > 2.0 * error
    faults = []
    if wrong_width and min(tails) > TAIL:
        faults.append("too narrow")
    if wrong_width and max(tails) < TAIL:
        faults.append("too wide")
    if abs(bias) > BIAS_Z:
        faults.append("biased downwards" if bias > 0 else "biased upwards")
    return "posterior " + (" and ".join(faults) or "of the wrong shape")


def _p_text(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
