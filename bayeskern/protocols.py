"""Optional methods of models and of observed distributions.

Any NumPyro model works without these methods: a plain function is fitted through its log density,
and predictions draw its observed sites again. A model that can do more, such as compute its
posterior in closed form, defines methods below. No base class is needed, because `isinstance`
checks the protocols at run time. `docs/extend.md` has examples.

`data` are the arguments of the model, as in `model(*data)`. `draws` maps sites to arrays of shape
(S, *site). No method returns a `Posterior`; inference methods build posteriors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
from numpyro.distributions import Distribution

# -- what the methods of a model return ------------------------------------------------------------


class ClosedForm(NamedTuple):
    """A posterior in closed form, as returned by `exact(*data)`.

    Attributes:
        draw: (key, n) -> n independent draws of every latent and deterministic site, each
            (n, *site).
        log_evidence: log p(data).
        residual: Relative residual of the linear solve; 0 if nothing was solved.
        marginals: Distribution of each element of a site, by site. Tables show its moments and
            quantiles, instead of those of draws, if it is Beta, Gamma, InverseGamma, Normal or
            StudentT.
    """

    draw: Callable[[jax.Array, int], dict]
    log_evidence: float
    residual: float = 0.0
    marginals: Mapping[str, Distribution] = MappingProxyType({})


class Marginal(NamedTuple):
    """Model with latents integrated out or reparametrised, returned by `marginal`.

    Attributes:
        model: The NumPyro model that inference methods run in place of the full model.
        args: The arguments of `model`.
        recover: (draws, key, mean) -> draws of every site of the full model, each (S, *site), from
            draws of `model`, each (S, *site). Integrated-out sites are drawn from their
            conditional distribution, or set to its mean if `mean` is true.
        kwargs: The named arguments of `model`, if there are any.
    """

    model: Callable
    args: tuple
    recover: Callable[[dict, jax.Array, bool], dict]
    kwargs: dict | None = None


class DoesNotApplyError(ValueError):
    """Method does not apply to a model; the message gives the reason and an alternative."""


class NoClosedFormError(DoesNotApplyError):
    """The model has no posterior in closed form; the message gives the reason."""


class NotKeptError(ValueError):
    """A saved file lacks something that predictions need."""


# -- optional methods of a model -------------------------------------------------------------------


@runtime_checkable
class PreparesData(Protocol):
    """A model that validates its own data, resolves columns and sets default priors."""

    def prepare(self, *args: Any, **kwargs: Any) -> tuple[Callable, tuple]:
        """Return the model to fit and its positional arguments as arrays.

        `infer`, `prior_predictive` and `calibrate` call it once, before tracing, with the user's
        arguments.
        """
        ...


@runtime_checkable
class HasClosedForm(Protocol):
    """A model with a posterior in closed form, at least for some data."""

    def exact(self, *data: Any) -> ClosedForm:
        """Return the posterior; `Exact` calls it, and `Auto` calls it first.

        Raises:
            NoClosedFormError: The posterior has no closed form for these data or priors.
        """
        ...


@runtime_checkable
class HasMarginal(Protocol):
    """A model that can integrate out some of its latents."""

    def marginal(self, *data: Any) -> Marginal | None:
        """Return the marginal model, or None if nothing can be integrated out.

        Each inference method calls it once and runs on the result, except for methods whose
        `takes_marginal` is false, which run on the full model.
        """
        ...


@runtime_checkable
class HasMode(Protocol):
    """A model with its own solver for its mode, such as the lasso's."""

    def mode(self, *data: Any, jacobian: bool) -> dict | None:
        """Return all latent sites at the mode, or None to use the general optimiser.

        `MAP` calls it.

        Args:
            data: Arguments of the model.
            jacobian: True for the mode of the unconstrained parameters.
        """
        ...


@runtime_checkable
class HasStartingValues(Protocol):
    """A model that knows values of its parameters without a prior in the units of its data."""

    def starting_values(self, *data: Any) -> dict:
        """Return values of some latent sites, by name; searches for modes also start there.

        Args:
            data: Arguments of the model.
        """
        ...


@runtime_checkable
class ChoosesForm(Protocol):
    """A model with several equivalent forms, suited to different inference methods."""

    def for_method(self, name: str, samples_latents: bool, uses_priors: bool) -> Callable:
        """Return the form for an inference method: a model of the same data.

        Inference methods that use `marginal` call it before `marginal`.

        Args:
            name: Name of the method, for messages.
            samples_latents: True if the method copes with many latents, so that none needs to be
                integrated out.
            uses_priors: False if the method drops the prior densities of the latents.
        """
        ...


@runtime_checkable
class HasPlainForm(Protocol):
    """A model whose sites samplers may replace by others, although it has computations of its own.

    Attributes:
        is_plain: True if this form of the model samples all of its latents.
    """

    is_plain: bool


