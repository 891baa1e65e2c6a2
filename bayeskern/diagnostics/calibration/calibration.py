"""Results of simulation-based calibration: ranks of the truth, and faults."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayeskern.core import validation
from bayeskern.core.formatting import aligned
from bayeskern.core.verdict import VERDICTS, WIDTH
from bayeskern.diagnostics.calibration import ecdf_band
from bayeskern.diagnostics.calibration.rank_plot import rank_plot
from bayeskern.forecast.evaluate.scores import COVERAGES
from bayeskern.inference.model.trace.axes import netcdf_name

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

#: Name of the log likelihood among the parameters.
LIKELIHOOD = "log likelihood"
# Smallest number of fitted simulations for a verdict.
MIN_SIMULATIONS = 10


@dataclass(frozen=True, eq=False)
class Calibration:
    """Result of simulation-based calibration, as `calibrate` returns it.

    Each dict has an entry for each parameter, that is each element of each latent site, and one for
    the log likelihood; its arrays are (n,) for the n simulations that could be fitted.

    Attributes:
        method: Name of the method that was checked.
        draws: Number of draws among which the truth was ranked.
        level: Minimum probability that no fault is reported if the method is right.
        truth: Values that the data were simulated from.
        ranks: Number of draws below the truth, 0, ..., draws.
        uniforms: (rank + U(0, 1)) / (draws + 1); exactly uniform if the method is right.
        z_scores: (posterior mean - truth) / posterior sd.
        shrinkage: Posterior variance over the variance of the truths, 1 - contraction (Schad et al.
            2021).
        verdicts: Number of posteriors with each verdict.
        failures: Error messages, by number of the simulation.
        left_out: Latents without a rank, because they were summed out (discrete ones) or integrated
            out in closed form.
        at_data: True if the truths are draws of a posterior and its data were fitted too (posterior
            SBC); False if they come from the prior.

    References:
        Talts, Betancourt, Simpson, Vehtari and Gelman (2018), "Validating Bayesian inference
        algorithms with simulation-based calibration"; Saeilynoja, Schmitt, Buerkner and Vehtari
        (2025), "Posterior SBC: simulation-based calibration checking conditional on data"; Schad,
        Betancourt and Vasishth (2021), "Toward a principled Bayesian workflow in cognitive
        science".
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
    at_data: bool = False

    @property
    def fitted(self) -> int:
        """Number of simulations that could be fitted."""
        return len(next(iter(self.uniforms.values())))

    @property
    def simulations(self) -> int:
        """Number of simulated data sets."""
        return self.fitted + len(self.failures)

    @cached_property
    def p_values(self) -> dict[str, float]:
        """Exact p-value of the ECDF of the ranks, by parameter (Saeilynoja et al. 2022)."""
        return {name: ecdf_band.p_value(u) for name, u in self.uniforms.items()}

    @property
    def band(self) -> ecdf_band.Band:
        """Band of the ECDF of the ranks of one parameter.

        If the method is right, the ECDFs of all parameters stay inside with probability `level`.
        """
        return ecdf_band.band(self.fitted, 1.0 - (1.0 - self.level) / len(self.uniforms))

    @property
    def faults(self) -> dict[str, str]:
        """Fault of each faulty parameter, sorted by p-value, the log likelihood last.

        Empty if too few simulations could be fitted.
        """
        if self.fitted < MIN_SIMULATIONS:
            return {}
        # Bonferroni: the level holds for all parameters together.
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
                f"fitted, and at least {MIN_SIMULATIONS} are needed (the first error: "
                f"{self._first_error})."
            )
        faults = [f"{name}: {fault}" for name, fault in self.faults.items()]
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        sentence = "; ".join(faults[:3]) + more or (
            f"calibrated as far as {self.fitted} simulations can tell"
        )
        if self.failures:
            sentence += (
                f"; but {len(self.failures)} of {self.simulations} could not be fitted and are "
                f"not assessed (the first error: {self._first_error})"
            )
        return f"{sentence}."

    @property
    def _first_error(self) -> str:
        return next(iter(self.failures.values())).rstrip(".")

    def coverage(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Share of truths in central intervals, and its standard error.

        Args:
            level: Probability of the intervals.

        Returns:
            (share, error) for each parameter, with the binomial error of calibrated intervals.
        """
        level = validation.level(level)
        error = float(np.sqrt(level * (1.0 - level) / self.fitted))
        return {
            name: (float(np.mean(np.abs(2 * u - 1) < level)), error)
            for name, u in self.uniforms.items()
            if name != LIKELIHOOD
        }

    def to_frame(self) -> pd.DataFrame:
        """A pandas data frame with a row for each parameter, and for the log likelihood."""
        import pandas as pd  # slow to import

        coverage = {f"coverage_{100 * v:g}": self.coverage(v) for v in COVERAGES}
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

    def plot(self, parameters: list[str] | None = None) -> Figure:
        """Plot the ECDF of the ranks minus the uniform ECDF, for each parameter.

        If the method is right, all curves of all parameters stay in their bands with probability
        `level`.

        Args:
            parameters: Parameters to show; by default the twelve with the smallest p-values.

        Returns:
            A matplotlib figure.

        Raises:
            ValueError: If a parameter is unknown.
        """
        for name in parameters or ():
            validation.one_of("parameter", name, self.uniforms)
        names = parameters or self.worst(12)
        faults = self.faults
        verdicts = {k: faults.get(k) or f"p = {_p_text(self.p_values[k])}" for k in names}
        title = (
            f"{self._subject}, {self.fitted} simulations: if the method is right, all curves stay "
            f"in their bands with probability {100 * self.level:g} %"
        )
        return rank_plot({k: self.uniforms[k] for k in names}, self.band, verdicts, title)

    def to_arviz(self) -> xr.DataTree:
        """DataTree for `az.plot_ecdf_pit`, with `uniforms` as its group.

        The group is posterior_sbc if `at_data`, and prior_sbc otherwise.
        """
        import xarray as xr  # slow to import

        variables = {
            netcdf_name(name): (("chain", "draw"), u[None]) for name, u in self.uniforms.items()
        }
        coords = {"chain": [0], "draw": np.arange(self.fitted)}
        group = "posterior_sbc" if self.at_data else "prior_sbc"
        return xr.DataTree.from_dict({group: xr.Dataset(variables, coords)})

    @property
    def _subject(self) -> str:
        return f"{self.method} at these data" if self.at_data else self.method

    def worst(self, count: int) -> list[str]:
        """Names of the `count` parameters with the smallest p-values, in model order."""
        worst = set(sorted(self.p_values, key=lambda name: self.p_values[name])[:count])
        return [name for name in self.uniforms if name in worst]

    def __repr__(self) -> str:
        lines = textwrap.wrap(f"{self._subject}: {self.verdict}", WIDTH)
        names = self.worst(20)
        lines += aligned(self._table(names))
        if len(names) < len(self.uniforms):
            lines.append(f"(the {len(names)} of {len(self.uniforms)} with the smallest p)")
        verdicts = ", ".join(f"{self.verdicts[v]} {v}" for v in VERDICTS if v in self.verdicts)
        lines += textwrap.wrap(
            f"{self.fitted} of {self.simulations} fitted, truth ranked among {self.draws} draws; "
            f"verdicts of the fits: {verdicts}.",
            WIDTH,
        )
        if self.left_out:
            left_out = ", ".join(self.left_out)
            how = "summed or integrated out" if self.at_data else "discrete, summed out"
            lines += textwrap.wrap(f"Not in the table: {left_out} ({how}).", WIDTH)
        return "\n".join(lines)

    def _table(self, names: list[str]) -> list[tuple[str, ...]]:
        """Rows of the table as text, with its head."""
        intervals = (f"{100 * v:g} % interval" for v in COVERAGES)
        rows: list[tuple[str, ...]] = [("", "p", *intervals, "z-score: mean, sd", "contraction")]
        coverage, frame = [self.coverage(v) for v in COVERAGES], self.to_frame()
        for name in names:
            row = frame.loc[name]
            shares = [f"{c[name][0]:.2f} ± {c[name][1]:.2f}" if name in c else "" for c in coverage]
            z = ", ".join(_two_decimals(x) for x in (row.z_mean, row.z_sd))
            contraction = f"{row.contraction:.2f}"
            estimates = ("", "") if name == LIKELIHOOD else (z, contraction)
            rows.append((name, _p_text(row.p), *shares, *estimates))
        return rows


def _fault(name: str, u: np.ndarray) -> str:
    """Fault of a posterior whose ranks u (n,) in (0, 1) are not uniform."""
    n = len(u)
    # Distance of the mean rank from 1/2 in standard errors; more than three indicate a bias.
    z = np.sqrt(12.0 * n) * (np.mean(u) - 0.5)
    is_biased = abs(z) > 3.0
    if name == LIKELIHOOD and is_biased:
        return (
            "draws fit worse than the truth: too wide, or data not used"
            if z > 0
            else "draws fit better than the truth: too narrow, or data used twice"
        )
    # Shares of the ranks in the lowest and highest tenth: a wrong width changes their sum, 0.2.
    tails = np.mean(u < 0.1), np.mean(u > 0.9)
    wrong_width = abs(sum(tails) - 0.2) > 2.0 * np.sqrt(0.2 * 0.8 / n)
    faults = []
    if wrong_width and min(tails) > 0.1:
        faults.append("too narrow")
    if wrong_width and max(tails) < 0.1:
        faults.append("too wide")
    if is_biased:
        faults.append("biased downwards" if z > 0 else "biased upwards")
    return "posterior " + (" and ".join(faults) or "of the wrong shape")


def _two_decimals(x: float) -> str:
    """Number with two decimals, or with an exponent if it is huge.

    The z-scores of a chain that never moved are huge.
    """
    return f"{x:.2f}" if abs(x) < 1000 else f"{x:.0e}"


def _p_text(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
