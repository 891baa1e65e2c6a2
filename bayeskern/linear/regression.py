"""Bayesian linear regression."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable
from functools import partial, reduce
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.likelihoods import Gaussian, Likelihood
from bayeskern.linear.collapsed import (
    CollapsedModel,
    FromStatistics,
    condition,
    draw_coefficients,
    linear_gaussian,
    predictive_at,
)
from bayeskern.linear.conjugate import NormalInverseGamma
from bayeskern.linear.design import OpaqueStatic, as_opaque
from bayeskern.linear.model import LinearModel
from bayeskern.linear.prediction import linear_predictor, linear_predictors, thinned_draws
from bayeskern.linear.priors import MultivariateGaussian
from bayeskern.linear.statistics import RANK_TOL, SufficientStatistics, pooled, require_finite
from bayeskern.linear.whitened import whitened
from bayeskern.prediction.mixture import Mixture, Prediction, Quantiles, thin
from bayeskern.prediction.outputs import OutputsPrediction
from bayeskern.protocols import ClosedForm, Marginal, NoClosedFormError


class BayesianLinearRegression(LinearModel):
    """Linear regression with priors on the weights, the intercept and the noise.

    y ~ N(intercept + features(x)'weights, noise). It is itself a NumPyro model, model(X, y=None),
    whose sites are `intercept`, `weights`, and the hyperparameters of the prior and the noise.

    With Gaussian noise, the rows are read once, for their sufficient statistics. Weights that are
    Gaussian given the scales are integrated out in every inference method, and then drawn exactly.

    y may have k columns, which are outputs with a common X. Their weights and intercepts are
    independent given the common noise and prior, and X is factored once. The sites are then
    `weights` (k, p) and `intercept` (k,). Default priors use one sd of y, pooled over the columns,
    so scale columns of different units first. Several outputs need Gaussian noise and a prior that
    is Gaussian given its scales.

    Args:
        features: A scikit-learn transformer, or a transformer of `bayeskern.kernels` such as
            `NystromFeatures(kernel)`. By default the columns of X are the features. For a trainable
            network phi, use `GPRegression(kernel_from_features(phi, weights=...), noise)`.
        prior: The prior on the weights: one of `bayeskern.priors`, or a NumPyro distribution of
            each weight. N(0, (2.5 sd(y) / sd(x))^2) by default.
        prior_sd: In place of `prior`, the standard deviation of Gaussian weights: a number, one for
            each feature, a distribution or `Free`.
        noise: The distribution of y around the linear predictor, a likelihood such as
            `likelihoods.StudentT()` for robust regression. Gaussian by default, with a standard
            deviation that is Exponential with mean sd(y).
        noise_variance: In place of `noise`, the variance of Gaussian noise: a number, a
            distribution (`bk.from_sd` makes one from a prior on the sd) or `Free`.
        prior_covariance: In place of `prior`, the covariance matrix P of Gaussian weights, (p, p).
            `prior=MultivariateNormal(m, P)` also sets their mean.
        noise_covariance: In place of `noise`, the covariance matrix R of the noise of all n rows.
            New rows have no noise of their own then: predict with latent=True.
        intercept: True for the prior N(mean(y), (2.5 sd(y))^2) on the linear predictor at the mean
            of x; False for no intercept; or a NumPyro Normal or `priors.Flat()`, a prior on the
            linear predictor at x = 0.

    References:
        Bishop (2006), Pattern Recognition and Machine Learning, sections 3.3 and 3.5; Rasmussen
        and Williams (2006), section 2.1.1 and equation A.9, on full matrices.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.1, 2.9, 5.2, 6.8])
        >>> model = bk.BayesianLinearRegression(prior_sd=10.0, noise_variance=0.04)
        >>> posterior = bk.infer(model, x, y, method="exact", seed=0)
        >>> posterior.predict([4.0]).mean.round(1)
        array([8.8])
    """

    likelihood_argument: ClassVar[str] = "noise"

    features: OpaqueStatic = eqx.field(static=True, default=None, converter=as_opaque)
    #: the number of columns of y; None if y is (n,). Set by `prepare`
    outputs: int | None = eqx.field(static=True, default=None, kw_only=True)
    noise: Likelihood = eqx.field(default=None, converter=lambda v: _as_likelihood(v), kw_only=True)
    #: the variance of Gaussian noise, kept as `noise`
    noise_variance: dataclasses.InitVar[Any] = eqx.field(default=None, kw_only=True)
    #: the covariance of Gaussian weights, kept as `prior`
    prior_covariance: dataclasses.InitVar[Any] = eqx.field(default=None, kw_only=True)
    #: the covariance of all rows, kept as `noise` and `noise_root`
    noise_covariance: dataclasses.InitVar[Any] = eqx.field(default=None, kw_only=True)
    #: the lower Cholesky factor of C, where the covariance of the rows is noise * C
    noise_root: np.ndarray | None = eqx.field(default=None, kw_only=True)

    def __post_init__(self, prior_sd, noise_variance, prior_covariance, noise_covariance):
        if prior_covariance is not None:
            if prior_sd is not None or self.prior is not None:
                raise ValueError("prior_covariance, prior_sd and prior: give one of them.")
            self.prior = MultivariateGaussian(prior_covariance)
        super().__post_init__(prior_sd)
        if noise_variance is not None:
            self.noise = _gaussian_noise(noise_variance, self.noise)
        if noise_covariance is not None:
            if self.noise is not None:
                raise ValueError("noise_covariance, noise_variance and noise: give one of them.")
            root = validation.covariance_root(noise_covariance, "noise_covariance")
            ones = solve_triangular(root, np.ones(len(root)), lower=True)
            # With this noise 1'C^-1 1 = n, as for independent rows.
            noise = len(root) / (ones @ ones)
            self.noise, self.noise_root = Gaussian(noise), root / np.sqrt(noise)

    @property
    def is_gaussian(self) -> bool:
        """True if the noise is Gaussian."""
        return isinstance(self.noise, Gaussian)

    # -- data -------------------------------------------------------------------------------------

    def prepare(
        self, X: ArrayLike | None = None, y: ArrayLike | None = None, **extra
    ) -> tuple[Self, tuple]:
        """Compute features, check the data, set default priors: see `LinearModel.prepare`.

        Without X and y, the model is prepared for the rows given to `update`.
        """
        if not self.is_gaussian or (y is None and X is not None):
            return super().prepare(X, y, **extra)
        if X is None:
            if self.seen is None:
                raise ValueError("there are no data: give X and y, or call update first.")
            no_rows = np.zeros((0, len(self.seen.mean) - 1)), np.zeros(0)
            return self._prepared_with(SufficientStatistics.of(*no_rows)), no_rows
        model, features = self._read_features(X, extra)
        y = validation.outputs(y, len(features))
        outputs = y.shape[1] if y.ndim == 2 else None
        if outputs is not None and not (self.prior.gaussian and self.seen is None):
            raise ValueError(
                f"y has {outputs} columns. Several columns need a prior that is Gaussian given its "
                "scales, and a model without rows given to update. Fit each column of y by itself."
            )
        model = dataclasses.replace(model, outputs=outputs)
        if self.noise_root is None:
            return model._prepared_with(_summarize(features, y)), (features, y)
        self._require_rows(len(features))
        if outputs is not None:
            raise ValueError(
                f"noise_covariance takes one output, and y has {outputs} columns: fit each by "
                "itself."
            )
        validation.finite(features, "X")
        rows = features, np.asarray(y), np.asarray(self.noise_root)
        return model._prepared_with(SufficientStatistics.correlated(*rows)), (features, y)

    def observe(self, likelihood, X, weights, intercept, y, extra):
        """Sample y given features X and weights: with correlated noise, as one vector."""
        if self.noise_root is None:
            return super().observe(likelihood, X, weights, intercept, y, extra)
        self._require_rows(len(X))
        root = jnp.sqrt(likelihood.noise_variance) * self.noise_root  # pyright: ignore[reportArgumentType]
        eta = linear_predictor(X, weights, intercept)
        return numpyro.sample("y", dist.MultivariateNormal(eta, scale_tril=root), obs=y)

    def _require_rows(self, n: int) -> None:
        """Raise ValueError unless the noise covariance is that of n rows."""
        if self.noise_root is not None and len(self.noise_root) != n:
            raise ValueError(
                f"noise_covariance is the covariance of {len(self.noise_root)} rows, but X has {n}."
            )

    def update(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Condition the model on rows, which become part of its prior.

        Only the O(p^2) sufficient statistics of the rows are stored. A transformer is fitted to the
        rows of the first call. `bk.infer(model)` conditions on all rows given to `update`, and
        `bk.infer(model, X, y)` also on (X, y).

        Args:
            X: Inputs, shape (n,) or (n, d), or a data frame.
            y: Observations, shape (n,).

        Returns:
            The updated model.

        Raises:
            ValueError: If the noise is not Gaussian, the data are not finite numbers, or there are
                several outputs.

        Examples:
            >>> import bayeskern as bk
            >>> model = bk.BayesianLinearRegression(prior_sd=10.0, noise_variance=0.04)
            >>> model = model.update([0.0, 1.0], [1.1, 2.9]).update([2.0, 3.0], [5.2, 6.8])
            >>> bk.infer(model, method="exact").predict([4.0]).mean.round(1)
            array([8.8])
        """
        if not self.is_gaussian:
            raise ValueError(
                f"update needs Gaussian noise; {type(self.noise).__name__} noise has no sufficient "
                "statistics. Fit all rows at once."
            )
        if self.noise_root is not None:
            raise ValueError(
                "update needs rows that are independent given the weights, but noise_covariance "
                "relates all rows: fit them at once."
            )
        if self.outputs is not None:
            raise ValueError(
                f"update takes one output, and this model was prepared for {self.outputs}. Fit all "
                "rows at once, or each output by itself."
            )
        model, features = self._read_features(X, {})
        statistics = _summarize(features, validation.targets(y, len(features)))
        seen_before = self.statistics if self.prepared else self.seen
        seen = statistics if seen_before is None else seen_before.merge(statistics)
        return dataclasses.replace(model, seen=seen, statistics=None, prepared=False)

    def stream(self, chunks: Iterable) -> Self:
        """Condition the model on many chunks of rows, in O(p^2) memory.

        Args:
            chunks: An iterable of pairs (X, y), each given to `update` in turn.

        Returns:
            The updated model.
        """
        return reduce(lambda model, rows: model.update(*rows), chunks, self)

    def _read_features(self, X, extra: dict) -> tuple[Self, np.ndarray]:
        """Copy with a fitted design, and the features (n, p)."""
        design, features = self._design_and_features(X, "X")
        self.noise.read_extra(extra, len(features))
        return dataclasses.replace(self, design=OpaqueStatic(design)), features

    def _prepared_with(self, statistics: SufficientStatistics) -> Self:
        """Prepared copy for these rows and the rows given to `update`."""
        if self.seen is not None:
            statistics = self.seen.merge(statistics)
        means, sd = statistics.mean[self.size :], pooled(statistics.sds[self.size :])
        mean = float(max(means, key=abs))
        # The computed sd of a constant y may be a rounding error instead of 0.
        sd = sd if sd > 1e-14 * abs(mean) else 0.0
        assert isinstance(self.noise, Gaussian)
        noise = self.noise.with_default(sd, mean, int(statistics.n))
        sd = sd or max(abs(mean), 1.0)
        if hyper.is_specified(noise.noise) and self._fits_perfectly(statistics):
            warnings.warn(
                "the features fit y perfectly, so the posterior of the noise depends on its prior "
                "and rounding errors only. Check that y is not among the features, or give "
                "noise_variance a number.",
                UserWarning,
                stacklevel=2,
            )
        model = dataclasses.replace(self, noise=noise, statistics=statistics)
        location = mean if self.outputs is None else means
        return model._with_default_priors(location, sd)

    def _fits_perfectly(self, statistics: SufficientStatistics) -> bool:
        """True if there are more rows than weights and all residuals are rounding errors."""
        R = statistics.about_zero() if self.intercept is None else statistics.R
        p = self.size
        X, y = R[:, :p], R[:, p:]
        rounding = 1e-10 * np.linalg.norm(y)
        if statistics.n <= p + (self.intercept is not None) or np.any(np.abs(y[p:]) > rounding):
            return False
        # With collinear columns, residuals remain in the first rows of R as well.
        fitted = X @ np.linalg.lstsq(X, y, rcond=RANK_TOL)[0]
        return bool(np.linalg.norm(y - fitted) <= rounding)

    # -- the posterior ----------------------------------------------------------------------------

    def marginal(self, X, y, extra=None) -> Marginal | None:
        """The model with weights integrated out, or in whitened coordinates.

        Weights are integrated out under Gaussian noise and a prior that is Gaussian given its
        scales. Under Gaussian noise and another prior, the model keeps its weights and uses
        sufficient statistics. Under other noise, see `BayesianGLM.marginal`.

        Args:
            X: The features, shape (n, p), as `prepare` returned them.
            y: The observations, shape (n,) or (n, k), as `prepare` returned them.
            extra: Further values that the likelihood needs of each row.
        """
        if not self.is_gaussian:
            return whitened(self, X, y, extra)
        if not self.prior.gaussian:
            return Marginal(FromStatistics(self), (), _all_sites)
        collapsed, rows = CollapsedModel(self), linear_gaussian(self)
        return Marginal(collapsed, (rows,), partial(collapsed.recover, rows))

    def exact(self, X, y=None, extra=None) -> ClosedForm:
        """The posterior in closed form, if the scales and the noise are numbers.

        The noise may also have an InverseGamma prior, which is conjugate under `priors.Conjugate`
        or under flat priors on weights and intercept; the weights are then Student t.

        Args:
            X: The features, shape (n, p), as `prepare` returned them.
            y: The observations, shape (n,) or (n, k), as `prepare` returned them.
            extra: Further values that the likelihood needs of each row.

        Raises:
            NoClosedFormError: If there is no closed form, with the reason.

        References:
            Bishop (2006), equations 3.50-3.55; Gelman et al. (2013), section 14.2.
        """
        reason = self._why_not_exact()
        if y is None and self.seen is None:
            reason = "there is no y"
        if reason:
            raise NoClosedFormError(
                f"the posterior of this linear regression has no closed form: {reason}. Use "
                "method='auto'."
            )
        if hyper.is_specified(self.noise.noise_variance):
            return NormalInverseGamma.of(self).closed_form()
        collapsed, rows = CollapsedModel(self), linear_gaussian(self)
        scales, posterior, log_evidence = condition(collapsed, rows, {})

        def draw(key, n):
            return collapsed.sites(draw_coefficients(posterior, key, n))

        marginals = {
            name: dist.Normal(mean, jnp.sqrt(variance))
            for name, (mean, variance) in collapsed.moments_of_sites(posterior).items()
        }
        residual = rows.residual(posterior.mean, *scales)
        return ClosedForm(draw, float(log_evidence), residual, marginals)

    def _why_not_exact(self) -> str | None:
        if not self.is_gaussian:
            return f"{type(self.noise).__name__} noise is not Gaussian"
        if not self.prior.gaussian:
            return f"a {type(self.prior).__name__} prior is not Gaussian"
        scales = self.prior.hyperparameters().values()
        if any(map(hyper.is_specified, scales)) or self.prior.has_latents:
            return f"the scales of the {type(self.prior).__name__} prior are to be inferred"
        noise = self.noise.noise_variance
        if not hyper.is_specified(noise):
            return None
        if type(noise) is not dist.InverseGamma:
            return "the noise is to be inferred, and its prior is not InverseGamma"
        flat = not self.prior.proper and (self.intercept is None or self.intercept.is_flat)
        if not (self.prior.per_noise or flat):
            return "the weights are not in units of the noise: take priors.Conjugate"
        return None

    # -- prediction -------------------------------------------------------------------------------

    def predictive(
        self,
        draws: dict,
        data: tuple,
        X_new: ArrayLike,
        latent: bool = False,
        seed: int = 0,
        **extra,
    ) -> Quantiles:
        """Predict new observations at X_new: see `LinearModel.predictive` for the arguments.

        Gaussian weights are integrated out exactly given the scales. Noise with a conjugate prior
        is integrated out as well: the prediction is then Student t and does not depend on the
        draws.

        Returns:
            A `Prediction`; a `ClosedFormPrediction` if the noise is conjugate, an
            `OutputsPrediction` if y has several columns, a `ResponsePrediction` if the noise is not
            Gaussian.
        """
        if not self.is_gaussian:
            return super().predictive(draws, data, X_new, latent, seed, **extra)
        if self.noise_root is not None and not latent:
            raise ValueError(
                "noise_covariance is the noise of the rows of the fit, and does not tell that of "
                "new rows: predict with latent=True, and add the variance of the new noise."
            )
        X = self.fitted_design(X_new)
        self.noise.read_extra(extra, len(X))
        draws = {name: jnp.asarray(value) for name, value in draws.items()}
        if not self.prior.gaussian:
            indices = thinned_draws(len(draws["weights"]), len(X))
            draws = {name: value[indices] for name, value in draws.items()}
            noise = 0.0 if latent else draws.get("noise", self.noise.noise_variance)
            return _predict_from_weights(X, draws, noise)
        # With several outputs, the output index runs fastest.
        prediction: Any
        if len(draws["weights"]) > 1 and "noise" in draws and not self._why_not_exact():
            prediction = NormalInverseGamma.of(self).predict(X, latent)
        else:
            scales = {k: v for k, v in draws.items() if k not in ("weights", "intercept")}
            model = CollapsedModel(self), linear_gaussian(self)
            conditional_at = eqx.Partial(predictive_at, *model, latent)
            prediction = Mixture(conditional_at, thin(scales), X, X.shape[1])
        return prediction if self.outputs is None else OutputsPrediction(prediction, self.outputs)