@runtime_checkable
class HasPredictive(Protocol):
    """A model that knows the distribution of new observations given its latents."""

    def predictive(self, draws: dict, data: tuple, *new_args: Any, seed: int, **kwargs: Any) -> Any:
        """Return the prediction at new arguments, averaged over draws.

        `posterior.predict(*new_args, seed=, **kwargs)` returns this result: a `Prediction`, or an
        object with the same methods.

        Args:
            draws: Draws of all sites, each (S, *site).
            data: Arguments of the fitted model.
            new_args: Arguments to predict at.
            seed: Seed of random draws.
            kwargs: Other options of the prediction.
        """
        ...


def most_draws(model: Any) -> int | None:
    """Number of draws that predictions of a model average by default; None for all.

    A model whose predictions are costly for each draw has a number `most_draws`.
    """
    return getattr(model, "most_draws", None)


@runtime_checkable
class HasLogLikelihood(Protocol):
    """A model that knows the density of each observation given draws of its sites."""

    def pointwise(self, draws: dict, *data: Any) -> Any:
        """Return log p(y_i | draw): (S, *data), or a dict of such arrays by observed site.

        `posterior.log_likelihood()`, LOO and `to_arviz` call it. A model with this method declares
        that its observed sites are not independent given the draws; replicated data are then not
        drawn from these sites.
        """
        ...


@runtime_checkable
class Restorable(Protocol):
    """A model that can be rebuilt from a saved file."""

    def restore(
        self, args: tuple, columns: tuple[str, ...] | None, classes: tuple | None
    ) -> tuple[Callable, tuple]:
        """Return the prepared model and its arguments; `bk.load(path, model)` calls it.

        Args:
            args: The saved arguments of the model.
            columns: Column names of the fitted model.
            classes: Class labels of the fitted model.

        Raises:
            NotKeptError: The file lacks something that predictions need. Any other error means
                that the model differs from the fitted model.
        """
        ...


@runtime_checkable
class HasColumns(Protocol):
    """A model that remembers the columns of the data frame it was fitted to."""

    columns: tuple[str, ...] | None


@runtime_checkable
class HasClasses(Protocol):
    """A model that remembers the class labels of y; None if y has no classes."""

    classes: tuple | None


@runtime_checkable
class HasCoords(Protocol):
    """A model with labels for the axes of its sites, as ArviZ takes them."""

    coords: Mapping


@runtime_checkable
class HasDims(Protocol):
    """A model with names for the axes of its sites, as ArviZ takes them."""

    dims: Mapping


def columns_of(model: object) -> tuple[str, ...] | None:
    """Column names of the data frame that a model was fitted to, or None."""
    return model.columns if isinstance(model, HasColumns) else None


def classes_of(model: object) -> tuple | None:
    """Class labels of y that a model was fitted to, or None."""
    return model.classes if isinstance(model, HasClasses) else None


def coords_of(model: object) -> dict:
    """Labels of the axes of a model's sites; empty if there are none."""
    return dict(model.coords) if isinstance(model, HasCoords) else {}


def dims_of(model: object) -> dict:
    """Names of the axes of a model's sites; empty if there are none."""
    return dict(model.dims) if isinstance(model, HasDims) else {}


# -- optional methods of the distribution of an observed site --------------------------------------


class NewValues(Protocol):
    """Distribution of k new values of a site given the observed ones, at one draw."""

    def mean(self) -> jax.Array:
        """Means: (k,)."""
        ...

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """Means and variances: (k,), (k,)."""
        ...

    def sample(self, key: jax.Array, n: int) -> jax.Array:
        """Joint draws: (n, k)."""
        ...


@runtime_checkable
class ConditionsOnData(Protocol):
    """A joint distribution whose new values depend on observed values, such as a GP."""

    def given(self, value: jax.Array, new: Any, rows: jax.Array) -> NewValues:
        """Return the distribution of new values given observed values.

        For every draw, `posterior.predict` traces the model at the old and at the new arguments,
        and calls this method on the old distribution. It must be traceable by JAX.

        Args:
            value: Observed values, (n,).
            new: Distribution of the same site at the new arguments.
            rows: Indices of the new values to predict, (k,).
        """
        ...


@runtime_checkable
class HasPointwise(Protocol):
    """A joint distribution with a conditional density for each of its values."""

    def pointwise(self, value: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return log p(value_i | others), (..., n), and a mask of observed values, (n,).

        `posterior.log_likelihood()` calls it instead of `log_prob`. It must be traceable by JAX.
        """
        ...


@runtime_checkable
class ApproximatesLatent(Protocol):
    """Distribution with a latent f integrated out by an approximation q.

    Verdicts on the posterior then assess q too: draws of the parameters, joined with draws of f and
    weighted by the ratios below, represent the joint posterior.
    """

    def log_ratio(self, value: jax.Array, key: jax.Array, n: int) -> tuple[jax.Array, jax.Array]:
        """Return n draws of f from q, (n, *f), and log [p(value, f) / (q(f) Z)], (n,).

        Z is the density of `value` according to `log_prob`.
        """
        ...
