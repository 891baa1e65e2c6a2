"""A fit whose draws come from an approximation of known density."""

from __future__ import annotations

import jax
import numpy as np

from bayeskern.inference.approximation.proposals import Approximation
from bayeskern.inference.assessment.approximation import judge_approximation
from bayeskern.inference.optimization.modes import Optimum
from bayeskern.inference.result import Fit


def drawn_fit(
    q: Approximation,
    count: int,
    seed: int,
    optimum: Optimum,
    problem: str | None = None,
    doubt: str | None = None,
    **known,
) -> Fit:
    """`count` draws of q, to be judged against the posterior.

    problem, doubt: as in `judge_approximation`; known: what else the Fit holds.
    """
    z, log_q = q.draw(jax.random.fold_in(jax.random.key(seed), 1), count)
    return Fit(
        z=np.asarray(z)[None],
        log_q=np.asarray(log_q),
        judge=lambda posterior: judge_approximation(posterior, optimum, problem, doubt),
        optimum=optimum,
        approximation=q,
        **known,
    )
