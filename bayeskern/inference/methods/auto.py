"""The cheapest method whose verdict is good."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from bayeskern.inference.findings import Findings
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
from bayeskern.protocols import DoesNotApplyError, HasClosedForm


@dataclass(frozen=True)
class CorrectionOptions:
    """Options of the correction of an approximation by importance sampling.

    Attributes:
        draws: Draws to weight.
        draws_of_costly: Draws to weight first if the density is costly.
    """

    draws: int = 8000
    draws_of_costly: int = 4000


CORRECTION = CorrectionOptions()


class Attempt(NamedTuple):
    """A method that `auto` tried.

    Attributes:
        method: Name of the method.
        seconds: Seconds that it took, the verdict included.
        verdict: The verdict.
        reason: Advice of the verdict, or the reason why the method does not apply.
    """

    method: str
    seconds: float
    verdict: str
    reason: str


@dataclass(frozen=True)
class Auto(Method):
    """The cheapest method whose verdict is good: exact, Laplace, SVI or NUTS.

    Laplace and SVI are corrected by importance sampling before the next method is tried, with a
    proposal around all modes where their draws miss some; where the correction is bad, NUTS is
    next. If no verdict is good, the result of NUTS is returned with its own verdict. The findings
    of each attempt count for the next ones: draws must cover the modes, and chains visit the
    points. Where chains stay in several regions, draws come from each region by its share.
    `posterior.attempts` lists the methods tried, their seconds, verdicts and reasons.
    """

    name = "auto"
    takes_marginal = False

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        tried = Attempts(target, seed, progress)
        for name, method in self._candidates(target, tried):
            posterior = tried.attempt(name, method)
            if posterior is None:
                continue
            if tried.verdict != "good" and name != "nuts" and name != "exact":
                # Draws that miss modes cannot be reweighted to them; a proposal around all can.
                missed = posterior.trust.evidence.get("modes_missed", 0)
                proposal = "laplace" if missed else posterior
                origin = "all modes" if missed else name
                # A round follows where the one before leaves a caution.
                few = [CORRECTION.draws_of_costly] if is_costly(posterior.fitted_target) else []
                for draws in [*few, CORRECTION.draws]:
                    correction = ImportanceSampling(proposal=proposal, draws=draws)
                    tried.attempt(f"importance from {origin}", correction)
                    if tried.verdict != "caution":
                        break
            if tried.verdict == "good":
                break
        return tried.last

    def _candidates(self, target: Target, tried: Attempts) -> Iterator[tuple[str, Method]]:
        """Names and methods to try, the cheapest first, given the attempts so far."""
        if isinstance(target.model, HasClosedForm):
            yield "exact", Exact()
        if isinstance(target.model, HasClosedForm) and not target.latents:
            return
        yield "laplace", Laplace()
        # Where importance sampling in rounds does not mend a Gaussian, another Gaussian will not
        # do, and chains are faster.
        if tried.verdict != "bad":
            yield "svi", SVI()
        if tried.verdict != "bad":
            yield "svi flow", SVI(guide="flow")
        # Smaller steps than by default, since after a divergence the chains would run again.
        yield "nuts", NUTS(target_accept=0.9, known=tried.findings)


class Attempts:
    """Attempts at one target, each of which knows the findings of the attempts before.

    Args:
        target: The model.
        seed: Seed of each attempt.
        progress: True to show progress bars.

    Attributes:
        made: The attempts so far.
        findings: Findings of the attempts and their assessments.
    """

    def __init__(self, target: Target, seed: int, progress: bool):
        self.target, self.seed, self.progress = target, seed, progress
        self.made: list[Attempt] = []
        self.findings = Findings()
        self._fits: list[Fit] = []

    @property
    def verdict(self) -> str:
        """The verdict on the last attempt."""
        return self.made[-1].verdict

    @property
    def last(self) -> Fit:
        """The last fit, with all attempts."""
        return dataclasses.replace(self._fits[-1], attempts=tuple(self.made))

    def attempt(self, name: str, method: Method) -> Posterior | None:
        """Posterior by a method; None where the method does not apply to the model."""
        started = time.perf_counter()
        try:
            fit = run(method, self.target, self.seed, self.progress)
        except DoesNotApplyError as reason:
            seconds = time.perf_counter() - started
            self.made.append(Attempt(name, seconds, "not assessable", str(reason)))
            return None
        fit = dataclasses.replace(fit, findings=self.findings | fit.findings)
        posterior = Posterior.of(method.name, fit, self.target, progress=self.progress)
        trust = posterior.trust
        self.findings = posterior.findings | trust.findings
        seconds = time.perf_counter() - started
        self.made.append(Attempt(name, seconds, trust.verdict, trust.advice))
        self._fits.append(dataclasses.replace(fit, method=name, assess=lambda _: trust))
        return posterior
