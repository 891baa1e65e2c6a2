"""Density of a run of NUTS, in the coordinates of its chains and of its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeskern.inference.mcmc.connectivity import shrunk_covariance
from bayeskern.inference.mcmc.kernel import Transitions, potential_and_gradient
from bayeskern.inference.mcmc.mass_matrix import MetricShape
from bayeskern.inference.mcmc.metric import Metric
from bayeskern.inference.model.centring import PartlyCentred, recentred
from bayeskern.inference.model.target import Target
from bayeskern.inference.search.factors import robust_cholesky
from bayeskern.inference.search.modes import Optimum


@dataclass(frozen=True, eq=False)
class ChainRun:
    """Density of a run of NUTS, its modes and its seed.

    Attributes:
        target: The density.
        sampled: The density that the chains sample: `target`, or its form with other centredness.
        optimum: The modes of `target`, if there was a search.
        seed: Seed of the run.
    """

    target: Target
    sampled: Target
    optimum: Optimum | None
    seed: int

    @property
    def evidence(self) -> dict[str, Any]:
        """Evidence on the search for modes and on the centredness."""
        searched = {} if self.optimum is None else self.optimum.search_evidence
        is_centred = isinstance(self.sampled.model, PartlyCentred)
        return searched | (self.sampled.model.evidence if is_centred else {})

    def in_form_of_target(
        self, rows: Transitions, metric: Metric, shape: MetricShape
    ) -> tuple[Transitions, Metric]:
        """Transitions of the chains, and the metric of one, in coordinates of `target`."""
        if self.sampled is self.target:
            return rows, metric
        z = recentred(self.sampled, self.target, np.concatenate(rows.z)).reshape(rows.z.shape)
        potential, _ = potential_and_gradient(self.target, z)
        root = robust_cholesky(shrunk_covariance(z[0]))
        return rows._replace(z=z, potential=potential), shape.metric(root)
