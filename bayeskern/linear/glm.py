"""Generalised linear models."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import numpy as np

from bayeskern.likelihoods import Likelihood
from bayeskern.linear.design import Aside
from bayeskern.linear.model import LinearModel
from bayeskern.linear.separation import separable
from bayeskern.linear.whitened import rotated
from bayeskern.protocols import Marginal


class BayesianGLM(LinearModel):
    """y ~ likelihood(intercept + features(x)'weights), itself a NumPyro model: model(X, y=None).

    likelihood: one of `bayeskern.likelihoods`, with its link: Bernoulli(), Poisson(link="log"),
    NegativeBinomial(), ... What it needs of each row beside y is given by name: `exposure=`,
    `trials=`. features, prior, intercept: as in `BayesianLinearRegression`; a default scale is
    2.5 / sd(x) on the scale of the linear predictor (2.5 sd(y) / sd(x) for an identity link).

    Ordered has cutpoints in the place of an intercept, which speak of x at its mean: `intercept` is
    then no latent but -mean(x)'weights; with intercept=False they speak of x = 0. Of several
    outputs (Categorical, Dirichlet, Heteroscedastic) each has weights and an intercept of its own,
    all from the same prior.

    Where the prior is Gaussian given its scales, samplers move over rotated coordinates in which
    collinear features do no harm. McCullagh and Nelder (1989).
    """

    noise_name: ClassVar[str] = "likelihood"

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
        level = self.intercept
        given = level is not None and level.sd is not None and not level.is_fixed
        if given and not self.likelihood.takes_intercept:
            raise ValueError(
                f"{type(self.likelihood).__name__} has cutpoints in the place of an intercept, and "
                "one beside them could not be told from them. Leave intercept out, and give "
                "cutpoints a prior."
            )

    def prepare(self, X=None, y=None, **extra):
        model, args = super().prepare(X, y, **extra)
        if y is not None and not model.is_proper:
            model._look_at_ends(*args)
        return model, args

    def marginal(self, X, y=None, extra=None) -> Marginal | None:
        """The model in better axes; see `infer`."""
        if y is None:
            raise ValueError("y is missing: give the observations, one for each row of X.")
        return rotated(self, X, y, extra)

    def _look_at_ends(self, X, y, extra=None) -> None:
        """Refuse data that a flat prior leaves without a proper posterior."""
        likelihood = self.likelihood
        if likelihood.link_name == "softmax":
            raise ValueError(
                f"{type(likelihood).__name__} under a flat prior is improper: adding one number to "
                "all outputs changes nothing. Take prior=priors.Gaussian(scale)."
            )
        if likelihood.outputs is None and separable(
            self._flat_columns(X), *likelihood.restrained(np.asarray(y), **(extra or {}))
        ):
            what = "the classes" if likelihood.classifies else "what lies at an end of y's range"
            raise ValueError(
                f"the features separate {what}, so that under a flat prior the weights grow "
                "without bound. Take a proper prior, such as prior=2.5, on weights and intercept."
            )

    def _flat_columns(self, X) -> np.ndarray:
        """The columns whose coefficients have a flat prior."""
        level = self.intercept
        if level is not None and not level.is_flat:
            # With its prior at the centre, the intercept may not move there.
            return X - level.center
        parts = [np.ones((len(X), 1))] if level is not None else []
        return np.column_stack(parts if self.prior.proper else [*parts, X])
