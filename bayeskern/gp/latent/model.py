"""Latent Gaussian processes with priors and any likelihood."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import ClassVar, Self

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
from bayeskern.gp.latent.log_likelihood import eta
from bayeskern.gp.latent.posterior import (
    ConditionedLatent,
    LatentMixture,
    predict,
)
from bayeskern.gp.latent.process import LatentProcess, check_likelihood, read_solver
from bayeskern.gp.prior import (
    Inputs,
    is_function,
    mean_function,
    new_points,
    points_alone,
    positive_definite,
)
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.starting_values import starting_values
from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.labels import decode
from bayeskern.linalg import SOLVERS, Solver
from bayeskern.prediction.empirical import Predictions, SampledPrediction
from bayeskern.prediction.mixture import Prediction
from bayeskern.prediction.response import ResponsePrediction, from_prior


def _positive_definite_kernels(kernel: Kernel | tuple[Kernel, ...]) -> Kernel | tuple[Kernel, ...]:
    if isinstance(kernel, tuple | list):
        return tuple(positive_definite(k) for k in kernel)
    return positive_definite(kernel)


class LatentGP(eqx.Module):
    """Gaussian process observed through a likelihood: y ~ likelihood(f), f ~ GP(mean, kernel).

    It is itself a NumPyro model, model(X, y=None, **extra), for classes, counts, proportions or
    heavy-tailed noise. Its sites are the hyperparameters of the kernel by their dotted names,
    `likelihood.<name>`, `mean` and the observed `y`. In a tuple of kernels, the names of unnamed
    kernels get the prefixes `f0.`, `f1.`, ... If f is sampled, there are also `white`, standard
    normal, and the deterministic f = mean + L white with K = L L': shape (n,), or (outputs, n).

    Args:
        kernel: Covariance function, or a tuple of kernels, one for each output of the likelihood.
            With one kernel, several outputs are independent processes with that kernel.
            Hyperparameters are numbers, NumPyro distributions or `Free(init)`.
        likelihood: One of `bayeskern.likelihoods`.
        mean: Prior mean of f: a number, a distribution, `Free`, or a function of one point.
        integrate: True to integrate f out by Laplace's approximation; False to sample f, which is
            exact; None, the default, to let the inference method decide.
        solver: Solver of the covariance matrices, as for `LatentProcess`; `prepare` resolves
            "auto".
        columns: Columns of the data frame of the fit; set by `prepare`.

    Raises:
        TypeError: If a kernel is not a Kernel, or the likelihood not one of
            `bayeskern.likelihoods`.
        ValueError: If a kernel is not positive definite by construction, or two sites would have
            the same name.

    References:
        Rasmussen and Williams (2006), chapter 3.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> from bayeskern import likelihoods
        >>> from bayeskern.kernels import RBF
        >>> model = bk.LatentGP(RBF(lengthscale=2.0), likelihoods.Poisson())
        >>> process = model.condition(np.arange(6.0), np.array([1, 0, 2, 3, 5, 4]))
        >>> process.predict([5.0], latent=True).mean.round(1)
        array([1.3])
    """

    kernel: Kernel | tuple[Kernel, ...] = eqx.field(converter=_positive_definite_kernels)
    likelihood: Likelihood
    mean: Array | Callable = eqx.field(default=0.0, converter=mean_function)
    integrate: bool | None = eqx.field(static=True, default=None)
    solver: str = eqx.field(static=True, default="auto", kw_only=True)
    #: Draws that predictions average. f at X is drawn too, so the sampling error of a predictive
    #: mean is 1 / sqrt(500) of an sd, small beside the .25 sds that a good verdict allows.
    most_draws: ClassVar[int] = 500
    #: columns of the data frame of the fit; new points need the same columns
    columns: tuple[str, ...] | None = eqx.field(static=True, default=None, kw_only=True)
    #: solver prepared for X by `prepare`
    prepared: Solver | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        check_likelihood(self.likelihood)
        validation.one_of("solver", self.solver, ("auto", *SOLVERS))
        names = ["white", "f", "y", *(site.name for site in self._sites())]
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise ValueError(
                f"the name {repeated[0]!r} stands for several values. Give the kernels different "
                "names."
            )

    def __call__(
        self,
        X: Inputs,
        y: JaxArrayLike | None = None,
        extra: dict[str, Array] | None = None,
        **extras: ArrayLike,
    ) -> JaxArrayLike:
        likelihood, kernels, mean = self.sample_parameters()
        values = {**(extra or {}), **extras}
        process = LatentProcess(kernels, X, likelihood, mean, values, self.prepared or self.solver)
        if self.integrate:
            return numpyro.sample("y", process, obs=y)
        means = process.means()
        shape = means.shape if likelihood.outputs else means.shape[1:]
        white = numpyro.sample("white", dist.Normal().expand(shape).to_event(len(shape)))
        f = means + process.prior.root(jnp.reshape(white, means.shape))
        numpyro.deterministic("f", f.reshape(shape))
        observed = likelihood.distribution(eta(likelihood, f), **process.extra)
        return numpyro.sample("y", observed, obs=y)

    def sample_parameters(self) -> tuple[Likelihood, tuple[Kernel, ...], ArrayLike | Callable]:
        """Sample the likelihood, the kernels and the mean, inside a NumPyro model."""
        likelihood = self.likelihood.sample()
        kernels = tuple(hyper.sample(k, prefix) for prefix, k in self._kernels_by_prefix())
        if is_function(self.mean):
            return likelihood, kernels, self.mean
        mean = hyper.sample_value("mean", self.mean, constraints.real)
        # A `Free` mean is a NumPyro param, whose value is never None inside a model.
        return likelihood, kernels, mean  # pyright: ignore[reportReturnType]

    def __repr__(self) -> str:
        mean = self.mean if is_function(self.mean) else hyper.show(self.mean)
        return f"LatentGP({self.kernel!r}, {self.likelihood!r}, mean={mean})"

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels as a tuple."""
        return self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)

    def for_method(self, name: str, samples_latents: bool, uses_priors: bool) -> Self:
        """Copy that integrates f out or samples it, as the inference method requires.

        Methods that do not sample latents, such as Laplace's, integrate f out: they would have to
        find a mode in n or more dimensions. f is always sampled if the likelihood has kinks, or if
        no hyperparameter is to be inferred.
        """
        if self.integrate is not None:
            return self
        inferred = any(map(hyper.is_specified, self.hyperparameters().values()))
        integrate = inferred and not samples_latents and not self.likelihood.kinked
        return dataclasses.replace(self, integrate=integrate)

    def prepare(
        self, X: Inputs, y: ArrayLike | None = None, **extra: ArrayLike
    ) -> tuple[Self, tuple]:
        """Check the data, resolve column names and set default priors, before any tracing.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame.
            y: Observations, shape (n,) or as the likelihood takes them; None if there are none.
            **extra: Values that the likelihood needs of each row, such as `exposure` or `trials`.

        Returns:
            The prepared model, and its arguments (X, y, extra).
        """
        points, columns = points_alone(X)
        prepared = self.likelihood.prepare(y, points.shape[0], extra)
        model = dataclasses.replace(self.resolve(columns), likelihood=prepared.likelihood)
        model = dataclasses.replace(model, prepared=model._solver_for(points))
        return model, (points, prepared.y, prepared.extra)

    def _solver_for(self, X: Array) -> Solver:
        return read_solver(self.solver, self.kernels, X, self.likelihood)

    def resolve(self, columns: tuple[str, ...] | None) -> Self:
        """Copy for data frames with these columns."""
        kernels = tuple(k.resolve(columns) for k in self.kernels)
        kernel = kernels if isinstance(self.kernel, tuple) else kernels[0]
        return dataclasses.replace(self, kernel=kernel, columns=columns)

    def restore(
        self, args: tuple, columns: tuple[str, ...] | None, classes: tuple | None
    ) -> tuple[Self, tuple]:
        """Prepare the model again from saved arguments; `bk.load` calls it.

        Args:
            args: (X, y, extra), as `prepare` returned them.
            columns: Columns of the data frame of the fit, or None.
            classes: Labels of the classes of y, or None.

        Returns:
            The model and its arguments.
        """
        X, y, extra = args
        model = self.resolve(columns)
        if classes is not None:
            likelihood = dataclasses.replace(self.likelihood, classes=classes)
            model = dataclasses.replace(model, likelihood=likelihood)
        model, args = model.prepare(X, decode(y, classes), **extra)
        return dataclasses.replace(model, columns=columns), args

    @property
    def classes(self) -> tuple | None:
        """Labels of the classes of y; None if y has no classes."""
        return self.likelihood.classes

    def hyperparameters(self) -> dict:
        """Every hyperparameter by the name of its site."""
        return {site.name: hyper.get(self, site.path) for site in self._sites()}

    def starting_values(
        self, X: Array, y: Array | None = None, extra: dict[str, Array] | None = None
    ) -> dict[str, np.ndarray]:
        """Values of `Free` lengthscales in the units of X (n, d), by site."""
        return {
            f"{prefix}.{name}".removeprefix("."): value
            for prefix, kernel in self._kernels_by_prefix()
            for name, value in starting_values(kernel, X).items()
        }

    def at(self, values: dict) -> Self:
        """Copy with the given hyperparameters set.

        Args:
            values: Values by the names of their sites.

        Returns:
            The copy.

        Raises:
            ValueError: If a name is unknown, or a value is not allowed.
        """
        sites = {site.name: site for site in self._sites()}
        for name, value in values.items():
            validation.one_of("hyperparameter", name, sites)
            hyper.check(name, value, sites[name].constraint)
        paths = [sites[name].path for name in values]
        return hyper.replace(self, paths, [hyper.as_hyperparameter(v) for v in values.values()])

    def process(self, X: Inputs, extra: dict | None = None) -> LatentProcess:
        """Distribution of y, for a model whose hyperparameters are all numbers."""
        solver = self.prepared or self.solver
        return LatentProcess(self.kernels, X, self.likelihood, self.mean, extra, solver)

    def condition(self, X: Inputs, y: ArrayLike, **extra: ArrayLike) -> ConditionedLatent:
        """Condition on data, if every hyperparameter is a number.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame.
            y: Observations, shape (n,) or as the likelihood takes them.
            **extra: Values that the likelihood needs of each row.

        Returns:
            Laplace's approximation of the latent functions given y.

        Raises:
            TypeError: If a hyperparameter is still a distribution or `Free`.
            NotPositiveDefiniteError: If no mode of the latent functions is found.
        """
        model, (points, targets, values) = self.prepare(X, y, **extra)
        return model.process(points, values).condition(targets)

    def predictive(
        self,
        draws: dict[str, Array],
        data: tuple,
        X_new: Inputs,
        latent: bool = False,
        seed: int = 0,
        **extra: ArrayLike,
    ) -> Prediction | Predictions | ResponsePrediction:
        """Predict at X_new: a mixture over draws of the hyperparameters.

        If the draws have the site `white`, it determines f at X. Otherwise f is integrated out by
        Laplace's approximation.

        Args:
            draws: Posterior draws by site, each of shape (S, ...); other sites are ignored.
            data: (X, y, extra), as `prepare` returned them.
            X_new: New inputs, shape (m, d) or (m,), or a data frame.
            latent: Whether to predict f rather than new observations.
            seed: Seed of the draws of new observations.
            **extra: Values that the likelihood needs of each new row, such as `exposure`.

        Returns:
            A `ResponsePrediction` of new observations. With `latent=True`, a `Prediction` of f with
            the components of its kernel, or `Predictions` with one for each of several outputs.
        """
        points = new_points(X_new, data[0], self.columns)
        names = {*self.hyperparameters(), "white"}
        draws = {name: value for name, value in draws.items() if name in names}
        data = self._conditioning_data(data)
        condition_at, n = eqx.Partial(_condition_at, self, data), data[0].shape[0]
        latents = LatentMixture(condition_at, draws, self.kernels, self.likelihood, n)
        # A thousand draws of each new observation.
        return predict(latents, points, latent, extra, 1000, seed)

    def prior_predictive(
        self,
        X: Inputs,
        y: ArrayLike | None = None,
        draws: int = 1000,
        seed: int = 0,
        **extra: ArrayLike,
    ) -> SampledPrediction:
        """Draw new observations from the prior.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame.
            y: Observations, used only to set the scale of default priors.
            draws: Number of draws.
            seed: Seed of the draws.
            **extra: Values that the likelihood needs of each row.

        Returns:
            A `SampledPrediction` of y.

        Raises:
            ValueError: If a hyperparameter has no prior (`Free`).
        """
        if self.columns is not None:
            X, _ = validation.inputs(X, "X", self.columns)
        model, (points, _, values) = self.prepare(X, y, **extra)
        return from_prior(model._without_batches(), (points, None, values), draws, seed)

    def _conditioning_data(self, data: tuple) -> tuple:
        """Points and data (X, y, extra) to condition f on, from the `data` of `prepare`."""
        return data

    def _without_batches(self) -> Self:
        """Copy that uses all rows, without minibatches."""
        return self

    def _kernels_by_prefix(self) -> list[tuple[str, Kernel]]:
        """(prefix of site names, kernel) for each kernel."""
        if not isinstance(self.kernel, tuple):
            return [("", self.kernel)]
        return [("" if k.own_name() else f"f{i}", k) for i, k in enumerate(self.kernel)]

    def _sites(self) -> list[hyper.Site]:
        """Every hyperparameter of the model: name, path and constraint."""
        sites = [] if is_function(self.mean) else [hyper.Site("mean", ("mean",), constraints.real)]
        parts: list[tuple[str, tuple, Kernel | Likelihood]] = [
            ("likelihood", ("likelihood",), self.likelihood)
        ]
        for i, (prefix, kernel) in enumerate(self._kernels_by_prefix()):
            path = ("kernel", i) if isinstance(self.kernel, tuple) else ("kernel",)
            parts.append((prefix, path, kernel))
        for prefix, path, part in parts:
            dotted = f"{prefix}." if prefix else ""
            sites += [
                hyper.Site(dotted + s.name, path + s.path, s.constraint) for s in hyper.sites(part)
            ]
        return sites


def _condition_at(model: LatentGP, data: tuple, draw: dict[str, Array]) -> ConditionedLatent:
    """Condition the latent processes on data, at one draw of the hyperparameters."""
    X, y, extra = data
    at_draw = model.at({name: value for name, value in draw.items() if name != "white"})
    process = at_draw.process(X, extra)
    if "white" in draw:
        return process.condition_on_white(draw["white"].reshape(-1, X.shape[0]))
    return process.condition(y)
