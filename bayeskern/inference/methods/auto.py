"""The cheapest method whose verdict is good."""

from __future__ import annotations

import dataclasses
import time
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
    is good, what NUTS found comes back with its own verdict. Each attempt has to answer for the
    findings of those before: draws cover their modes, and chains visit their places. Where chains
    sit in several places, draws come from each by its share. `posterior.attempts` lists what was
    tried, what each attempt cost, and why it went on.
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
                # Draws that miss modes cannot be weighted to them: a proposal around all is taken.
                missed = posterior.trust.evidence.get("modes_missed", 0)
                proposal = "laplace" if missed else posterior
                origin = "all modes" if missed else name
                for draws in _weighed(posterior.fitted_target):
                    correction = ImportanceSampling(proposal=proposal, draws=draws)
                    tried.attempt(f"importance from {origin}", correction)
                    if tried.verdict != "caution":
                        break
            if tried.verdict == "good":
                break
        return tried.last

    def _candidates(self, target: Target, tried: Attempts):
        """The names and methods to try, the cheapest first; the next one follows from `tried`."""
        if isinstance(target.model, HasClosedForm):
            yield "exact", Exact()
        if isinstance(target.model, HasClosedForm) and not target.latents:
            return
        yield "laplace", Laplace()
        # Where weighting by the density, in rounds, does not mend a Gaussian, another one will not
        # do, and chains are the shorter way.
        if tried.verdict != "bad":
            yield "svi", SVI()
        if tried.verdict != "bad":
            yield "svi flow", SVI(guide="flow")
        # Smaller steps than by default, since after a divergence all would have to run again.
        yield "nuts", NUTS(target_accept=0.9, known=tried.findings)


class Attempts:
    """Attempts at one target, each of which has to answer for what those before have found.

    Attributes:
        made: The attempts so far.
        findings: What they and their assessments found.
    """

    def __init__(self, target: Target, seed: int, progress: bool):
        self.target, self.seed, self.progress = target, seed, progress
        self.made: list[Attempt] = []
        self.findings = Findings()
        self._fit: Fit | None = None

    @property
    def verdict(self) -> str:
        """The verdict on the last attempt."""
        return self.made[-1].verdict

    @property
    def last(self) -> Fit:
        """The last fit, with all attempts."""
        return dataclasses.replace(self._fit, attempts=tuple(self.made))

    def attempt(self, name: str, method: Method) -> Posterior | None:
        """The posterior by a method; None where it does not apply to the model."""
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
        self._fit = dataclasses.replace(fit, method=name, assess=lambda _: trust)
        return posterior


def _weighed(target: Target) -> tuple[int, ...]:
    """How many draws importance sampling weighs, and how many again where those leave it open."""
    return (WEIGHED_FIRST, WEIGHED) if is_costly(target) else (WEIGHED,)
