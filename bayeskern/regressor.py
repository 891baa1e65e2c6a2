"""Gaussian process regression as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.gp import ConditionedGP, GaussianProcess, GPRegression
from bayeskern.gp.outputs import OutputsPredictive
from bayeskern.gp.posterior import ProcessPredictive
from bayeskern.gp.regression_predictive import condition_columns, join
from bayeskern.inference import MAP, Auto, Method, Posterior, Trust, as_method, infer
from bayeskern.kernels import Kernel
from bayeskern.kernels.estimator import KernelEstimator
from bayeskern.kernels.families.rbf import RBF
from bayeskern.kernels.gram_matrix import padded
from bayeskern.prediction.mixture import Mixture, Prediction, thin
from bayeskern.prediction.outputs import OutputsPrediction

type RandomState = int | np.random.RandomState | None


@dataclass(eq=False, repr=False)
class GPRegressor(MultiOutputMixin, RegressorMixin, KernelEstimator):
    """Gaussian process regression as a scikit-learn estimator.

    y = f(X) + e with f ~ GP(mean, kernel) and e ~ N(0, noise), as in `GPRegression`. The
    hyperparameters say what `fit` does: numbers are kept, `Free(start)` is estimated as by
    `GaussianProcessRegressor`, and predictions average over hyperparameters that have priors.

    `predict` and `sample_y` describe the function f, as in `GaussianProcessRegressor`: noise counts
    only as a kernel `White`. `posterior_.predict(X)` describes new observations.

    Args:
        kernel: Covariance function, in the units of X and the squared units of y; None means
            `RBF()`. Its hyperparameters, like `noise` and `mean`, are numbers, NumPyro
            distributions (their priors) or `Free(start)`.
        noise: Variance of the noise: a number, a prior or `Free`; an array (n,), a known variance
            for each row; or a kernel for the log variance. With numbers, the mean is that of
            `KernelRidge(kernel, alpha=noise)`.
        mean: Prior mean of y: a number, a prior, `Free`, or a function of one point. y is not
            normalised: if its mean is far from 0, take `Free(0.0)`, or add a `Constant` to the
            kernel.
        method: Name of a method of `bk.infer`, or an object such as `MLE(starts=8)`. "auto" takes
            "map" if there are `Free` hyperparameters, which is maximum marginal likelihood if all
            of them are free; and otherwise the cheapest method with a good verdict. Without
            hyperparameters to infer, the posterior has a closed form and `method` is not used.
        solver: Solver of the covariance matrix, as for `GaussianProcess`.
        random_state: Seed of the inference: a number, a `RandomState` or None.

    Attributes:
        kernel_: The kernel with its fitted hyperparameters, their posterior means if they are
            averaged over. `kernel_.hyperparameters()` has them by name.
        noise_: The noise, in the same way.
        mean_: The prior mean, in the same way.
        X_train_: Points, (n, d).
        y_train_: Targets, (n,) or (n, k).
        posterior_: The posterior, as `bk.infer` returns it.
        trust_: Verdict on the posterior.
        log_marginal_likelihood_value_: log p(y | kernel_, noise_, mean_), summed over the columns
            of y.
        n_features_in_: Number of columns of X.
        feature_names_in_: Names of the columns of X, if they are strings.

    References:
        Rasmussen and Williams (2006), "Gaussian Processes for Machine Learning", algorithm 2.1.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF, Free
        >>> X = np.linspace(0.0, 6.0, 30)[:, None]
        >>> y = 3.0 * np.sin(X[:, 0])
        >>> kernel = RBF(lengthscale=Free(1.0), variance=Free(1.0))
        >>> gp = bk.GPRegressor(kernel, noise=0.01).fit(X, y)
        >>> mean, sd = gp.predict([[1.5], [4.7]], return_std=True)
        >>> mean.round(1)
        array([ 3., -3.])
        >>> print(gp.kernel_.hyperparameters()["lengthscale"].round(0))
        2.0
    """

    kernel: Kernel | None = None
    noise: Any = 1.0
    _: KW_ONLY
    mean: Any = 0.0
    method: str | Method = "auto"
    solver: str = "auto"
    random_state: RandomState = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the process to data.

        Args:
            X: Points, (n, d), or a data frame.
            y: Targets, (n,), or (n, k) for k independent outputs with the same hyperparameters.

        Returns:
            The estimator.

        Raises:
            ValueError: If X, y or an option is invalid, or the method does not apply.
            TypeError: If `kernel` is not a bayeskern kernel.
            NotPositiveDefiniteError: If the covariance cannot be factored: add noise.
        """
        X, y = self._read_data(X, y, multi_output=True, y_numeric=True, copy=True)
        method, seed = as_method(self.method), _seed(self.random_state)
        if isinstance(self.noise, Mapping):
            raise ValueError(
                "noise must be one variance, its prior, an array or a kernel, got a dict: the "
                "groups of its rows are data of GPRegression, bk.infer(model, X, y, groups=...)."
            )
        model = GPRegression(
            RBF() if self.kernel is None else self.kernel,
            self.noise,
            self.mean,
            solver=self.solver,
        )
        names = getattr(self, "feature_names_in_", None)
        model = model.resolve(None if names is None else tuple(map(str, names)))
        model, data = model.prepare(X, y.astype(float))
        posterior, fitted, gps = None, model, None
        unknown = [v for v in model.hyperparameters().values() if hyper.is_specified(v)]
        if unknown:
            if isinstance(method, Auto) and any(isinstance(v, hyper.Free) for v in unknown):
                method = MAP()
            posterior = infer(model, *data, method=method, seed=seed, progress=False)
            fitted = model.at(posterior.point("mean"))
        if posterior is None or posterior.is_point:
            # Conditioned once, for all predictions.
            gps = _condition(fitted.process(data[0]), data[1])
        self._model, self._data, self._seed = model, data, seed
        self._posterior, self._fitted, self._gps = posterior, fitted, gps
        self.kernel_, self.noise_, self.mean_ = fitted.kernel, fitted.noise, fitted.mean
        self.X_train_, self.y_train_ = X, np.asarray(data[1])
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False, return_cov: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict f: its mean, and its standard deviations or covariance.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.
            return_std: True to return the standard deviation of f at each point, too.
            return_cov: True to return the joint covariance of f at all points, too.

        Returns:
            Means, (m,) or (m, k); with `return_std`, the pair of means and standard deviations of
            the same shape; with `return_cov`, the pair of means and covariance, (m, m) or
            (m, m, k).

        Raises:
            ValueError: If both are requested, or X is invalid.
        """
        if return_std and return_cov:
            raise ValueError(
                "return_std and return_cov cannot both be True: the standard deviations are the "
                "roots of the diagonal of the covariance."
            )
        points = self._read_points(X)
        m, f = len(points), self._function(padded(points))
        if return_cov:
            covariance = self._covariance(points)
            return f.mean[:m], covariance
        # Standard deviations first: they compute the mean, too.
        sd = f.sd[:m] if return_std else None
        return f.mean[:m] if sd is None else (f.mean[:m], sd)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = 0
    ) -> np.ndarray:
        """Draw functions f from the posterior, at X.

        Args:
            X: Points, (m, d), with the columns that `fit` saw.
            n_samples: Number of draws.
            random_state: Seed of the draws: a number, a `RandomState` or None.

        Returns:
            Joint draws, (m, n_samples) or (m, k, n_samples).

        Raises:
            ValueError: If an argument is invalid.
        """
        points = self._read_points(X)
        validation.positive_integer(n_samples, "n_samples")
        draws = self._function(points).sample(n_samples, _seed(random_state))
        return np.moveaxis(draws, 0, -1)

    @property
    def posterior_(self) -> Posterior:
        """The posterior; in closed form if there were no hyperparameters to infer."""
        check_is_fitted(self)
        if self._posterior is None:
            # Predictions do not need its draws of f.
            options = {"method": "exact", "seed": self._seed, "progress": False}
            self._posterior = infer(self._model, *self._data, **options)
        return self._posterior

    @property
    def trust_(self) -> Trust:
        """Verdict on the posterior, and the evidence for it."""
        return self.posterior_.trust

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """log p(y | kernel_, noise_, mean_), summed over the columns of y."""
        check_is_fitted(self)
        return float(np.sum(self._fitted.process(self.X_train_).log_prob(self.y_train_.T)))

    def _function(self, X: np.ndarray) -> Prediction | OutputsPrediction:
        """Distribution of f at X (m, d)."""
        if self._gps is None:
            return self._model.predictive(self._draws(), self._data, X, latent=True)
        f = Mixture(eqx.Partial(_function_at, self._gps), {}, X, len(self.X_train_))
        return f if self.y_train_.ndim == 1 else OutputsPrediction(f, len(self._gps))

    def _draws(self) -> dict[str, jax.Array]:
        """Draws of the hyperparameters that predictions average over."""
        names = self._model.hyperparameters()
        return thin({name: v for name, v in self.posterior_.flat.items() if name in names})

    def _covariance(self, X: np.ndarray) -> np.ndarray:
        """Joint covariance of f at X (m, d): (m, m), or (m, m, k)."""
        m, outputs = len(X), self.y_train_.shape[1:]
        if self._gps is not None:
            within, means = self._gps[0].covariance(X), np.zeros((1, m, *outputs))
        else:
            points = jnp.asarray(X)
            within, means = _covariance_and_means(self._model, self._draws(), self._data, points)
        # Law of total covariance; the covariance at one draw is the same for all outputs.
        deviations = np.asarray(means - np.mean(means, axis=0)).reshape(len(means), m, -1)
        between = np.einsum("sik,sjk->ijk", deviations, deviations) / len(means)
        return (np.asarray(within)[:, :, None] + between).reshape(m, m, *outputs)


def _seed(random_state: RandomState) -> int:
    """Seed for a `random_state`: the number itself, or a number drawn from a generator."""
    if isinstance(random_state, Integral):
        return validation.seed(random_state)
    return int(check_random_state(random_state).randint(2**32, dtype=np.uint32))


_condition_jit = eqx.filter_jit(condition_columns)


def _condition(process: GaussianProcess, y: jax.Array) -> tuple[ConditionedGP, ...]:
    """Condition a process on each column of y, in one compiled program."""
    gps = _condition_jit(process, y)
    # Compiled code cannot raise NotPositiveDefiniteError.
    return gps if jnp.all(jnp.isfinite(gps[0].weights)) else condition_columns(process, y)


def _function_at(
    gps: tuple[ConditionedGP, ...], draw: dict, X: jax.Array
) -> ProcessPredictive | OutputsPredictive:
    """Distribution of f at X (m, d), given a process for each output; `draw` is empty."""
    zero = jnp.zeros(())
    return join([ProcessPredictive(gp, None, X, gp.new_mean(None, X), zero) for gp in gps])


@eqx.filter_jit
def _covariance_and_means(
    model: GPRegression, draws: dict, data: tuple, X: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Covariance of f at X averaged over S draws, (m, m), and means at each draw, (S, m k)."""

    def add(total, draw):
        gps = condition_columns(model.at(draw).process(data[0]), data[1])
        return total + gps[0].covariance(X), _function_at(gps, {}, X).mean()

    total, means = jax.lax.scan(add, jnp.zeros((len(X), len(X))), draws)
    return total / len(means), means
