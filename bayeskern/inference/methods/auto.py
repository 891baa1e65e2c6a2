"""The cheapest method whose verdict is good."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayeskern.inference.assessment.approximation import is_hopeless, too_different
from bayeskern.inference.assessment.convergence import GOOD_ESS, GOOD_RHAT, lacks_draws
from bayeskern.inference.findings import Findings
from bayeskern.inference.mcmc.jumps import has_jumps
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.exact import Exact
from bayeskern.inference.methods.importance import ImportanceSampling
from bayeskern.inference.methods.laplace import Laplace
from bayeskern.inference.methods.marginalization import run
from bayeskern.inference.methods.nuts import NUTS
from bayeskern.inference.methods.smc import SMC
from bayeskern.inference.methods.svi import SVI
from bayeskern.inference.model.cost import is_costly
from bayeskern.inference.model.target import Target
from bayeskern.inference.posterior.posterior import Posterior
from bayeskern.inference.result import KnownVerdict
from bayeskern.protocols import DoesNotApplyError, HasClosedForm


class Attempt(NamedTuple):
    """A method that `auto` tried.

    Attributes:
        method: Name of the method.
        seconds: Seconds of the attempt, including the verdict.
        verdict: The verdict.
        reason: Advice of the verdict, or the reason why the method does not apply.
    """

    method: str
    seconds: float
    verdict: str
    reason: str


# Number of weighted draws of a correction, and of a first correction if the density is costly.
CORRECTION_DRAWS, FIRST_CORRECTION_DRAWS = 8000, 4000


@dataclass(frozen=True)
class Auto(Method):
    """The cheapest method whose verdict is good: exact, Laplace, SVI, SMC or NUTS.

    SVI is tried only if the density is costly. Before the next method is tried, draws of Laplace or
    SVI are corrected by importance sampling, with a proposal around all modes if the draws miss
    some. If only the approximation of an integrated latent is off, NUTS is next, because weights
    and SVI share that approximation. If the correction is bad, or hopeless because weights in many
    coordinates have no mean, NUTS is next. Good draws of Laplace are corrected if a mean is off by
    more than a tenth of an sd. If the density jumps, as at a change point, SMC takes the place of
    SVI and NUTS. Chains of NUTS that agree roughly but have too few effective draws go on, unless
    the density is costly. If no verdict is good, the last result is returned with its own verdict.

    Each attempt uses the findings of the earlier attempts: modes are searched for once, draws must
    cover the known modes, and chains must reach the other known points. All attempts run on the
    non-centred form of location-scale sites. If chains stay in several regions, the share of a
    region determines its number of draws. `posterior.attempts` lists the methods tried, their
    seconds, verdicts and reasons.
    """

    name = "auto"
    use = "most problems (the default)"
    takes_marginal = False

    def run(self, target: Target, seed: int, progress: bool) -> Posterior:
        attempts = Attempts(target, seed, progress)
        for name, method in self._candidates(target, attempts):
            posterior = attempts.attempt(name, method)
            if posterior is None:
                continue
            if name == "laplace" and attempts.verdict == "bad":
                attempts.look_for_jumps(posterior)
            # Draws of several regions stand in one row, which does not tell the length of chains.
            goes_on = name == "nuts" and posterior.is_mcmc and not attempts.is_costly
            if goes_on and lacks_draws(posterior.trust_in_draws):
                attempts.extend(posterior)
            is_good = attempts.verdict == "good"
            is_coarse = _is_coarse(posterior) and not attempts.is_costly
            if name not in ("nuts", "smc", "exact") and (not is_good or is_coarse):
                if _is_hopeless(posterior) or attempts.latent_is_off:
                    continue
                # Weights cannot recover missed modes, but a proposal around all modes covers them.
                missed = posterior.trust_in_draws.evidence.get("modes_missed", 0)
                proposal = "laplace" if missed else posterior
                origin = "all modes" if missed else name
                # A costly density gets the full number of draws only after a caution.
                counts = [CORRECTION_DRAWS]
                if attempts.is_costly:
                    counts.insert(0, FIRST_CORRECTION_DRAWS)
                for draws in counts:
                    correction = ImportanceSampling(proposal=proposal, draws=draws)
                    attempts.attempt(f"importance from {origin}", correction)
                    if attempts.verdict != "caution":
                        break
            if attempts.verdict == "good":
                break
            # A bad correction contradicts good draws, a caution does not.
            if is_good and attempts.verdict == "caution":
                return attempts.posterior(-2)
        return attempts.posterior(-1)

    def _candidates(self, target: Target, attempts: Attempts) -> Iterator[tuple[str, Method]]:
        """Names and methods to try, the cheapest first, given the attempts so far."""
        if isinstance(target.model, HasClosedForm):
            yield "exact", Exact()
        if isinstance(target.model, HasClosedForm) and not target.latents:
            return
        yield "laplace", Laplace()
        if attempts.found_jumps:
            # SVI and NUTS follow gradients, which do not see the jumps.
            yield "smc", SMC()
            return
        # If importance sampling that adapts from Laplace's Gaussian is bad, it is also bad from the
        # Gaussian of SVI. If the approximation of an integrated latent is off, SVI shares it.
        if attempts.is_costly and attempts.verdict != "bad" and not attempts.latent_is_off:
            yield "svi", SVI()
        yield "nuts", NUTS(known=attempts.findings)


# Error of a mean, in sds, or of a log sd, from which good draws of Laplace are corrected too,
# unless the density is costly.
COARSE_ERROR = 0.1


def _is_coarse(posterior: Posterior) -> bool:
    """True if weighting the draws changes a mean or an sd by more than a little."""
    evidence = posterior.trust_in_draws.evidence
    errors = (evidence.get(kind, 0.0) for kind in ("mean_shift", "log_sd_ratio"))
    return max(errors) > COARSE_ERROR


def _is_hopeless(posterior: Posterior) -> bool:
    """True if no correction of an approximation would help."""
    evidence = posterior.trust_in_draws.evidence
    # A proposal around all modes covers the missed ones.
    if evidence.get("modes_missed", 0):
        return False
    return is_hopeless(evidence.get("khat", 0.0), posterior.fitted_target.size)


class Attempts:
    """Attempts at one target; each attempt uses the findings of the earlier attempts.

    Args:
        target: The model.
        seed: Seed of each attempt.
        progress: True to show progress bars.

    Attributes:
        records: The attempts so far.
        found_jumps: True if the density jumps between draws of Laplace's method.
        findings: Findings of the attempts and their assessments.
    """

    def __init__(self, target: Target, seed: int, progress: bool):
        self.target, self.seed, self.progress = target, seed, progress
        self.records: list[Attempt] = []
        self.findings = Findings()
        self.found_jumps = False
        self._posteriors: list[Posterior] = []

    @property
    def verdict(self) -> str:
        """The verdict on the last attempt."""
        return self.records[-1].verdict

    @property
    def is_costly(self) -> bool:
        """True if the density of the last fit is costly, or that of the model without a fit."""
        return is_costly(self._posteriors[-1].fitted_target if self._posteriors else self.target)

    @property
    def latent_is_off(self) -> bool:
        """True if only the approximation of an integrated latent limits the last verdict.

        Weights of the parameters use the same approximation.
        """
        if not self._posteriors:
            return False
        trust = self._posteriors[-1].trust_in_draws
        return (
            trust.verdict == "caution"
            and "inner_khat" in trust.evidence
            and not too_different(trust.evidence)
            and trust.evidence["khat"] < trust.evidence["khat_threshold"]
        )

    def posterior(self, index: int) -> Posterior:
        """One of the posteriors, with all attempts."""
        return dataclasses.replace(self._posteriors[index], attempts=tuple(self.records))

    def attempt(self, name: str, method: Method) -> Posterior | None:
        """Posterior by a method; None if the method does not apply to the model."""
        started = time.perf_counter()
        try:
            fit = run(method, self.target, self.seed, self.progress, centring=True)
        except DoesNotApplyError as reason:
            seconds = time.perf_counter() - started
            self.records.append(Attempt(name, seconds, "not assessable", str(reason)))
            return None
        fit = dataclasses.replace(fit, findings=self.findings | fit.findings)
        known = {"seed": self.seed, "progress": self.progress}
        posterior = Posterior.from_fit(fit, self.target, method.name, **known)
        self._record(name, name, posterior, started)
        return posterior

    def extend(self, posterior: Posterior) -> None:
        """Let the chains of a posterior by NUTS go on, to at most four times their length."""
        started, evidence = time.perf_counter(), posterior.trust_in_draws.evidence
        ess = min(evidence["ess_bulk"], evidence["ess_tail"])
        # R-hat - 1 of chains that agree falls like 1 / n, as the effective draws grow like n.
        excess = (evidence["rhat"] - 1.0) / (GOOD_RHAT - 1.0)
        # Both are estimates: half as many draws again as good chains need.
        factor = np.clip(np.ceil(1.5 * max(GOOD_ESS / ess, excess)), 2, 4)
        longer = posterior.extend(int(factor - 1) * posterior.shape[1])
        self._record("nuts", "nuts, more draws", longer, started)

    def _record(self, method: str, name: str, posterior: Posterior, started: float) -> None:
        """Record an attempt under its name, and its posterior under the name of its method."""
        trust = posterior.trust_in_draws
        self.findings = posterior.findings | trust.findings
        seconds = time.perf_counter() - started
        self.records.append(Attempt(name, seconds, trust.verdict, trust.advice))
        known = {"method": method, "assess": KnownVerdict(trust)}
        self._posteriors.append(dataclasses.replace(posterior, **known))

    def look_for_jumps(self, posterior: Posterior) -> None:
        """Find jumps of the density between draws, and name them in the last attempt."""
        self.found_jumps = has_jumps(posterior.fitted_target, posterior.z[0])
        if self.found_jumps:
            last = self.records[-1]
            jumps = "The log density jumps between its draws, where gradients do not see it."
            self.records[-1] = last._replace(reason=f"{last.reason} {jumps}")
