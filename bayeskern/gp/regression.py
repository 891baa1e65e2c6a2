"""Gaussian process regression with priors on the hyperparameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array
from jax.typing import ArrayLike as JaxArrayLike
from numpy.typing import ArrayLike
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.gp.noise import Extra, NoiseModel, noise_model, read_noise
from bayeskern.gp.outputs import IndependentProcesses
from bayeskern.gp.posterior import ConditionedGP, ProcessPredictive, moments_jit, sample_jit
from bayeskern.gp.prior import (
    Inputs,
    evaluate_mean,
    is_function,
    mean_function,
    new_rows,
    observes_kinds_of,
    positive_definite,
)
from bayeskern.gp.process import GaussianProcess
from bayeskern.gp.regression_predictive import (
    condition_columns,
    join,
    predict_over,
    with_new_noise,
)
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.measured.kernel import Measured, are_in_units_of_f, points_of
from bayeskern.kernels.measured.rows import Rows
from bayeskern.kernels.starting_values import starting_values
from bayeskern.linalg import SOLVERS, Solver, solver_of
from bayeskern.prediction.mixture import MAX_MIXTURE_DRAWS, Prediction
from bayeskern.prediction.outputs import OutputsPrediction
from bayeskern.protocols import ClosedForm, DoesNotApplyError, NoClosedFormError

# A label for each row.
Labels = Sequence | ArrayLike


class GPRegression(eqx.Module):
    """Gaussian process regression with priors on the hyperparameters.

    y = f(X) + e with f ~ GP(mean, kernel) and e ~ N(0, noise).

    It is itself a NumPyro model, model(X, y=None, mask=None). The latent function is integrated
    out: the sites are the hyperparameters of the kernel by their dotted names, `noise`, `mean` and
    the observed `y`. Predictions average over at most 200 evenly thinned draws, unless
    `posterior.predict` is told another number, `draws=`.

    The noise may differ from row to row. Known variances, such as squared error bars, are passed
    with the data and added to `noise`: `bk.infer(model, X, y, variances=e**2)`, and
    `posterior.predict(X_new, variances=...)` for new observations. Groups of rows, such as the
    sensors that measured them, are passed as `groups=labels` in the same way.

    The columns of y (n, k) are independent outputs with the same kernel, noise and mean, and share
    one factor of their covariance. For correlated outputs, stack them as rows of one y, and give
    `kernels.Coregion` a column of X with the index of the output.

    Args:
        kernel: Covariance function. Its hyperparameters, like `noise` and `mean`, are numbers,
            NumPyro distributions (their priors) or `Free(init)` (estimated without a prior).
        noise: Variance of the noise. `bk.from_sd` turns a prior on the sd into a prior on the
            variance.

            - A number, a prior or `Free`: one variance for all rows, the site `noise`.
            - An array (n,): a known variance for each row, as `noise=0` with `variances`.
            - An array (n, n): the known covariance matrix of the noise, for the dense solver.
            - A dict such as `{"sensor A": prior, "sensor B": 0.1}`: a variance for each group of
              rows, with the sites `noise.sensor A`, ...
            - A kernel: the log variance is a Gaussian process, as in `NoiseProcess`.
        mean: Prior mean: a number, a distribution, `Free`, or a function of one point.
        solver: Solver of the covariance matrix, as for `GaussianProcess`; `prepare` resolves
            "auto".
        columns: Columns of the data frame of the fit; set by `prepare`.
        outputs: Number of columns of y; None if y is (n,). Set by `prepare`.

    Raises:
        TypeError: If `kernel` is not a Kernel.
        ValueError: If the kernel is not positive definite by construction, the noise is negative,
            a known variance of a row is 0, or a hyperparameter of the kernel has the name of
            another site.

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

        Two sensors with different noise; the variances can have priors:

        >>> model = bk.GPRegression(RBF(lengthscale=1.0), noise={"cheap": 0.25, "good": 0.0001})
        >>> sensors = ["cheap", "good", "good"] * 3
        >>> posterior = bk.infer(model, X, np.sin(X), groups=sensors, method="exact")
        >>> posterior.predict([2.2, 2.2], groups=["cheap", "good"]).sd.round(1)
        array([0.5, 0. ])
    """

    #: Draws of the hyperparameters that predictions average; each costs a factorization.
    most_draws: ClassVar[int] = MAX_MIXTURE_DRAWS

    kernel: Kernel = eqx.field(converter=positive_definite)
    #: a variance, its prior, or a NoiseModel
    noise: Any = eqx.field(converter=read_noise)
    mean: Array | Callable = eqx.field(default=0.0, converter=mean_function)
    solver: str = eqx.field(static=True, default="auto", kw_only=True)
    #: columns of the data frame of the fit; new points need the same columns
    columns: tuple[str, ...] | None = eqx.field(static=True, default=None, kw_only=True)
    #: number of columns of y; None if y is (n,)
    outputs: int | None = eqx.field(static=True, default=None, kw_only=True)
    #: solver prepared for X by `prepare`
    prepared: Solver | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        validation.one_of("solver", self.solver, ("auto", *SOLVERS))
        names = {"noise", "mean", "y", *self.noise_model.hyperparameters()}
        clash = names & set(self.kernel.hyperparameters())
        if clash:
            raise ValueError(f"the kernel has a hyperparameter called {clash.pop()!r}; rename it.")

    def __call__(
        self,
        X: Inputs,
        y: JaxArrayLike | None = None,
        mask: ArrayLike | None = None,
        extra: Extra | None = None,
        *,
        variances: ArrayLike | None = None,
        groups: Labels | None = None,
    ) -> JaxArrayLike:
        kernel = hyper.sample(self.kernel)
        rows = Rows.read(X)
        points = points_of(rows.X)
        if extra is None:
            extra = self.noise_model.read_extra(len(points), variances, groups)
        noise = self.noise_model.resolve(rows.names).sample(points).of_rows(points, extra)
        mean = self.mean
        if not is_function(mean):
            mean = hyper.sample_value("mean", mean, constraints.real)
        process = GaussianProcess(kernel, X, noise, mean, mask, self.prepared or self.solver)
        return numpyro.sample("y", self._distribution_of_y(process), obs=y)

    def __repr__(self) -> str:
        mean = self.mean if is_function(self.mean) else hyper.show(self.mean)
        return f"GPRegression({self.kernel!r}, noise={self.noise_model!r}, mean={mean})"

    @property
    def noise_model(self) -> NoiseModel:
        """Model of the noise of each row."""
        return noise_model(self.noise)

    def hyperparameters(self) -> dict[str, Any]:
        """Every hyperparameter by the name of its site."""
        mean = {} if is_function(self.mean) else {"mean": self.mean}
        return {**self.kernel.hyperparameters(), **self.noise_model.hyperparameters(), **mean}

    def for_method(self, name: str, samples_latents: bool, uses_priors: bool) -> Self:
        """Return self; raise DoesNotApplyError if a method does not suit the noise."""
        if not uses_priors and (reason := self.noise_model.reason_against_mle):
            raise DoesNotApplyError(
                f"method={name!r} does not apply to noise={self.noise!r}: {reason}. Use "
                "method='map', 'laplace' or 'nuts'."
            )
        return self

    def prepare(
        self,
        X: Inputs,
        y: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        *,
        variances: ArrayLike | None = None,
        groups: Labels | None = None,
    ) -> tuple[Self, tuple]:
        """Check the data and resolve column names, before any tracing.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame; `Interval` and `Derivative` for
                means, integrals and derivatives; or a list of these.
            y: Observations, shape (n,), or (n, k) for k outputs; None if there are none.
            mask: Shape (n,), True where y is observed.
            variances: Known noise variances of the rows, in addition to `noise`: a number or (n,).
            groups: Group of each row, (n,), if `noise` has a variance for each group.

        Returns:
            The model for these columns, and its arguments (X, y), (X, y, mask), or, with variances
            or groups, (X, y, mask or None, extra).
        """
        rows = Rows.read(X)
        n = rows.X.shape[0]
        targets = None if y is None else validation.outputs(y, n)
        observed = None if mask is None else jnp.asarray(mask, bool)
        extra = self.noise_model.read_extra(n, variances, groups)
        args: tuple = rows.X, targets
        if extra:
            args = *args, observed, extra
        elif observed is not None:
            args = *args, observed
        return self._prepared_for(rows.names, *args), args

    def resolve(self, columns: tuple[str, ...] | None) -> Self:
        """Copy for data frames with these columns."""
        kernel, noise = self.kernel.resolve(columns), self.noise_model.resolve(columns).at({})
        return dataclasses.replace(self, kernel=kernel, noise=noise, columns=columns)

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
        extra: Extra | None = None,
    ) -> Self:
        """Copy for these data, with the solver chosen before any tracing."""
        model, n = self.resolve(columns), X.shape[0]
        model.noise_model.require_length(n)
        varies = model.noise_model.varies or "variances" in (extra or {})
        kernel = Rows.read(X).kernel(model.kernel)
        noise = model.noise_model
        shape = (n, n) if noise.is_correlated else (n,) if varies else ()
        solver = solver_of(kernel, X, self.solver, np.broadcast_to(1.0, shape), observed)
        if y is not None:
            noise = noise.with_default_priors(y, observed)
        outputs = None if y is None or y.ndim == 1 else y.shape[1]
        return dataclasses.replace(
            model, kernel=kernel, noise=noise.at({}), prepared=solver, outputs=outputs
        )

    def starting_values(
        self,
        X: Array,
        y: Array | None = None,
        mask: Array | None = None,
        extra: Extra | None = None,
    ) -> dict[str, Any]:
        """Values of `Free` hyperparameters in the units of the data, by site.

        Those of the kernel are as in `kernels.starting_values`, with the mean square of y - mean;
        the noise is a tenth of the variance of y, and the mean is the mean of y.

        Args:
            X: Inputs, as `prepare` returns them.
            y: Observations, (n,) or (n, k).
            mask: Shape (n,), True where y is observed.
            extra: Not used.
        """
        points = points_of(X)
        used = np.broadcast_to(are_in_units_of_f(X), len(points))
        used = used if mask is None else used & np.asarray(mask)
        kernel = self.kernel.inner if isinstance(self.kernel, Measured) else self.kernel
        if y is None or not np.any(used):
            return starting_values(kernel, points)
        targets = np.asarray(y)[used].reshape(int(np.sum(used)), -1)
        variance, level = float(np.var(targets, axis=0).mean()), targets.mean()
        values = {"mean": level}
        if is_function(self.mean):
            level = np.asarray(evaluate_mean(self.mean, points))[used][:, None]
        elif not hyper.is_specified(self.mean):
            level = np.asarray(self.mean)
        values |= starting_values(kernel, points, float(np.mean(np.square(targets - level))))
        values |= self.noise_model.starting_values(variance) if variance > 0.0 else {}
        free = {k: v for k, v in self.hyperparameters().items() if isinstance(v, hyper.Free)}
        return {k: np.full(hyper.shape(free[k]), v) for k, v in values.items() if k in free}

    def at(self, values: dict) -> Self:
        """Copy with the given hyperparameters set.

        Args:
            values: Values by the names of their sites.

        Returns:
            The copy.

        Raises:
            ValueError: If a name is unknown.
        """
        known = self.hyperparameters()
        if isinstance(values, hyper.PointEstimate):
            values = {name: value for name, value in values.items() if name in known}
        for name in values:
            validation.one_of("hyperparameter", name, known)
        of_noise = {k: values[k] for k in self.noise_model.hyperparameters() if k in values}
        mean = {"mean": values["mean"]} if "mean" in values else {}
        of_kernel = {k: v for k, v in values.items() if k not in of_noise and k not in mean}
        kernel, noise = self.kernel.at(of_kernel), self.noise_model.at(of_noise)
        return dataclasses.replace(self, kernel=kernel, noise=noise, **mean)

    def condition(
        self,
        X: Inputs,
        y: ArrayLike,
        mask: ArrayLike | None = None,
        *,
        variances: ArrayLike | None = None,
        groups: Labels | None = None,
    ) -> ConditionedGP:
        """Condition on data, if every hyperparameter is a number.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame.
            y: Observations, shape (n,).
            mask: Shape (n,), True where y is observed.
            variances: As in `prepare`.
            groups: As in `prepare`.

        Returns:
            The conditioned process.
        """
        n = Rows.read(X).X.shape[0]
        extra = self.noise_model.read_extra(n, variances, groups)
        return self.process(X, mask, extra).condition(y)

    def process(
        self, X: Inputs, mask: ArrayLike | None = None, extra: Extra | None = None
    ) -> GaussianProcess:
        """Distribution of one output, for a model whose hyperparameters are all numbers.

        extra: Known variances and groups of the rows, as `prepare` returns them.
        """
        solver = self.prepared or self.solver
        rows = Rows.read(X)
        noise = self.noise_model.resolve(rows.names).of_rows(points_of(rows.X), extra or {})
        return GaussianProcess(self.kernel, X, noise, self.mean, mask, solver)

    def _distribution_of_y(
        self, process: GaussianProcess
    ) -> GaussianProcess | IndependentProcesses:
        return process if self.outputs is None else IndependentProcesses(process, self.outputs)

    def exact(
        self,
        X: Array,
        y: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        extra: Extra | None = None,
    ) -> ClosedForm:
        """Posterior of the latent function `f` at X, if every hyperparameter is a number.

        Args:
            X: Inputs, shape (n, d).
            y: Observations, shape (n,), or (n, k) for k outputs.
            mask: Shape (n,), True where y is observed.
            extra: Known variances and groups of the rows, as `prepare` returns them.

        Returns:
            The posterior in closed form.

        Raises:
            NoClosedFormError: If a hyperparameter has no value yet, y is None, or the solver is an
                approximation.
        """
        values = self.hyperparameters().items()
        inferred = [name for name, value in values if hyper.is_specified(value)]
        if inferred or y is None:
            reason = f"{', '.join(inferred)} are to be inferred" if inferred else "there is no y"
            raise NoClosedFormError(
                f"the posterior of this GPRegression has no closed form: {reason}. Give values "
                "with model.at({...}), or use method='auto'."
            )
        process = self.process(X, mask, extra)
        if process.solver.approximate:
            raise NoClosedFormError(
                f"solver={process.solver.name!r} is an approximation, so the posterior of this "
                "GPRegression has no closed form. Use model.condition(X, y).predict(X_new), or "
                "solver='dense'."
            )
        targets = jnp.asarray(y)
        gps = condition_columns(process, targets)
        mean = evaluate_mean(process.prior_mean, process.X)
        f = join([ProcessPredictive(gp, None, gp.X, mean, jnp.zeros(())) for gp in gps])

        def draw(key, n):
            return {"f": sample_jit(f, key, n).reshape(n, *targets.shape)}

        log_marginal = float(self._distribution_of_y(process).log_prob(targets))
        mean_of_f, variance = (jnp.reshape(x, targets.shape) for x in moments_jit(f))
        marginals = {"f": dist.Normal(mean_of_f, jnp.sqrt(variance))}
        error = process.kernel.quadrature_error(process.X)
        return ClosedForm(draw, log_marginal, max(error, *(gp.residual for gp in gps)), marginals)

    def predictive(
        self,
        draws: dict[str, Array],
        data: tuple,
        X_new: Inputs,
        latent: bool = False,
        seed: int = 0,
        variances: ArrayLike | None = None,
        groups: Labels | None = None,
    ) -> Prediction | OutputsPrediction:
        """Predict at X_new: a mixture over draws of the hyperparameters.

        Args:
            draws: Posterior draws by site, each of shape (S, ...); other sites are ignored.
            data: The arguments of the model, as `prepare` returned them.
            X_new: New inputs, shape (m, d) or (m,), or a data frame; `Interval`, `Derivative`, or a
                list of these.
            latent: Whether to predict f itself, rather than a new observation. Means, integrals
                and derivatives are predicted without noise if no row of their kind was observed,
                unless `variances` are given.
            seed: Seed of the noise at new points, for a `NoiseProcess`. The prediction is in closed
                form given the noise; its `sample` takes another seed.
            variances: Known noise variances of the new rows, a number or (m,). Required if the
                data had them.
            groups: Group of each new row, (m,). Required if the noise has a variance for each
                group.

        Returns:
            A `Prediction` with the additive components of the kernel; an `OutputsPrediction` if y
            has several columns.

        Raises:
            ValueError: If the noise of the new rows is unknown: `variances` or `groups` are
                missing, or a group is unknown.
        """
        X, noise = data[0], None
        rows, kinds = new_rows(X_new, self.kernel, X, self.columns)
        has_noise = observes_kinds_of(X, rows) if variances is None else np.ones(len(rows))
        names = self.hyperparameters()
        draws = {name: value for name, value in draws.items() if name in names}
        if not latent and np.any(has_noise):
            fitted = next(iter(data[3:]), {})
            extra = self.noise_model.read_new_extra(len(rows), variances, groups, fitted)
            points = points_of(X), points_of(rows)
            draws, noise = with_new_noise(self, draws, *points, extra, seed)
            if not np.all(has_noise):
                noise = jnp.reshape(noise, (len(noise), -1)) * has_noise
        prediction = predict_over(self, draws, data, rows, noise, kinds=kinds)
        return prediction if self.outputs is None else OutputsPrediction(prediction, self.outputs)
