"""Gaussian process regression with priors on the hyperparameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Self

import equinox as eqx
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike as JaxArrayLike
from numpy.typing import ArrayLike
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.gp.outputs import IndependentProcesses, OutputsPredictive
from bayeskern.gp.posterior import ConditionedGP, ProcessPredictive
from bayeskern.gp.prior import (
    Inputs,
    evaluate_mean,
    is_function,
    mean_function,
    new_points,
    positive_definite,
)
from bayeskern.gp.process import GaussianProcess
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import component_names
from bayeskern.linalg import SOLVERS, Solver, solver_of
from bayeskern.prediction.mixture import Prediction, mixture, thin
from bayeskern.prediction.outputs import OutputsPrediction
from bayeskern.protocols import ClosedForm, NewValues, NoClosedFormError


class GPRegression(eqx.Module):
    """Gaussian process regression with priors: y = f(X) + e, f ~ GP(mean, kernel), e ~ N(0, noise).

    It is itself a NumPyro model, model(X, y=None, mask=None). The latent function is integrated
    out: the sites are the hyperparameters of the kernel by their dotted names, `noise`, `mean` and
    the observed `y`. Predictions average over at most 200 evenly thinned draws.

    The columns of y (n, k) are independent outputs with the same kernel, noise and mean, and share
    one factor of their covariance. For correlated outputs, stack them as rows of one y, and give
    `kernels.Coregion` a column of X with the index of the output.

    Args:
        kernel: Covariance function. Its hyperparameters, like `noise` and `mean`, are numbers,
            NumPyro distributions (their priors) or `Free(init)` (estimated without a prior).
        noise: Variance of the noise. `bk.from_sd` turns a prior on the sd into a prior on it.
        mean: Prior mean: a number, a distribution, `Free`, or a function of one point.
        solver: Solver of the covariance matrix, as for `GaussianProcess`; `prepare` resolves
            "auto".
        columns: Columns of the data frame of the fit; set by `prepare`.
        outputs: Number of columns of y; None if y is (n,). Set by `prepare`.

    Raises:
        TypeError: If `kernel` is not a Kernel.
        ValueError: If the kernel is not positive definite by construction, the noise is negative,
            or a hyperparameter of the kernel is called `noise`, `mean` or `y`.

    References:
        Rasmussen and Williams (2006), chapters 2 and 5.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> from bayeskern.kernels import RBF
        >>> X = np.linspace(0.0, 4.0, 9)
        >>> model = bk.GPRegression(RBF(lengthscale=1.0), noise=0.01)
        >>> posterior = bk.infer(model, X, np.sin(X), method="exact", seed=0)
        >>> posterior.predict([2.2], latent=True).mean.round(1)
        array([0.8])
    """

    kernel: Kernel = eqx.field(converter=positive_definite)
    noise: Array = eqx.field(converter=hyper.as_hyperparameter)
    mean: Array | Callable = eqx.field(default=0.0, converter=mean_function)
    solver: str = eqx.field(static=True, default="auto", kw_only=True)
    #: columns of the data frame of the fit; new points need the same columns
    columns: tuple[str, ...] | None = eqx.field(static=True, default=None, kw_only=True)
    #: number of columns of y; None if y is (n,)
    outputs: int | None = eqx.field(static=True, default=None, kw_only=True)
    #: solver prepared for X by `prepare`
    prepared: Solver | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        hyper.check("noise", self.noise, constraints.nonnegative)
        validation.one_of("solver", self.solver, ("auto", *SOLVERS))
        clash = {"noise", "mean", "y"} & set(self.kernel.hyperparameters())
        if clash:
            raise ValueError(f"the kernel has a hyperparameter called {clash.pop()!r}; rename it.")

    def __call__(
        self, X: Inputs, y: JaxArrayLike | None = None, mask: ArrayLike | None = None
    ) -> JaxArrayLike:
        kernel = hyper.sample(self.kernel)
        noise = hyper.sample_value("noise", self.noise, constraints.nonnegative)
        mean = self.mean
        if not is_function(mean):
            mean = hyper.sample_value("mean", mean, constraints.real)
        process = GaussianProcess(kernel, X, noise, mean, mask, self.prepared or self.solver)
        return numpyro.sample("y", self._distribution_of_y(process), obs=y)

    def __repr__(self) -> str:
        mean = self.mean if is_function(self.mean) else hyper.show(self.mean)
        return f"GPRegression({self.kernel!r}, noise={hyper.show(self.noise)}, mean={mean})"

    def prepare(
        self, X: Inputs, y: ArrayLike | None = None, mask: ArrayLike | None = None
    ) -> tuple[Self, tuple]:
        """Check the data and resolve column names, before any tracing.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame.
            y: Observations, shape (n,), or (n, k) for k outputs; None if there are none.
            mask: Shape (n,), True where y is observed.

        Returns:
            The model for these columns, and its arguments (X, y) or (X, y, mask).
        """
        points, columns = validation.inputs(X)
        targets = None if y is None else validation.outputs(y, points.shape[0])
        observed = () if mask is None else (jnp.asarray(mask, bool),)
        args = points, targets, *observed
        return self._prepared_for(columns, *args), args

    def resolve(self, columns: tuple[str, ...] | None) -> Self:
        """Copy for data frames with these columns."""
        return dataclasses.replace(self, kernel=self.kernel.resolve(columns), columns=columns)

    def restore(
        self, args: tuple, columns: tuple[str, ...] | None, classes: tuple | None
    ) -> tuple[Self, tuple]:
        """Prepare the model again from saved arguments; `bk.load` calls it."""
        return self._prepared_for(columns, *args), args

    def _prepared_for(
        self,
        columns: tuple[str, ...] | None,
        X: Array,
        y: Array | None,
        observed: Array | None = None,
    ) -> Self:
        """Copy for these data, with the solver chosen before any tracing."""
        model = self.resolve(columns)
        solver = solver_of(model.kernel, X, self.solver, self.noise, observed)
        outputs = None if y is None or y.ndim == 1 else y.shape[1]
        return dataclasses.replace(model, prepared=solver, outputs=outputs)

    def at(self, values: dict) -> Self:
        """Copy with the given hyperparameters set.

        Args:
            values: Values by the names of their sites.

        Returns:
            The copy.

        Raises:
            ValueError: If a name is unknown.
        """
        noise_and_mean = {name: values[name] for name in ("noise", "mean") if name in values}
        kernel = self.kernel.at({k: v for k, v in values.items() if k not in noise_and_mean})
        return dataclasses.replace(self, kernel=kernel, **noise_and_mean)

    def condition(self, X: Inputs, y: ArrayLike, mask: ArrayLike | None = None) -> ConditionedGP:
        """Condition on data, if every hyperparameter is a number.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame.
            y: Observations, shape (n,).
            mask: Shape (n,), True where y is observed.

        Returns:
            The conditioned process.
        """
        return self.process(X, mask).condition(y)

    def process(self, X: Inputs, mask: ArrayLike | None = None) -> GaussianProcess:
        """Distribution of one output, for a model whose hyperparameters are all numbers."""
        solver = self.prepared or self.solver
        return GaussianProcess(self.kernel, X, self.noise, self.mean, mask, solver)

    def _distribution_of_y(
        self, process: GaussianProcess
    ) -> GaussianProcess | IndependentProcesses:
        return process if self.outputs is None else IndependentProcesses(process, self.outputs)

    def exact(
        self, X: Array, y: ArrayLike | None = None, mask: ArrayLike | None = None
    ) -> ClosedForm:
        """Posterior of the latent function `f` at X, if every hyperparameter is a number.

        Args:
            X: Inputs, shape (n, d).
            y: Observations, shape (n,), or (n, k) for k outputs.
            mask: Shape (n,), True where y is observed.

        Returns:
            The posterior in closed form.

        Raises:
            NoClosedFormError: If a hyperparameter has no value yet, y is None, or the solver is an
                approximation.
        """
        values = {**self.kernel.hyperparameters(), "noise": self.noise}
        if not is_function(self.mean):
            values["mean"] = self.mean
        inferred = [name for name, value in values.items() if hyper.is_specified(value)]
        if inferred or y is None:
            reason = f"{', '.join(inferred)} are to be inferred" if inferred else "there is no y"
            raise NoClosedFormError(
                f"the posterior of this GPRegression has no closed form: {reason}. Give values "
                "with model.at({...}), or use method='auto'."
            )
        process = self.process(X, mask)
        if process.solver.approximate:
            raise NoClosedFormError(
                f"solver={process.solver.name!r} is an approximation, so the posterior of this "
                "GPRegression has no closed form. Use model.condition(X, y).predict(X_new), or "
                "solver='dense'."
            )
        targets = jnp.asarray(y)
        gps = _condition_columns(process, targets)
        mean = evaluate_mean(process.prior_mean, process.X)
        f = _join([ProcessPredictive(gp, None, gp.X, mean, jnp.zeros(())) for gp in gps])

        def draw(key, n):
            return {"f": _sample_jit(f, key, n).reshape(n, *targets.shape)}

        log_marginal = float(self._distribution_of_y(process).log_prob(targets))
        mean_of_f, variance = (jnp.reshape(x, targets.shape) for x in _moments_jit(f))
        marginals = {"f": dist.Normal(mean_of_f, jnp.sqrt(variance))}
        return ClosedForm(draw, log_marginal, max(gp.residual for gp in gps), marginals)

    def predictive(
        self,
        draws: dict[str, Array],
        data: tuple,
        X_new: Inputs,
        latent: bool = False,
        seed: int = 0,
    ) -> Prediction | OutputsPrediction:
        """Predict at X_new: a mixture over draws of the hyperparameters.

        Args:
            draws: Posterior draws by site, each of shape (S, ...); other sites are ignored.
            data: (X, y) or (X, y, mask), as `prepare` returned them.
            X_new: New inputs, shape (m, d) or (m,), or a data frame.
            latent: Whether to predict f itself, rather than a new observation.
            seed: Not used: the prediction is in closed form, and its `sample` takes its own seed.

        Returns:
            A `Prediction` with the additive components of the kernel; an `OutputsPrediction` if y
            has several columns.
        """
        points = new_points(X_new, data[0], self.columns)
        names = {*self.kernel.hyperparameters(), "noise", "mean"}
        draws = {name: value for name, value in draws.items() if name in names}
        prediction = predict_over(self, thin(draws), data, points, latent)
        return prediction if self.outputs is None else OutputsPrediction(prediction, self.outputs)


# -- predictions from draws of the hyperparameters -------------------------------------------------


def condition_at(model: GPRegression, draw: dict[str, Array], data: tuple) -> ConditionedGP:
    """Process of a GPRegression at one draw of its hyperparameters, given data."""
    return model.at(draw).condition(*data)


def predictive_at(
    model: GPRegression,
    data: tuple,
    latent: bool,
    name: str | None,
    draw: dict[str, Array],
    X_new: Array,
) -> NewValues:
    """Distribution of the process at X_new, given one draw.

    `name` selects a component, without mean and noise. With several outputs, the output index runs
    fastest.
    """
    X, y, *mask = data
    gps = _condition_columns(model.at(draw).process(X, *mask), y)
    mean = noise = jnp.zeros(())
    if name is None:
        mean = gps[0].new_mean(None, X_new)
        noise = noise if latent else None
    return _join([ProcessPredictive(gp, name, X_new, mean, noise) for gp in gps])


def _condition_columns(process: GaussianProcess, y: Array) -> tuple[ConditionedGP, ...]:
    """Condition the process on y (n,), or on each column of y (n, k)."""
    if y.ndim == 1:
        return (process.condition(y),)
    return IndependentProcesses(process, y.shape[1]).condition(y)


def _join(parts: Sequence[ProcessPredictive]) -> ProcessPredictive | OutputsPredictive:
    return parts[0] if len(parts) == 1 else OutputsPredictive(tuple(parts))


_moments_jit = eqx.filter_jit(lambda predictive: predictive.moments())
_sample_jit = eqx.filter_jit(lambda predictive, key, n: predictive.sample(key, n))


def predict_over(
    model: GPRegression,
    draws: dict[str, Array],
    data: tuple,
    X_new: Array,
    latent: bool,
    name: str | None = None,
) -> Prediction:
    """Prediction of the process, or of its component `name`, mixed over draws."""
    conditional_at = eqx.Partial(predictive_at, model, data, latent, name)
    n = data[0].shape[0]
    if name is not None:
        return mixture(conditional_at, draws, X_new, n)

    def component(name):
        return predict_over(model, draws, data, X_new, True, name)

    names = tuple(component_names(model.kernel))
    return mixture(conditional_at, draws, X_new, n, component, names)
