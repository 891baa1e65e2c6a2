"""The cheapest method whose verdict is good."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import NamedTuple

from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.exact import Exact
from bayeskern.inference.methods.importance import ImportanceSampling
from bayeskern.inference.methods.laplace import Laplace
from bayeskern.inference.methods.marginalization import run
from bayeskern.inference.methods.nuts import NUTS
from bayeskern.inference.methods.svi import SVI
from bayeskern.inference.model.target import Target
from bayeskern.inference.posterior.posterior import Posterior
from bayeskern.inference.result import Fit
from bayeskern.protocols import DoesNotApplyError, HasClosedForm


class Attempt(NamedTuple):
    """One method that `auto` tried: its seconds, verdict included, the verdict, and the advice."""

    method: str
    seconds: float
    verdict: str
    reason: str


@dataclass(frozen=True)
class Auto(Method):
    """The cheapest method whose verdict is good: exact, Laplace, SVI (full rank, flow), NUTS.

    Laplace and SVI are corrected by importance sampling before the next one is tried. If none is
    good, what NUTS found comes back with its own verdict. `posterior.attempts` lists what was
    tried, what each attempt cost, and why it went on.
    """

    name = "auto"
    takes_marginal = False

    def run(self, target: Target, seed: int, progress: bool) -> Fit:
        attempts: list[Attempt] = []

        def attempt(name, method) -> Posterior | None:
            started = time.perf_counter()
            try:
                fit = run(method, target, seed, progress)
            except DoesNotApplyError as reason:
                seconds = time.perf_counter() - started
                attempts.append(Attempt(name, seconds, "not assessable", str(reason)))
                return None
            posterior = Posterior.of(name, fit, target, progress=progress)
            trust = posterior.trust
            seconds = time.perf_counter() - started
            attempts.append(Attempt(name, seconds, trust.verdict, trust.advice))
            fits[name] = fit
            return posterior

        fits: dict[str, Fit] = {}
        for name, method in self._candidates(target):
            posterior = attempt(name, method)
            if posterior is None:
                continue
            if posterior.trust.verdict != "good" and name != "nuts" and name != "exact":
                corrected = f"importance from {name}"
                posterior = attempt(corrected, ImportanceSampling(proposal=posterior))
            if posterior.trust.verdict == "good":
                break
        name = attempts[-1].method
        trust = posterior.trust
        return dataclasses.replace(
            fits[name], method=name, assess=lambda _: trust, attempts=tuple(attempts)
        )

    def _candidates(self, target: Target):
        """The names and methods to try, the cheapest first."""
        if isinstance(target.model, HasClosedForm):
            yield "exact", Exact()
        if isinstance(target.model, HasClosedForm) and not target.latents:
            return
        yield "laplace", Laplace()
        yield "svi", SVI()
        yield "svi flow", SVI(guide="flow")
        # Smaller steps than by default, since after a divergence all would have to run again.
        yield "nuts", NUTS(target_accept=0.9)
