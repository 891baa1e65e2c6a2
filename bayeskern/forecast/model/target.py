"""Targets of inference methods for the models of a series."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bayeskern.gp import GPRegression, LatentGP
from bayeskern.inference.model.bound import BoundModel
from bayeskern.inference.model.target import Target


def bound(model: GPRegression, x: np.ndarray, y: np.ndarray) -> Target:
    """Target of a model of values y (n,) at times x (n,).

    Masked rows pad the series to a multiple of 32, so that series of similar length share compiled
    functions.
    """
    n = len(x)
    size = -(-n // 32) * 32
    X, Y, mask = np.zeros(size), np.zeros(size), np.arange(size) < n
    X[:n], Y[:n] = x, y
    return BoundModel.from_model(model, (X, Y, mask), {}).target()


def latent_target(model: LatentGP, x: np.ndarray, y: np.ndarray) -> Target:
    """Target of a model of observations y (n,) at times x (n,), with f integrated out."""
    return BoundModel.from_model(replace(model, integrate=True), (x[:, None], y), {}).target()
