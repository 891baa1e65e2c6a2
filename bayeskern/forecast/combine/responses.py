"""Mixtures of counts and shares, by draws of fits that see the values through a likelihood."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bayeskern.likelihoods.numpy_likelihoods import NumpyLikelihood
from bayeskern.prediction.response_mixture import ResponseMixture


def responses_of(
    likelihood: NumpyLikelihood, weights, fits: Sequence, zs, moments, paths=None
) -> ResponseMixture:
    """The mixture of draws zs of fits, with weights and moments of g: (S, m) each."""
    sizes = np.array([[fitted.scale.size] for fitted in fits])
    shifts = np.array([[fitted.scale.shift] for fitted in fits])
    means, variances = moments
    thetas = [z[: len(likelihood.names)] for z in zs]
    sds = sizes * np.sqrt(variances)
    return ResponseMixture(likelihood, weights, shifts + sizes * means, sds, thetas, paths)
