"""Regressions by dense Gaussians: a second way, in NumPy, to integrate the effects out.

The effects v are the sites of the full model: common effects and effects of groups as they stand,
standard normal values for smooths, processes and monotone effects. With columns A, v ~ N(m, C) and
noise of variance n_i in row i, y ~ N(offset + A m, A C A' + diag(n)). A row of weight 3 stands
three times.
"""

from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
from numpyro import handlers
from numpyro.infer.util import log_density
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal

from bayeskern.formula.groups import Varying


class Dense(NamedTuple):
    """Sites of the effects, with their columns, prior and the noise of each row."""

    sites: list[str]
    A: np.ndarray
    mean: np.ndarray
    cov: np.ndarray
    y: np.ndarray
    noise: np.ndarray

    @property
    def log_marginal(self):
        cov = self.A @ self.cov @ self.A.T + np.diag(self.noise)
        return multivariate_normal.logpdf(self.y, self.A @ self.mean, cov)

    @property
    def posterior(self):
        """Mean and covariance of v given y."""
        AC = self.A @ self.cov
        K = AC @ self.A.T + np.diag(self.noise)
        gain = np.linalg.solve(K, AC).T
        return self.mean + gain @ (self.y - self.A @ self.mean), self.cov - gain @ AC

    def vector(self, draw):
        return np.concatenate([np.ravel(draw[site]) for site in self.sites])


def one_hot(term, frame):
    """Indicators of the groups of a term, (n, G), from the labels."""
    parts = [frame[part].astype(str) for part in term.group.split(":")]
    labels = parts[0].str.cat(parts[1:], sep=":").to_numpy()
    levels = np.array([str(level) for level in term.levels.value])
    return (labels[:, None] == levels).astype(float)


def root_of(term, draw):
    """Root of the prior covariance of a smooth, process or monotone effect: (k, m)."""
    _, root = handlers.substitute(handlers.seed(term.prior, 0), data=draw)()
    return np.diag(root) if root.ndim == 1 else np.asarray(root)


def covariance(term, draw):
    """Covariance of the effects of one group, from standard deviations and correlations."""
    sds = np.array([draw[f"sd({site})"] for site in term.sites_of_groups])
    R, names = np.eye(len(sds)), list(term.names)
    if term.correlated and len(sds) == 2:
        R[0, 1] = R[1, 0] = draw[f"cor({', '.join(names)} | {term.group})"]
    elif term.correlated:
        L = np.asarray(draw[f"lkj({', '.join(names)} | {term.group})"])
        R = L @ L.T
    return sds[:, None] * R * sds


def dense_of(model, draw):
    """Dense Gaussian of a regression at one draw of its scales."""
    frame, common = model.source.value.frame, model.common
    offset = np.asarray(model.rows.offset)
    sites, columns, means, covs = [], [], [], []
    # The intercept at the mean of the columns is the site plus center'b.
    X = common.columns(frame) + np.asarray(common.center)
    M = np.eye(X.shape[1])
    for site, start, _ in common.slices:
        if site == common.intercept:
            M[start] -= np.asarray(common.center)
    loc, cov = M @ np.asarray(common.loc), M @ np.diag(np.square(common.sd)) @ M.T
    for site, start, stop in common.slices:
        if site in draw:
            offset = offset + X[:, start:stop] @ np.ravel(draw[site])
    kept = [i for s, a, b in common.slices if s not in draw for i in range(a, b)]
    sites += [s for s, _, _ in common.slices if s not in draw]
    columns.append(X[:, kept]), means.append(loc[kept]), covs.append(cov[np.ix_(kept, kept)])
    for term in model.terms:
        A = term.columns(frame) @ root_of(term, draw)
        sites.append(f"white({term.name})")
        columns.append(A), means.append(np.zeros(A.shape[1])), covs.append(np.eye(A.shape[1]))
    for term in model.groups:
        groups, Z = one_hot(term, frame), term.effects.columns(frame)
        if isinstance(term.effects, Varying):
            sites += term.effects.sites_of_groups
            A = np.hstack([groups * z[:, None] for z in Z.T])
            C = np.kron(covariance(term.effects, draw), np.eye(groups.shape[1]))
        else:
            sites.append(f"white({term.effects.name})")
            A = np.einsum("ng,nm->ngm", groups, Z @ root_of(term.effects, draw))
            A = A.reshape(len(groups), -1)
            C = np.eye(A.shape[1])
        columns.append(A), means.append(np.zeros(A.shape[1])), covs.append(C)
    A, y = np.hstack(columns), np.asarray(model.y) - offset
    noise = np.full(len(y), float(draw.get("sigma", 0.0)) ** 2)
    if "sigma" in model.distributional:
        effects = model.distributional["sigma"]
        X = effects.columns(frame) + np.asarray(effects.center)
        log_sd = sum(X[:, i:j] @ np.ravel(draw[site]) for site, i, j in effects.slices)
        noise = np.exp(2.0 * log_sd)
    if model.rows.weights is not None:
        rows = np.repeat(np.arange(len(y)), np.asarray(model.rows.weights).astype(int))
        A, y, noise = A[rows], y[rows], noise[rows]
    return Dense(sites, A, np.concatenate(means), block_diag(*covs), y, noise)


def prior_draw(marginal, seed):
    """One draw of the scales from their priors."""
    trace = handlers.trace(handlers.seed(marginal.model, jax.random.key(seed))).get_trace(
        *marginal.args
    )
    return {
        name: site["value"]
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }


def posterior_draws(model, scales, count, seed=0):
    """Draws of all sites, with the scales held at these values."""
    draws = {name: np.broadcast_to(s, (count, *np.shape(s))) for name, s in scales.items()}
    recover = model.marginal(model.y).recover
    sites = recover(jax.tree.map(np.array, draws), jax.random.key(seed), False)
    return jax.device_get(sites)


def log_marginal(marginal, draw):
    """log p(y | scales) of the model with its effects integrated out, and log p(y, scales)."""
    total, trace = log_density(marginal.model, marginal.args, {}, draw)
    if "y" in trace:
        value = trace["y"]["fn"].log_prob(trace["y"]["value"])
    else:
        value = trace["log_marginal_likelihood"]["fn"].log_factor
    return float(value), float(total)


def table(seed=0, n=48):
    """A table with crossed and nested groups, numbers, classes, counts and weights."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "z": rng.uniform(size=n),
            "f": rng.choice(list("abc"), n),
            "o": rng.integers(1, 5, n),
            "g": rng.choice(list("pqrst"), n),
            "h": rng.integers(0, 4, n),
            "w": rng.integers(1, 4, n),
            "e": rng.uniform(1.0, 3.0, n),
        }
    )
    frame["y"] = 3.0 + frame["x"] + np.sin(5.0 * frame["z"]) + rng.normal(size=n)
    return frame
