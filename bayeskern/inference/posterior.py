"""Posterior: what every inference backend returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bayeskern.inference.map import Optimum
from bayeskern.inference.target import Target
from bayeskern.inference.trust import Trust
from bayeskern.prediction import Prediction


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from a posterior, or its mode as a single draw, and how far to trust them.

    draws: each latent and deterministic site as an array chain x draw x shape, equally weighted.
    judge: makes `trust` when it is first asked for. timing: seconds, by part. optimum: the mode,
    where one was looked for.
    """

    method: str
    draws: dict[str, np.ndarray]
    judge: Callable[[], Trust]
    target: Target
    timing: dict[str, float] = field(default_factory=dict)
    optimum: Optimum | None = None

    @cached_property
    def trust(self) -> Trust:
        """The verdict on these draws, and the evidence for it."""
        return self.judge()

    @property
    def flat(self) -> dict[str, np.ndarray]:
        """The draws with chains joined: each site (chains x draws, shape)."""
        return {k: v.reshape(-1, *v.shape[2:]) for k, v in self.draws.items()}

    def predict(self, *new_args, **kwargs) -> Prediction:
        """The posterior predictive at new arguments, in closed form for each draw.

        Raises TypeError if the model offers no `predictive`.
        """
        model = self.target.model
        if not hasattr(model, "predictive"):
            raise TypeError(
                f"{type(model).__name__} offers no predictive(draws, data, X_new); use "
                "numpyro.infer.Predictive(model, posterior.flat)."
            )
        return model.predictive(self.flat, self.target.args, *new_args, **kwargs)

    def __repr__(self) -> str:
        sites = ", ".join(f"{k}{list(v.shape[2:]) or ''}" for k, v in self.draws.items())
        chains, count = next(iter(self.draws.values())).shape[:2]
        head = f"Posterior(method={self.method!r}, {chains} x {count} draws of {sites})"
        return f"{head}\n{self.trust!r}"
