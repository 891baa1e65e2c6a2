"""Simulation-based calibration: is a method right on average over a model's own prior?"""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import validation
from bayeskern.core.batching import BATCH, evenly
from bayeskern.core.progress import Progress
from bayeskern.diagnostics.calibration import ecdf_band
from bayeskern.diagnostics.calibration.rank_plot import rank_plot
from bayeskern.diagnostics.calibration.refit import FAILURES, refit, row
from bayeskern.inference import Posterior, as_method
from bayeskern.inference.model.constrain import columns
from bayeskern.inference.posterior.prior_predictive import Given, simulate
from bayeskern.inference.verdict import VERDICTS, WIDTH
from bayeskern.protocols import DoesNotApplyError

#: what the log density of the data is called among the parameters
LIKELIHOOD = "log likelihood"
#: the central intervals whose coverage is shown
LEVELS = (0.5, 0.8, 0.95)
# Fewer simulations cannot tell anything.
FEWEST = 10
# So many parameters are shown, those with the smallest p-values.
MOST_ROWS, MOST_PANELS = 20, 12
# Ranks in the outer TAIL on either side show a wrong width, where both sides agree.
TAIL = 0.1
# A mean of the ranks so many standard errors away is a bias.
BIASED = 3.0


def calibrate(
    problem,
    *args,
    method="auto",
    simulations: int = 200,
    seed: int = 0,
    draws: int = 99,
    level: float = 0.95,
    progress: bool = True,
    **kwargs,
) -> Calibration:
    """Whether a method recovers what a model's data were simulated from: `calibrate(model, X, y)`.

    Parameters and data are drawn from the model, `simulations` times; each data set is fitted, and
    the truth ranked among `draws` draws of its posterior, thinned evenly. Where the method is
    right, ranks are uniform: for every latent number, and for the log likelihood, without which the
    prior in the place of the posterior would pass. Talts et al. (2018); Modrak et al. (2023).

    problem: a `Problem`, or a model with its arguments as `infer` takes them. The data say which
    sites are observed and in what shape; their values matter only where the model uses them beside
    (as for default priors, or lagged values), and there they stay what they are. method: as in
    `infer`, but for point estimates. level: of the verdict: a method that is right is faulted with
    a chance of at most 1 - level, whatever the number of parameters.

    A fit that raises an error is counted and reported, and so is one whose draws are not finite;
    with fewer than ten that could be fitted nothing is said of the method. Discrete latents are
    summed out, so that they have no rank. SVI fits a plain function of sites to several data sets
    side by side, by vmap; a chain of NUTS would wait there for the longest. Raises ValueError,
    naming the site, where the prior cannot be drawn from, and where the method gives fewer draws
    than `draws`.
    """
    validation.positive_integer(draws, "draws")
    level, method = validation.level(level), _with_draws(method)
    if validation.positive_integer(simulations, "simulations") < FEWEST:
        raise ValueError(
            f"simulations must be at least {FEWEST}, since fewer tell nothing; got {simulations}."
        )
    given = Given.of(problem, args, kwargs).prepared()
    target = given.target()
    target.require_latents()
    target.require_summable()
    if any(s.name == LIKELIHOOD for s in target.latents):
        raise ValueError(
            f"a site is named {LIKELIHOOD!r}, as the log density of the data is here. Rename it."
        )
    truths, data = simulate(target, simulations, seed)
    truths = {s.name: truths[s.name] for s in target.latents}
    seeds = np.random.SeedSequence(seed).generate_state(simulations).tolist()
    ranked, failures = [], {}
    with Progress("calibrate", simulations, progress) as bar:
        for i, fit in enumerate(refit(given, target, data, method, seeds)):
            try:
                ranked.append(_rank(fit(), row(truths, i), draws))
            except (DoesNotApplyError, TooFewError):
                # It would be the same for every simulation.
                raise
            except FAILURES as error:
                failures[i] = str(error)
            bar.to(i + 1, f"{len(failures)} failed" if failures else "")
    if not ranked:
        raise ValueError(
            f"none of the {simulations} simulated data sets could be fitted; the first failed so: "
            f"{failures[0]}"
        )
    return _gathered(ranked, failures, draws, level, seed, target.discrete)


