"""Generalized linear models."""

from __future__ import annotations

from typing import ClassVar, Self

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.likelihoods import Likelihood
from bayeskern.likelihoods.separation import separated
from bayeskern.linear.design import OpaqueStatic, as_opaque
from bayeskern.linear.model import LinearModel
from bayeskern.linear.whitened import whitened
from bayeskern.protocols import Marginal


class BayesianGLM(LinearModel):
    """A generalized linear model with priors on the weights and the intercept.

    y ~ likelihood(intercept + features(x)'weights). It is itself a NumPyro model,
    model(X, y=None), whose sites are `intercept`, `weights`, and the hyperparameters of the prior
    and the likelihood. Other values that the likelihood needs for each row, such as `exposure=`
    or `trials=`, are passed by name.

    `Ordered` has cutpoints in place of an intercept. They are relative to the mean of x: the site
    `intercept` is -mean(x)'weights, not a parameter. With intercept=False the cutpoints
    are relative to x = 0. Likelihoods with several outputs (`Categorical`, `Dirichlet`,
    `Heteroscedastic`) have weights and an intercept for each output, all with the same prior.

    If the prior is Gaussian given its scales, samplers use whitened coordinates, in which they mix
    well even if features are collinear.

    Args:
        likelihood: One of `bayeskern.likelihoods`, with its link: `Bernoulli()`,
            `Poisson(link="log")`, `NegativeBinomial()`, ...
        features: A scikit-learn transformer, or a transformer of `bayeskern.kernels` such as
            `NystromFeatures(kernel)`. By default the columns of X are the features. For a trainable
            network phi, use `LatentGP(kernel_from_features(phi, weights=...), likelihood)`.
        prior: The prior on the weights, on the scale of the linear predictor: one of
            `bayeskern.priors`, or a NumPyro distribution of each weight. By default
            N(0, (2.5 s / sd(x))^2), where s is the scale of `likelihood.eta_location_scale`: 1
            under most links, sd(y) or a robust sd for real-valued y.
        prior_sd: In place of `prior`, the standard deviation of Gaussian weights: a number, one for
            each feature, a distribution or `Free`.
        intercept: True for a default prior, located by y, on the linear predictor eta at the mean
            of x; False for no intercept; a NumPyro Normal or `priors.Flat()` for a prior on eta
            at x = 0.
        batch: The number of rows in each step of SVI; None for all. All rows are used by the
            search for the starting point of SVI, by the verdict and by other methods.

    Raises:
        TypeError: If the likelihood is not one of `bayeskern.likelihoods`.
        ValueError: If `Ordered` is given an intercept prior, or batch is not a whole number of at
            least 1.

    References:
        McCullagh and Nelder (1989), Generalized Linear Models; Hoffman, Blei, Wang and Paisley
        (2013), "Stochastic variational inference", on batches.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> x, passed = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), np.array([0, 0, 1, 0, 1, 1])
        >>> model = bk.BayesianGLM(bk.likelihoods.Bernoulli())
        >>> posterior = bk.infer(model, x, passed, method="laplace", seed=0)
        >>> bool(posterior.predict([6.0]).mean > posterior.predict([1.0]).mean)
        True
    """

    likelihood_argument: ClassVar[str] = "likelihood"

    likelihood: Likelihood = eqx.field()
    features: OpaqueStatic = eqx.field(static=True, default=None, converter=as_opaque)
    batch: int | None = eqx.field(static=True, default=None, kw_only=True)

    def __check_init__(self):
        if not isinstance(self.likelihood, Likelihood):
            raise TypeError(
                "likelihood must be one of bayeskern.likelihoods, such as Bernoulli(), got "
                f"{self.likelihood!r}."
            )
        if self.batch is not None:
            validation.positive_integer(self.batch, "batch")
        intercept = self.intercept
        has_prior = intercept is not None and intercept.sd is not None and not intercept.is_fixed
        if has_prior and not self.likelihood.takes_intercept:
            raise ValueError(
                f"{type(self.likelihood).__name__} has cutpoints in place of an intercept, because "
                "the data cannot distinguish the two. Leave intercept out, and give the cutpoints "
                "a prior."
            )

    def prepare(
        self, X: ArrayLike | None = None, y: ArrayLike | None = None, **extra
    ) -> tuple[Self, tuple]:
        """Compute features, check the data, set default priors: see `LinearModel.prepare`.

        Raises:
            ValueError: In addition, if the data are separated under a flat prior.
        """
        model, args = super().prepare(X, y, **extra)
        if y is not None and not model.is_proper:
            model._check_separation(*args)
        return model, args

    def marginal(self, X, y=None, extra=None) -> Marginal | None:
        """The whitened model; None if the prior is not Gaussian given its scales.

        Args:
            X: The features, shape (n, p), as `prepare` returned them.
            y: The observations, as `prepare` returned them.
            extra: Other values that the likelihood needs for each row.

        Raises:
            ValueError: If y is missing.
        """
        if y is None:
            raise ValueError("y is missing: give the observations, one for each row of X.")
        return whitened(self, X, y, extra)

    def _check_separation(self, X, y, extra=None) -> None:
        """Raise ValueError if the posterior under a flat prior is improper."""
        likelihood = self.likelihood
        if likelihood.link_name == "softmax":
            raise ValueError(
                f"the posterior of {type(likelihood).__name__} under a flat prior is improper: "
                "adding a number to all outputs does not change the likelihood. Use "
                "prior=priors.Gaussian(scale)."
            )
        if likelihood.outputs is None and separated(
            self._flat_columns(X), *likelihood.vanishing_tails(np.asarray(y), **(extra or {}))
        ):
            rows = (
                "the classes"
                if likelihood.classifies
                else "the rows at a limit of y from the other rows"
            )
            raise ValueError(
                f"the features separate {rows}, so that under a flat prior the weights grow "
                "without bound. Use proper priors on weights and intercept, such as prior_sd=2.5."
            )

    def _flat_columns(self, X) -> np.ndarray:
        """The columns whose coefficients have a flat prior."""
        intercept = self.intercept
        if intercept is not None and not intercept.is_flat:
            # A proper prior of the intercept bounds eta at the center, so only deviations from the
            # center can separate the data.
            return X - np.asarray(intercept.center)
        columns = [np.ones((len(X), 1))] if intercept is not None else []
        return np.column_stack(columns if self.prior.proper else [*columns, X])
