"""Gaussian processes seen through any likelihood, with priors: classes, counts, heavy tails."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import numpyro
import numpyro.distributions as dist
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.gp.latent.log_likelihood import eta
from bayeskern.gp.latent.posterior import ConditionedLatent
from bayeskern.gp.latent.prediction import LatentMixture, latent_prediction, response_prediction
from bayeskern.gp.latent.process import LatentProcess, read_solver
from bayeskern.gp.prior import is_function, mean_function, new_points, positive_definite
from bayeskern.kernels.base import Kernel
from bayeskern.likelihoods.base import Likelihood
from bayeskern.likelihoods.labels import decode
from bayeskern.linalg import SOLVERS, Solver
from bayeskern.prediction.mixture import MOST_DRAWS, thin
from bayeskern.prediction.response import from_prior

# These methods draw the latent function themselves, and need not integrate it out.
SAMPLED = ("nuts", "svi", "pathfinder")
# The number of observations drawn for a prediction.
OBSERVATIONS = 1000


class LatentGP(eqx.Module):
    """A Gaussian process seen through a likelihood: y ~ likelihood(f), f ~ GP(mean, kernel).

    It is itself a NumPyro model, model(X, y=None, **extra), for classes, counts, proportions or
    heavy-tailed noise. Its sites are the hyperparameters of the kernel by their dotted names (those
    of a tuple of kernels behind `f0.`, `f1.`, unless a kernel is named), `likelihood.<name>`,
    `mean` and the observed `y`. Where f is kept there are also `white`, standard normal, and the
    deterministic f = mean + L white with K = L L': shape (n,), or (outputs, n).

    Args:
        kernel: The covariance function, or a tuple with one for each output of the likelihood. One
            kernel for several outputs is shared by independent processes. Hyperparameters are
            numbers, NumPyro distributions or `Free(init)`.
        likelihood: One of `bayeskern.likelihoods`.
        mean: The prior mean of f: a number, a distribution, `Free`, or a function of one point.
        integrate: True integrates f out by Laplace's approximation, False samples f, which is
            exact, and None, the default, leaves it to the method of inference.
        solver: How covariance matrices are factored, as for `LatentProcess`; `prepare` chooses
            where it is "auto".
        columns: The columns of the data frame it was fitted to; set by `prepare`.

    Raises:
        TypeError: If the kernel is no kernel, or the likelihood none of `bayeskern.likelihoods`.
        ValueError: If a kernel is not positive definite by construction, or names clash.

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

    kernel: Kernel | tuple[Kernel, ...] = eqx.field(converter=lambda k: _read_kernels(k))
    likelihood: Likelihood
    mean: jax.Array | Callable = eqx.field(default=0.0, converter=lambda m: mean_function(m))
    integrate: bool | None = eqx.field(static=True, default=None)
    solver: str = eqx.field(static=True, default="auto", kw_only=True)
    #: predictions average over at most this many draws
    most_draws: ClassVar[int] = MOST_DRAWS
    #: the columns of the data frame it was fitted to, which new points must have too
    columns: tuple[str, ...] | None = eqx.field(static=True, default=None, kw_only=True)
    #: the solver for the inputs that it was prepared for
    prepared: Solver | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        if not isinstance(self.likelihood, Likelihood):
            kind = type(self.likelihood).__name__
            raise TypeError(f"likelihood must be one of bayeskern.likelihoods, got {kind}.")
        validation.one_of("solver", self.solver, ("auto", *SOLVERS))
        names = ["white", "f", "y", *(name for name, _, _ in self._sites())]
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise ValueError(
                f"the name {repeated[0]!r} stands for several values; name the kernels differently."
            )

    def __call__(self, X, y=None, extra: dict | None = None, **extras):
        likelihood, kernels, mean = self.sample_parameters()
        extra = {**(extra or {}), **extras}
        process = LatentProcess(kernels, X, likelihood, mean, extra, self.prepared or self.solver)
        if self.integrate:
            return numpyro.sample("y", process, obs=y)
        means = process.means()
        shape = means.shape if likelihood.outputs else means.shape[1:]
        white = numpyro.sample("white", dist.Normal().expand(shape).to_event(len(shape)))
        f = means + process.prior.root(white.reshape(means.shape))
        numpyro.deterministic("f", f.reshape(shape))
        observed = likelihood.distribution(eta(likelihood, f), **process.extra)
        return numpyro.sample("y", observed, obs=y)

    def sample_parameters(self):
        """Values for all hyperparameters: of the likelihood, of the kernels, and of the mean."""
        likelihood = self.likelihood.sample()
        kernels = tuple(hyper.sample(k, prefix) for prefix, k in self._prefixed())
        if is_function(self.mean):
            return likelihood, kernels, self.mean
        return likelihood, kernels, hyper.sample_value("mean", self.mean, constraints.real)

    def __repr__(self) -> str:
        mean = self.mean if is_function(self.mean) else hyper.show(self.mean)
        return f"LatentGP({self.kernel!r}, {self.likelihood!r}, mean={mean})"

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return self.kernel if isinstance(self.kernel, tuple) else (self.kernel,)

    def for_method(self, name: str) -> LatentGP:
        """A copy that integrates f out, or does not, as suits the method of inference.

        nuts, svi and pathfinder sample f; the others would have to find a mode in as many
        dimensions as there are points, or could not. It is never integrated out where the
        likelihood has kinks, nor where nothing else is left to infer.
        """
        if self.integrate is not None:
            return self
        inferred = any(map(hyper.is_specified, self.hyperparameters().values()))
        integrate = inferred and name not in SAMPLED and not self.likelihood.kinked
        return dataclasses.replace(self, integrate=integrate)

    def prepare(self, X, y=None, **extra) -> tuple[LatentGP, tuple]:
        """Check the data, resolve column names and set default priors, before anything is traced.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame.
            y: Observations, shape (n,) or as the likelihood takes them, or None.
            **extra: What the likelihood needs of each row, such as `exposure` or `trials`.

        Returns:
            The prepared model, and its arguments (X, y, extra).
        """
        X, columns = validation.inputs(X)
        prepared = self.likelihood.prepare(y, X.shape[0], extra)
        model = dataclasses.replace(self.resolve(columns), likelihood=prepared.likelihood)
        model = dataclasses.replace(model, prepared=model._solver_for(X))
        return model, (X, prepared.y, prepared.extra)

    def _solver_for(self, X) -> Solver:
        return read_solver(self.solver, self.kernels, X, self.likelihood)

    def resolve(self, columns: tuple[str, ...] | None) -> LatentGP:
        """A copy that takes data with these columns."""
        kernels = tuple(k.resolve(columns) for k in self.kernels)
        kernel = kernels if isinstance(self.kernel, tuple) else kernels[0]
        return dataclasses.replace(self, kernel=kernel, columns=columns)

    def restore(self, args: tuple, columns, classes) -> tuple[LatentGP, tuple]:
        """The model, prepared again from the arguments that a file has kept, and its arguments.

        columns, classes: those of the data it was fitted to; None if there were none.
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
        """The labels of the classes of y; None if y has no classes."""
        return self.likelihood.classes

    def hyperparameters(self) -> dict:
        """Every hyperparameter by the name of its site."""
        return {name: hyper.get(self, path) for name, path, _ in self._sites()}

    def at(self, values: dict) -> LatentGP:
        """A copy with the given hyperparameters set.

        Args:
            values: Values by the names of their sites.

        Raises:
            ValueError: If a name is unknown, or a value is not allowed.
        """
        sites = {name: (path, constraint) for name, path, constraint in self._sites()}
        for name, value in values.items():
            validation.one_of("hyperparameter", name, sites)
            hyper.check(name, value, sites[name][1])
        paths = [sites[name][0] for name in values]
        return hyper.replace(self, paths, [hyper.as_hyperparameter(v) for v in values.values()])

    def process(self, X, extra: dict | None = None) -> LatentProcess:
        """The distribution of y, for a model whose hyperparameters are all numbers."""
        solver = self.prepared or self.solver
        return LatentProcess(self.kernels, X, self.likelihood, self.mean, extra, solver)

    def condition(self, X, y, **extra) -> ConditionedLatent:
        """Condition on data, if every hyperparameter is a number.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame.
            y: Observations, shape (n,) or as the likelihood takes them.
            **extra: What the likelihood needs of each row.

        Raises:
            TypeError: If a hyperparameter is still a distribution or `Free`.
            NotPositiveDefiniteError: If no mode of the latent functions is found.
        """
        model, (X, y, extra) = self.prepare(X, y, **extra)
        return model.process(X, extra).condition(y)

    def predictive(
        self, draws: dict, data: tuple, X_new, latent: bool = False, seed: int = 0, **extra
    ):
        """Predict at X_new: the mixture of the processes at each draw.

        Where the draws hold `white`, f at X is known in each of them; else it is integrated out by
        Laplace's approximation.

        Args:
            draws: Posterior draws by site, each of shape (S, ...); other sites may be among them.
            data: (X, y, extra), as `prepare` returned them.
            X_new: New inputs, shape (m, d) or (m,), or a data frame.
            latent: Whether to predict f rather than new observations.
            seed: The same seed gives the same draws of new observations.
            **extra: What the likelihood needs of each new row, such as `exposure` or `trials`.

        Returns:
            A `ResponsePrediction` of new observations. With `latent=True` a `Prediction` of f with
            the components of its kernel; for several outputs `Predictions`, one for each.
        """
        X_new = new_points(X_new, data[0], self.columns)
        names = {*self.hyperparameters(), "white"}
        draws = {name: value for name, value in draws.items() if name in names}
        draws = thin(draws, self.most_draws)
        condition_at, n = eqx.Partial(_condition_at, self, data), data[0].shape[0]
        mixture = LatentMixture(condition_at, draws, self.kernels, self.likelihood, n)
        if latent:
            return latent_prediction(mixture, X_new)
        extra = self.likelihood.read_extra(extra, X_new.shape[0])
        return response_prediction(mixture, X_new, extra, OBSERVATIONS, seed)

    def prior_predictive(self, X, y=None, draws: int = 1000, seed: int = 0, **extra):
        """Draw new observations from the prior.

        Args:
            X: Inputs, shape (n, d) or (n,), or a data frame.
            y: Observations, only for default priors, which are on their scale.
            draws: How many.
            seed: The same seed gives the same draws.
            **extra: What the likelihood needs of each row.

        Returns:
            A `SampledPrediction` of y.

        Raises:
            ValueError: If a hyperparameter has no prior (`Free`).
        """
        if self.columns is not None:
            X, _ = validation.inputs(X, "X", self.columns)
        model, (X, _, extra) = self.prepare(X, y, **extra)
        return from_prior(model, (X, None, extra), draws, seed)

    def _prefixed(self) -> list[tuple[str, Kernel]]:
        """Each kernel with the prefix of its site names."""
        if not isinstance(self.kernel, tuple):
            return [("", self.kernel)]
        return [("" if k.own_name() else f"f{i}", k) for i, k in enumerate(self.kernel)]

    def _sites(self) -> list[tuple]:
        """(name, path, constraint) of every hyperparameter of the whole model."""
        sites = [] if is_function(self.mean) else [("mean", ("mean",), constraints.real)]
        parts = [("likelihood", ("likelihood",), self.likelihood)]
        for i, (prefix, kernel) in enumerate(self._prefixed()):
            path = ("kernel", i) if isinstance(self.kernel, tuple) else ("kernel",)
            parts.append((prefix, path, kernel))
        for prefix, path, part in parts:
            dotted = f"{prefix}." if prefix else ""
            sites += [(dotted + s.name, path + s.path, s.constraint) for s in hyper.sites(part)]
        return sites


def _condition_at(model: LatentGP, data: tuple, draw: dict) -> ConditionedLatent:
    """The latent processes given data, at one draw."""
    X, y, extra = data
    at_draw = model.at({name: value for name, value in draw.items() if name != "white"})
    process = at_draw.process(X, extra)
    if "white" in draw:
        return ConditionedLatent.noise_free(process, draw["white"].reshape(-1, X.shape[0]))
    return process.condition(y)


def _read_kernels(kernel):
    if isinstance(kernel, tuple | list):
        return tuple(positive_definite(k) for k in kernel)
    return positive_definite(kernel)