def _all_sites(draws, key, mean):
    """Sites of the full model from draws that have them all."""
    return draws


def _summarize(features, y) -> SufficientStatistics:
    """The sufficient statistics of these rows."""
    statistics = SufficientStatistics.of_shares(features, np.asarray(y))
    require_finite(statistics, features)
    return statistics


def _predict_from_weights(X, draws, noise) -> Prediction:
    """Equal mixture of N(eta, noise) over draws of the weights."""
    eta = np.asarray(linear_predictors(X, draws["weights"], draws.get("intercept")))
    variances = np.broadcast_to(np.reshape(noise, (-1, 1)), eta.shape)
    return Prediction.of(eta, variances, partial(_draw_new, eta, variances))


def _draw_new(eta, variances, key, size):
    """Joint draws of new observations from S means and variances (S, m): (size, m)."""
    key_order, key_errors = jax.random.split(key)
    # Every draw is used once before any is used twice.
    order = np.asarray(jax.random.permutation(key_order, len(eta)))
    indices = order[np.arange(size) % len(eta)]
    errors = np.asarray(jax.random.normal(key_errors, (size, eta.shape[1])))
    return eta[indices] + np.sqrt(variances[indices]) * errors


def _as_likelihood(noise) -> Likelihood:
    """Read `noise`: a likelihood or None."""
    if noise is None:
        return Gaussian()
    if isinstance(noise, Likelihood):
        if noise.outputs is not None or noise.classifies or noise.link_name != "identity":
            raise ValueError(
                f"noise={noise!r} is not a distribution of y around the linear predictor; use "
                "bk.BayesianGLM(likelihood)."
            )
        return noise
    raise TypeError(
        f"noise must be one of bayeskern.likelihoods, got {type(noise).__name__}. For the variance "
        "of Gaussian noise write noise_variance=0.5."
    )


def _gaussian_noise(variance, noise) -> Gaussian:
    """Read `noise_variance`; raise ValueError if `noise` is given too."""
    if noise is not None:
        raise ValueError(
            "noise and noise_variance both set the noise: give one of them. noise_variance=0.5 is "
            "short for noise=likelihoods.Gaussian(0.5)."
        )
    if isinstance(variance, Likelihood):
        raise TypeError(
            f"noise_variance is the variance of Gaussian noise. Write noise={variance!r}."
        )
    variance = hyper.as_hyperparameter(variance, "noise_variance")
    hyper.check("noise_variance", variance, dist.constraints.positive)
    return Gaussian(variance)