@dataclass(frozen=True, eq=False)
class Calibration:
    """What simulation-based calibration found, for each parameter and the log likelihood.

    method: the name of what was checked; draws: how many the truth was ranked among. truth, ranks
    (0, ..., draws), z_scores and shrinkage: by parameter, each (n,), n the simulations that could
    be fitted. z_scores: (posterior mean - truth) / posterior sd; shrinkage: posterior variance over
    that of the prior, 1 - contraction (Schad et al. 2021). uniforms: the ranks spread over (0, 1)
    at random, so that they are exactly uniform where the method is right. verdicts: how many
    posteriors had each verdict. failures: the errors, by number of the simulation. level: of the
    verdict. left_out: the discrete latents, which have no rank since they were summed out.
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
        return self.fitted + len(self.failures)

    @cached_property
    def p_values(self) -> dict[str, float]:
        """Of uniform ranks, by parameter: exact, from the ECDF (Saeilynoja et al. 2022)."""
        return {name: ecdf_band.p_value(u) for name, u in self.uniforms.items()}

    @property
    def faults(self) -> dict[str, str]:
        """What is wrong with which parameter, the worst first and the log likelihood last.

        Of fewer fits than can tell, nothing.
        """
        if self.fitted < FEWEST:
            return {}
        limit = (1.0 - self.level) / len(self.uniforms)
        return {
            name: _fault(name, self.uniforms[name])
            for name in sorted(self.p_values, key=lambda k: (k == LIKELIHOOD, self.p_values[k]))
            if self.p_values[name] < limit
        }

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.fitted < FEWEST:
            return (
                f"not assessable: only {self.fitted} of {self.simulations} simulations could be "
                f"fitted, and fewer than {FEWEST} tell nothing (the first error: {self._error})."
            )
        found = [f"{name}: {fault}" for name, fault in self.faults.items()]
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        whole = "; ".join(found[:3]) + more or (
            f"calibrated as far as {self.fitted} simulations can tell"
        )
        if self.failures:
            whole += (
                f"; but {len(self.failures)} of {self.simulations} could not be fitted, of which "
                f"nothing is known (the first: {self._error})"
            )
        return f"{whole}."

    @property
    def _error(self) -> str:
        return next(iter(self.failures.values())).rstrip(".")

    def coverage(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """The share of truths in central intervals of that level, and its standard error.

        The error is the binomial one of intervals that are right.
        """
        level = validation.level(level)
        error = float(np.sqrt(level * (1.0 - level) / self.fitted))
        return {k: (float(np.mean(np.abs(2 * u - 1) < level)), error) for k, u in self._parameters}

    @property
    def _parameters(self):
        return [(name, u) for name, u in self.uniforms.items() if name != LIKELIHOOD]

    def to_frame(self):
        """A pandas data frame with a row for each parameter, and for the log likelihood."""
        import pandas as pd

        shares = {f"coverage_{100 * v:g}": self.coverage(v) for v in LEVELS}
        faults, rows = self.faults, {}
        for name in self.uniforms:
            rows[name] = {
                "p": self.p_values[name],
                "fault": faults.get(name, ""),
                **{column: found.get(name, (np.nan,))[0] for column, found in shares.items()},
                "z_mean": float(np.mean(self.z_scores[name])),
                "z_sd": float(np.std(self.z_scores[name])),
                "contraction": 1.0 - float(np.median(self.shrinkage[name])),
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def plot(self, parameters: list[str] | None = None):
        """ECDFs of the ranks less the diagonal, by default of the twelve with the smallest p.

        A curve that is right stays in its band, all of it and for all parameters together, with
        the chance `level`. Returns the figure.
        """
        for name in parameters or ():
            validation.one_of("parameter", name, self.uniforms)
        shown = parameters or self._worst(MOST_PANELS)
        faults = self.faults
        said = {k: faults.get(k) or f"p = {_p(self.p_values[k])}" for k in shown}
        level = 1.0 - (1.0 - self.level) / len(self.uniforms)
        band = ecdf_band.band(self.fitted, level)
        title = (
            f"{self.method}, {self.fitted} simulations: where all is right, all curves stay in "
            f"their bands with a chance of {100 * self.level:g} %"
        )
        return rank_plot({name: self.uniforms[name] for name in shown}, band, said, title)

    def to_arviz(self):
        """A DataTree whose group prior_sbc `az.plot_ecdf_pit` takes: the ranks in (0, 1)."""
        import xarray as xr

        found = {
            name.replace("/", "."): (("chain", "draw"), u[None])
            for name, u in self.uniforms.items()
        }
        coords = {"chain": [0], "draw": np.arange(self.fitted)}
        return xr.DataTree.from_dict({"prior_sbc": xr.Dataset(found, coords)})

    def _worst(self, count: int) -> list[str]:
        """The parameters with the smallest p-values, in the order of the model."""
        chosen = set(sorted(self.p_values, key=self.p_values.get)[:count])
        return [name for name in self.uniforms if name in chosen]

    def __repr__(self) -> str:
        lines = textwrap.wrap(f"{self.method}: {self.verdict}", WIDTH)
        rows = [
            (
                "",
                "p",
                *(f"{100 * v:g} % interval" for v in LEVELS),
                "z-score: mean, sd",
                "contraction",
            )
        ]
        covered = [self.coverage(v) for v in LEVELS]
        shown, frame = self._worst(MOST_ROWS), self.to_frame()
        for name in shown:
            row = frame.loc[name]
            shares = [f"{f[name][0]:.2f} ± {f[name][1]:.2f}" if name in f else "" for f in covered]
            z, contraction = f"{row.z_mean:.2f}, {row.z_sd:.2f}", f"{row.contraction:.2f}"
            own = ("", "") if name == LIKELIHOOD else (z, contraction)
            rows.append((name, _p(row.p), *shares, *own))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for first, *others in rows:
            cells = [cell.rjust(w) for cell, w in zip(others, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
        if len(shown) < len(self.uniforms):
            lines.append(f"({len(shown)} of {len(self.uniforms)}, those with the smallest p)")
        said = ", ".join(f"{self.verdicts[v]} {v}" for v in VERDICTS if v in self.verdicts)
        lines += textwrap.wrap(
            f"{self.fitted} of {self.simulations} fitted, truth ranked among {self.draws} draws; "
            f"their own verdicts: {said}.",
            WIDTH,
        )
        if self.left_out:
            # Said, so that nobody takes the table for all of the model.
            names = ", ".join(self.left_out)
            lines += textwrap.wrap(f"Not in the table: {names} (discrete, summed out).", WIDTH)
        return "\n".join(lines)


class TooFewError(ValueError):
    """There are fewer draws than the truth is to be ranked among."""


def _with_draws(method):
    """The method itself, or a new one of that name; refused where it gives a point."""
    method = as_method(method)
    if getattr(method, "is_point", False):
        raise ValueError(
            f"method={method.name!r} gives a point, among which the truth has no rank. Take one "
            "that gives draws, such as 'laplace' or 'nuts'."
        )
    return method


# -- one simulation --------------------------------------------------------------------------------


class Ranked(NamedTuple):
    """The truth among the draws of one posterior, each (parameters,); below, equal: how many."""

    method: str
    names: list[str]
    truth: np.ndarray
    below: np.ndarray
    equal: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    verdict: str


def _rank(posterior: Posterior, truth: dict, count: int) -> Ranked:
    """Rank what the posterior is of, and the log likelihood."""
    # A model may have had latents integrated out, or others for a method.
    known = [s.name for s in posterior.target.latents if s.name in truth]
    flat = {name: posterior.flat[name] for name in known}
    total = len(next(iter(flat.values())))
    if total < count:
        raise TooFewError(
            f"{posterior.method} gives {total} draws, fewer than the {count} that the truth is to "
            "be ranked among. Take more draws of it, or a smaller draws=."
        )
    rows = evenly(total, count)
    both = {name: np.concatenate([truth[name][None], flat[name][rows]]) for name in known}
    names, values = columns(both)
    likelihood = np.asarray(_log_likelihoods(posterior.target, both))
    names, values = [*names, LIKELIHOOD], np.column_stack([values, likelihood])
    if not np.all(np.isfinite(values)):
        wrong = names[int(np.argmax(~np.all(np.isfinite(values), axis=0)))]
        raise FloatingPointError(f"the draws or the truth of {wrong!r} are not finite")
    _, everything = columns(flat)
    own, drawn = values[0], values[1:]
    return Ranked(
        posterior.method,
        names,
        own,
        np.sum(drawn < own, axis=0),
        np.sum(drawn == own, axis=0),
        np.append(everything.mean(axis=0), drawn[:, -1].mean()),
        np.append(everything.std(axis=0), drawn[:, -1].std()),
        posterior.trust.verdict,
    )


@eqx.filter_jit
def _log_likelihoods(target, values):
    """log p(data | values), for values of each latent (S, shape): (S,)."""

    def one(value):
        return target.log_density(target.unconstrain(value)[0], jacobian=False, prior=False)

    return jax.lax.map(one, jax.tree.map(jnp.asarray, values), batch_size=BATCH)


# -- all of them -----------------------------------------------------------------------------------


def _gathered(ranked: list[Ranked], failures, draws, level, seed, left_out) -> Calibration:
    # With method="auto" what is integrated out may differ from fit to fit.
    names = [n for n in ranked[0].names if all(n in one.names for one in ranked)]

    def stacked(field) -> np.ndarray:
        found = [dict(zip(one.names, getattr(one, field), strict=True)) for one in ranked]
        return np.array([[one[name] for name in names] for one in found])

    truth, below, equal = stacked("truth"), stacked("below"), stacked("equal")
    mean, sd = stacked("mean"), stacked("sd")
    rng = np.random.default_rng([seed, len(ranked)])
    ranks = below + rng.integers(0, equal + 1)
    uniforms = (ranks + rng.random(ranks.shape)) / (draws + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        z_scores = (mean - truth) / sd
        # One truth has no variance.
        spread = truth.var(axis=0, ddof=1) if len(truth) > 1 else np.full(len(names), np.nan)
        shrinkage = np.square(sd) / spread

    def by_name(values):
        return dict(zip(names, values.T, strict=True))

    methods = Counter(one.method for one in ranked)
    return Calibration(
        method=", ".join(methods),
        draws=draws,
        level=level,
        truth=by_name(truth),
        ranks=by_name(ranks),
        uniforms=by_name(uniforms),
        z_scores=by_name(z_scores),
        shrinkage=by_name(shrinkage),
        verdicts=dict(Counter(one.verdict for one in ranked)),
        failures=failures,
        left_out=tuple(left_out),
    )


def _fault(name: str, u) -> str:
    """What ranks that are not uniform say of the posterior."""
    n = len(u)
    bias = np.sqrt(12.0 * n) * (np.mean(u) - 0.5)
    if name == LIKELIHOOD and abs(bias) > BIASED:
        return (
            "draws fit worse than the truth: too wide, or data not used"
            if bias > 0
            else "draws fit better than the truth: too narrow, or data used twice"
        )
    tails = np.mean(u < TAIL), np.mean(u > 1.0 - TAIL)
    wrong = abs(sum(tails) - 2.0 * TAIL) > 2.0 * np.sqrt(2.0 * TAIL * (1.0 - 2.0 * TAIL) / n)
    said = []
    if wrong and min(tails) > TAIL:
        said.append("too narrow")
    if wrong and max(tails) < TAIL:
        said.append("too wide")
    if abs(bias) > BIASED:
        said.append("biased downwards" if bias > 0 else "biased upwards")
    return "posterior " + (" and ".join(said) or "of the wrong shape")


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
