"""Bayesian linear regression."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.likelihoods import Gaussian, Likelihood
from bayeskern.linear.collapsed import (
    Collapsed,
    Sufficient,
    coefficients,
    conditional,
    joint,
    moments,
    system_of,
)
from bayeskern.linear.conjugate import Conjugate
from bayeskern.linear.design import Aside
from bayeskern.linear.model import RANK, LinearModel, etas, kept, require_finite
from bayeskern.linear.statistics import Statistics
from bayeskern.linear.whitened import rotated
from bayeskern.prediction.mixture import Prediction, spread, thin
from bayeskern.protocols import ClosedForm, Marginal, NoClosedFormError

# Where the sd of y is below this share of its size, y is constant.
ROUNDING = 1e-14
# A fit that leaves no more than this share of y is perfect.
PERFECT = 1e-10


class BayesianLinearRegression(LinearModel):
    """y ~ N(intercept + features(x)'weights, noise), itself a NumPyro model: model(X, y=None).

    features: None, a scikit-learn transformer, or one of ours (`kernels.NystromFeatures`, ...).
    prior: on the weights, one of `bayeskern.priors`, a NumPyro distribution of each weight, or an
    sd; by default N(0, (2.5 sd(y) / sd(x))^2). noise: the variance, as a number, a distribution or
    `Free` (by default its root is Exponential with mean sd(y)); or a likelihood, such as
    `likelihoods.StudentT()`, for robust regression. intercept: True for a prior around the data,
    N(mean(y), (2.5 sd(y))^2) where x is at its mean; False; or a NumPyro Normal, at x = 0.

    Gaussian noise needs the rows only once, for their sufficient statistics. Weights that are
    Gaussian given the scales are integrated out, whatever the method, and drawn exactly. Bishop
    (2006), sections 3.3 and 3.5.
    """

    noise_name: ClassVar[str] = "noise"

    features: Aside = eqx.field(
        static=True, default=None, converter=lambda f: f if isinstance(f, Aside) else Aside(f)
    )
    noise: Likelihood = eqx.field(default=None, converter=lambda v: _as_likelihood(v), kw_only=True)

    @property
    def is_gaussian(self) -> bool:
        return isinstance(self.noise, Gaussian)

    # -- data -------------------------------------------------------------------------------------

    def prepare(self, X=None, y=None, **extra):
        if not self.is_gaussian or (y is None and X is not None):
            return super().prepare(X, y, **extra)
        if X is None:
            return self._from_seen()
        model, made, y = self._read(X, y, extra)
        statistics = Statistics.of(made, np.asarray(y))
        require_finite(statistics, made)
        return model._knowing(statistics), (made, y)

    def update(self, X, y) -> BayesianLinearRegression:
        """A model that has seen these rows too: the posterior given them is its prior.

        Of the rows only O(p^2) numbers are kept. Features that have to be learnt are learnt from
        the first rows. `bk.infer(model)` takes what was seen, `bk.infer(model, X, y)` that and
        more. Raises ValueError where the noise is not Gaussian.
        """
        if not self.is_gaussian:
            raise ValueError(
                f"update needs Gaussian noise; {type(self.noise).__name__} has no sufficient "
                "statistics. Fit all rows at once."
            )
        model, made, y = self._read(X, y, {})
        statistics = Statistics.of(made, np.asarray(y))
        require_finite(statistics, made)
        before = self.statistics if self.prepared else self.seen
        seen = statistics if before is None else before.merge(statistics)
        return dataclasses.replace(model, seen=seen, statistics=None, prepared=False)

    def stream(self, chunks: Iterable) -> BayesianLinearRegression:
        """`update` with each (X, y) of an iterator, in O(p^2) memory."""
        model = self
        for X, y in chunks:
            model = model.update(X, y)
        return model

    def _read(self, X, y, extra):
        design, made = self._designed(X, "X")
        self.noise.read_extra(extra, len(made))
        # Not by the likelihood, since what was seen before has a say in default priors too.
        y = validation.targets(y, len(made))
        return dataclasses.replace(self, design=Aside(design)), made, y

    def _from_seen(self):
        if self.seen is None:
            raise ValueError(
                "there are no data: give X and y, or a model that update has shown some."
            )
        p = len(self.seen.mean) - 1
        nothing = np.zeros((0, p)), np.zeros(0)
        return self._knowing(Statistics.of(*nothing)), nothing

    def _knowing(self, statistics: Statistics) -> BayesianLinearRegression:
        """Prepared, with these rows beside those that were seen."""
        if self.seen is not None:
            statistics = self.seen.merge(statistics)
        level, sd = float(statistics.mean[-1]), float(statistics.sds[-1])
        # A constant y has no scale of its own, but for what rounding leaves.
        sd = sd if sd > ROUNDING * abs(level) else 0.0
        noise = self.noise.with_default(sd, level, int(statistics.n))
        sd = sd or max(abs(level), 1.0)
        if hyper.is_specified(noise.noise) and self._fits_perfectly(statistics):
            warnings.warn(
                "the features fit y perfectly, so that the data say nothing of the noise but that "
                "it is next to 0: its posterior follows from its prior and from rounding. Is y, or "
                "what it was made of, among the features? Else give the noise as a number.",
                UserWarning,
                stacklevel=2,
            )
        model = dataclasses.replace(self, noise=noise, statistics=statistics)
        return model._with_priors(statistics, level, sd, self.design.value.names)

    def _fits_perfectly(self, statistics: Statistics) -> bool:
        """Whether nothing of y is left but rounding, though there are more rows than weights."""
        R = statistics.about_zero() if self.intercept is None else statistics.R
        p = R.shape[1] - 1
        least = PERFECT * np.linalg.norm(R[:, p])
        if statistics.n <= p + (self.intercept is not None) or np.any(np.abs(R[p:, p]) > least):
            return False
        # Where columns are collinear R alone does not tell.
        fitted = R[:, :p] @ np.linalg.lstsq(R[:, :p], R[:, p], rcond=RANK)[0]
        return bool(np.linalg.norm(R[:, p] - fitted) <= least)

    # -- what it knows of its posterior -----------------------------------------------------------

    def marginal(self, X, y, extra=None) -> Marginal | None:
        """The model without its weights, or with better axes for them; see `infer`."""
        if not self.is_gaussian:
            return rotated(self, X, y, extra)
        if not self.prior.gaussian:
            return Marginal(Sufficient(self), (), lambda draws, key, mean: draws)
        own, system = Collapsed(self), system_of(self)

        def recover(draws, key, mean):
            return own.recover(system, draws, key, mean)

        return Marginal(own, (system,), recover)

    def exact(self, X, y=None, extra=None) -> ClosedForm:
        """The posterior, where the scales are numbers and the noise is one too or conjugate.

        Conjugate: an InverseGamma noise with `priors.Conjugate` or flat weights; then the weights
        are Student t. Raises NoClosedFormError, with the reason, elsewhere. Bishop (2006),
        equations 3.50-3.55; Gelman et al. (2013), section 14.2.
        """
        reason = self._why_not_exact()
        if y is None and self.seen is None:
            reason = "there is no y"
        if reason:
            raise NoClosedFormError(
                f"the posterior of this linear regression has no closed form: {reason}. Take "
                "method='auto'."
            )
        if hyper.is_specified(self.noise.noise):
            return Conjugate.of(self).closed_form()
        collapsed, system = Collapsed(self), system_of(self)
        scales, given, evidence = conditional(collapsed, system, {})

        def draw(key, n):
            return collapsed.coefficients(coefficients(given, key, n))

        return ClosedForm(draw, float(evidence), system.residual(given.mean, *scales))

    def _why_not_exact(self) -> str | None:
        if not self.is_gaussian:
            return f"{type(self.noise).__name__} noise is not Gaussian"
        if not self.prior.gaussian:
            return f"a {type(self.prior).__name__} prior is not Gaussian"
        inferred = [n for n, v in self.prior.hyperparameters().items() if hyper.is_specified(v)]
        if inferred or self.prior.has_latents:
            return f"the scales of the {type(self.prior).__name__} prior are to be inferred"
        noise = self.noise.noise
        if not hyper.is_specified(noise):
            return None
        if type(noise) is not dist.InverseGamma:
            return "the noise is to be inferred, and its prior is not InverseGamma"
        level = self.intercept
        if not (self.prior.per_noise or (not self.prior.proper and (not level or level.is_flat))):
            return "the weights are not in units of the noise: take priors.Conjugate"
        return None

    # -- prediction -------------------------------------------------------------------------------

    def predictive(
        self, draws: dict, data: tuple, X_new, latent: bool = False, seed: int = 0, **extra
    ):
        """New observations at X_new, or with `latent` the linear predictor: a Prediction.

        Given the scales the weights are averaged over exactly, where they are Gaussian; where the
        noise is conjugate the noise too, and the prediction is Student t, whatever the draws. With
        other noise it is a ResponsePrediction.
        """
        if not self.is_gaussian:
            return super().predictive(draws, data, X_new, latent, seed, **extra)
        X = self.design.value(X_new)
        self.noise.read_extra(extra, len(X))
        draws = {name: jnp.asarray(value) for name, value in draws.items()}
        if not self.prior.gaussian:
            rows = kept(len(draws["weights"]), len(X))
            draws = {name: value[rows] for name, value in draws.items()}
            return _of_draws(X, draws, 0.0 if latent else draws.get("noise", self.noise.noise))
        if len(draws["weights"]) > 1 and "noise" in draws and not self._why_not_exact():
            return Conjugate.of(self).predict(X, latent)
        own, system = Collapsed(self), system_of(self)
        scales = {k: v for k, v in draws.items() if k not in ("weights", "intercept")}
        # A model without scales to infer has one, empty draw.
        scales = thin(scales) or {"": jnp.zeros(1)}
        count = len(next(iter(scales.values())))

        def parts():
            return moments(own, system, scales, X, latent)

        def draw(key, size):
            def each(key, number):
                return joint(own, system, scales, X, latent, key, number)

            return spread(each, count, key, size)

        return Prediction(lambda: parts()[0], parts, draw)


def _of_draws(X, draws, noise) -> Prediction:
    """A Gaussian around the linear predictor at each draw of the weights."""
    eta = np.asarray(etas(X, draws["weights"], draws.get("intercept")))
    variances = np.broadcast_to(np.reshape(noise, (-1, 1)), eta.shape)

    def draw(key, size):
        rows, own = jax.random.split(key)
        # None twice before all were taken.
        rows = np.asarray(jax.random.permutation(rows, len(eta)))[np.arange(size) % len(eta)]
        white = np.asarray(jax.random.normal(own, (size, eta.shape[1])))
        return eta[rows] + np.sqrt(variances[rows]) * white

    return Prediction(lambda: eta, lambda: (eta, variances), draw)


def _as_likelihood(noise) -> Likelihood:
    """Noise as a likelihood: a variance is that of a Gaussian."""
    if isinstance(noise, Likelihood):
        if noise.outputs is not None or noise.classifies or noise.link_name != "identity":
            raise ValueError(
                f"noise={noise!r} is no noise around a line; take bk.BayesianGLM(likelihood)."
            )
        return noise
    if noise is not None:
        hyper.check("noise", hyper.as_hyperparameter(noise), dist.constraints.positive)
    return Gaussian(noise)
