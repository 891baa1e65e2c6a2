"""Generalised linear models."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import numpy as np
from scipy.optimize import linprog

from bayeskern.closed_form import Marginal
from bayeskern.likelihoods import Likelihood
from bayeskern.linear.design import Aside
from bayeskern.linear.model import LinearModel
from bayeskern.linear.rotated import rotated


class BayesianGLM(LinearModel):
    """y ~ likelihood(intercept + features(x)'weights), itself a NumPyro model: model(X, y=None).

    likelihood: one of `bayeskern.likelihoods`, with its link: Bernoulli(), Poisson(link="log"),
    NegativeBinomial(), ... What it needs of each row beside y is given by name: `exposure=`,
    `trials=`. features, prior, intercept: as in `BayesianLinearRegression`; a default scale is
    2.5 / sd(x) on the scale of the linear predictor (2.5 sd(y) / sd(x) for an identity link).

    Where the prior is Gaussian given its scales, samplers move over rotated coordinates in which
    collinear features do no harm. McCullagh and Nelder (1989).
    """

    likelihood: Likelihood = eqx.field()
    features: Aside = eqx.field(
        static=True, default=None, converter=lambda f: f if isinstance(f, Aside) else Aside(f)
    )

    def __check_init__(self):
        if not isinstance(self.likelihood, Likelihood):
            raise TypeError(
                "likelihood must be one of bayeskern.likelihoods, such as Bernoulli(), got "
                f"{self.likelihood!r}."
            )

    @property
    def noise_model(self):
        return self.likelihood

    def with_noise_model(self, likelihood):
        return dataclasses.replace(self, likelihood=likelihood)

    def prepare(self, X=None, y=None, **extra):
        model, args = super().prepare(X, y, **extra)
        if y is not None and not model.is_proper:
            model._look_at_classes(args[0], np.asarray(args[1]))
        return model, args

    def marginal(self, X, y=None, extra=None) -> Marginal | None:
        """The model in better axes; see `infer`."""
        return rotated(self, X, y, extra)

    def _look_at_classes(self, X, y) -> None:
        """Refuse classes that a flat prior leaves without a proper posterior."""
        if not self.likelihood.classifies:
            return
        if self.likelihood.outputs is not None:
            raise ValueError(
                f"{type(self.likelihood).__name__} under a flat prior is improper: adding one "
                "number to all outputs changes nothing. Take prior=priors.Gaussian(scale)."
            )
        if len(np.unique(y)) == 2 and _separable(X, y, self.intercept is not None):
            raise ValueError(
                "the features separate the classes perfectly, so that under a flat prior the "
                "weights grow without bound. Take a proper prior, such as prior=2.5."
            )


def _separable(X, y, intercept: bool) -> bool:
    """Whether a hyperplane has all rows of one class on one side, and not all of them on it.

    A linear programme: Konis (2007), section 4.4.1.
    """
    Z = np.column_stack([np.ones(len(X)), X]) if intercept else X
    Z = Z / np.maximum(np.abs(Z).max(axis=0), np.finfo(float).tiny)
    Z = np.where(np.asarray(y)[:, None] > 0, Z, -Z)
    found = linprog(-Z.sum(axis=0), A_ub=-Z, b_ub=np.zeros(len(Z)), bounds=(-1.0, 1.0))
    return bool(found.success and -found.fun > 1e-6)
