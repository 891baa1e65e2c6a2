"""Shares of the variance of a regression: R2, intraclass correlations, terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bayeskern.formula.answers import Answers
from bayeskern.formula.marginal import Fitted, regression_of, thinned
from bayeskern.formula.predictive import (
    at_draws,
    contributions,
    covariances,
    expected,
    new_rows,
    variances,
)


def variance_shares(posterior: Fitted) -> Answers:
    """R2, intraclass correlations, and the share of each term in the variance of y.

    R2 = var(mu) / (var(mu) + mean var(y | mu)), with mu = E[y | x] over the rows of the data at
    each draw. Under Gaussian noise sigma^2 the share of a term with values f is cov(f, mu) /
    (var(mu) + sigma^2), so that the shares sum to R2; the share of a term that opposes the others
    is negative. The intraclass correlation (ICC) of a factor is the part of its effects in the
    variance in the population that common effects do not explain, averaged over rows.

    Args:
        posterior: Posterior of a `bk.regression`.

    Returns:
        A row for each share; only R2 for likelihoods other than the Gaussian.

    Raises:
        TypeError: The posterior is not of a regression by formula.
        ValueError: The response is one of more than two classes, which have no variance.

    References:
        Gelman, Goodrich, Gabry and Vehtari (2019), "R-squared for Bayesian regression models";
        Johnson (2014), "Extension of Nakagawa and Schielzeth's R2GLMM to random slopes models".
    """
    model = regression_of(posterior)
    frame = model.source.value.frame
    draws: Any = thinned(posterior, frame)
    rows = new_rows(model, draws, frame, "known", 0, {})
    if model.likelihood.classifies and len(model.classes or ()) > 2:
        raise ValueError("the response has more than two classes, which have no variance.")
    mu = at_draws(model, draws, rows, expected)
    noise = at_draws(model, draws, rows, variances).mean(axis=1)
    total = mu.var(axis=1, ddof=1) + noise
    shares = {"R2": mu.var(axis=1, ddof=1) / total}
    if model.is_gaussian:
        between: dict[str, np.ndarray] = {}
        for term in model.groups:
            Z = term.effects.columns(frame)
            variance = np.einsum("sij,ij->s", covariances(term, draws), Z.T @ Z / len(Z))
            between[term.group] = between.get(term.group, 0.0) + variance
        unexplained = sum(between.values(), noise)
        shares |= {f"ICC({group})": v / unexplained for group, v in between.items()}
        centered = mu - mu.mean(axis=1, keepdims=True)
        b, X = np.asarray(model.common.effects(draws)), model.common.columns(frame)
        parts = {
            site: b[:, start:stop] @ X[:, start:stop].T
            for site, start, stop in model.common.slices
            if site != model.common.intercept
        }
        parts |= dict(contributions(model, draws, frame, "known", 0))
        del parts[model.common.name]
        for name, part in parts.items():
            covariance = np.einsum("sn,sn->s", part, centered) / (len(frame) - 1)
            shares[f"share of {name}"] = covariance / total
    labels = pd.DataFrame({"quantity": list(shares)})
    return Answers(labels, np.column_stack(list(shares.values())), "Shares of the variance")
