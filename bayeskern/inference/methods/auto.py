"""The cheapest method whose verdict is good."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayeskern.inference.assessment.approximation import uncovered
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.exact import Exact
from bayeskern.inference.methods.importance import ImportanceSampling
from bayeskern.inference.methods.laplace import Laplace
from bayeskern.inference.methods.marginalization import run
from bayeskern.inference.methods.nuts import NUTS
from bayeskern.inference.methods.svi import SVI
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.target import Target
from bayeskern.inference.posterior.posterior import Posterior
from bayeskern.inference.result import Fit
from bayeskern.inference.verdict import Trust
from bayeskern.protocols import DoesNotApplyError, HasClosedForm

# How many draws of an attempt are places to look at.
HEAVIEST = 20
# How many draws importance sampling weighs; and first, where a density costs much: as many as other
# methods give.
WEIGHED, WEIGHED_FIRST = 8000, 4000


class Attempt(NamedTuple):
    """One method that `auto` tried: its seconds, verdict included, the verdict, and the advice."""

    method: str
    seconds: float
    verdict: str
    reason: str


@dataclass(frozen=True)
class Auto(Method):
    """The cheapest method whose verdict is good: exact, Laplace, SVI (full rank, flow), NUTS.

    Laplace and SVI are corrected by importance sampling before the next one is tried, with a
    proposal around all modes where their draws miss some; where that is bad, NUTS is next. If none
    is good, what NUTS found comes back with its own verdict. What an attempt has seen the next ones
    must reach: the modes that it found, and NUTS its draws of most weight. Where chains sit in
    several places, draws come from each by its share. `posterior.attempts` lists what was tried,
    what each attempt cost, and why it went on.
    """

    name = "auto"
    takes_marginal = False

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        attempts: list[Attempt] = []
        fits: dict[str, Fit] = {}
        places: list[np.ndarray] = []

        def attempt(name, method) -> Posterior | None:
            started = time.perf_counter()
            try:
                fit = run(method, target, seed, progress)
            except DoesNotApplyError as reason:
                seconds = time.perf_counter() - started
                attempts.append(Attempt(name, seconds, "not assessable", str(reason)))
                return None
            posterior = Posterior.of(name, fit, target, progress=progress)
            trust = _among(fits.values(), posterior)
            if trust.verdict == "bad" and trust.places is not None:
                places.append(trust.places)
            seconds = time.perf_counter() - started
            attempts.append(Attempt(name, seconds, trust.verdict, trust.advice))
            fits[name] = dataclasses.replace(
                fit, method=name, assess=lambda _: trust, attempts=tuple(attempts)
            )
            return posterior

        for name, method in self._candidates(target, fits, attempts, places):
            posterior = attempt(name, method)
            if posterior is None:
                continue
            if attempts[-1].verdict != "good" and name != "nuts" and name != "exact":
                # Draws that miss modes cannot be weighted to them: a proposal around all is taken.
                missed = posterior.trust.evidence.get("modes_missed", 0)
                proposal = "laplace" if missed else posterior
                origin = "all modes" if missed else name
                for draws in _weighed(posterior.fitted_target):
                    correction = ImportanceSampling(proposal=proposal, draws=draws)
                    posterior = attempt(f"importance from {origin}", correction)
                    if attempts[-1].verdict != "caution":
                        break
            if attempts[-1].verdict == "good":
                break
        return dataclasses.replace(fits[attempts[-1].method], attempts=tuple(attempts))

    def _candidates(
        self,
        target: Target,
        fits: dict[str, Fit],
        attempts: list[Attempt],
        places: list[np.ndarray],
    ):
        """The names and methods to try, the cheapest first.

        fits, attempts, places: of those that were tried and of their assessments, up to date
        whenever the next one is asked for.
        """
        if isinstance(target.model, HasClosedForm):
            yield "exact", Exact()
        if isinstance(target.model, HasClosedForm) and not target.latents:
            return
        yield "laplace", Laplace()
        # Where weighting by the density, in rounds, does not mend a Gaussian, another one will not
        # do, and chains are the shorter way.
        if attempts[-1].verdict != "bad":
            yield "svi", SVI()
        if attempts[-1].verdict != "bad":
            yield "svi flow", SVI(guide="flow")
        # Smaller steps than by default, since after a divergence all would have to run again.
        yield "nuts", NUTS(target_accept=0.9, modes="weigh", places=_places(fits.values(), places))


def _weighed(target: Target) -> tuple[int, ...]:
    """How many draws importance sampling weighs, and how many again where those leave it open."""
    return (WEIGHED_FIRST, WEIGHED) if is_costly(target) else (WEIGHED,)


def _among(earlier: Iterable[Fit], posterior: Posterior) -> Trust:
    """The verdict on a posterior, beside fits that may have seen modes where it has no draws."""
    trust = posterior.trust
    if trust.verdict != "good" or posterior.approximation is None:
        return trust
    optima = [fit.optimum for fit in earlier if fit.optimum is not None]
    missed = sum(len(uncovered(optimum, posterior.z[0])) for optimum in optima)
    if not missed:
        return trust
    seen = "An earlier attempt found a mode where there are no draws. Take method='nuts'."
    return Trust("bad", seen, trust.evidence | {"modes_missed": missed})


def _places(fits: Iterable[Fit], assessed: list[np.ndarray]) -> np.ndarray | None:
    """Places for chains: modes of the fits, their heaviest draws, those of assessments: (m, d)."""
    places = [*assessed]
    for fit in fits:
        if fit.optimum is not None:
            found = fit.optimum
            # Not where the density rises without bound, as in the neck of a funnel.
            ends = np.flatnonzero(np.isfinite(found.start_log_densities))
            places.append(found.ends[[i for i in ends if found.at(i).converged]])
        if fit.weighted is not None:
            z, log_weights = fit.weighted
            places.append(z[np.argsort(-log_weights)[:HEAVIEST]])
    return np.concatenate(places) if places else None
