"""What a model, or the distribution of an observed site, may offer beyond its density.

Every model works without any of this: a plain function of sites is fitted through its log density,
and predicts by drawing its observed sites anew. A model that knows more says so by having the
methods below; no base class is needed, since the protocols are checked by `isinstance` at run time.
`docs/extend.md` has examples.

Data are what the model is called with: `model(*data)`. Draws are a dict of arrays by site, each of
shape (S, *site). What is offered never returns a Posterior: the methods of inference make those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax

# -- what the methods of a model return ------------------------------------------------------------


class ClosedForm(NamedTuple):
    """A posterior in closed form, as `exact(*data)` returns it.

    Attributes:
        draw: (key, n) -> independent draws of every latent and deterministic site, each (n, *site).
        log_evidence: log p(data).
        residual: Relative residual of the linear solve behind it; 0 where nothing was solved.
    """

    draw: Callable[[jax.Array, int], dict]
    log_evidence: float
    residual: float = 0.0


class Marginal(NamedTuple):
    """A model with latents integrated out, or moved to better axes, as `marginal` returns it.

    Attributes:
        model: The NumPyro model that the methods run in place of the full one.
        args: Its arguments.
        recover: (draws, key, mean) -> draws of every site of the full model, each (S, *site), given
            draws of this one, each (S, *site). What was integrated out is drawn from its
            conditional distribution, or is its conditional mean where `mean` is true.
    """

    model: Callable
    args: tuple
    recover: Callable[[dict, jax.Array, bool], dict]


class DoesNotApplyError(ValueError):
    """A method does not apply to this model; the message says why, and what to take instead."""


class NoClosedFormError(DoesNotApplyError):
    """The model has no closed form as it stands; the message says why."""


class NotKeptError(ValueError):
    """A file does not keep what a model needs to predict."""


# -- what a model may offer ------------------------------------------------------------------------


@runtime_checkable
class PreparesData(Protocol):
    """A model that reads its own data: it checks them, resolves columns, sets default priors."""

    def prepare(self, *args, **kwargs) -> tuple[Callable, tuple]:
        """The model that is fitted, and its positional arguments as arrays.

        `infer`, `prior_predictive` and `calibrate` call it once, before anything is traced, with
        the arguments that they were given.
        """


@runtime_checkable
class HasClosedForm(Protocol):
    """A model whose posterior is known in closed form, for some data at least."""

    def exact(self, *data) -> ClosedForm:
        """The posterior, or NoClosedFormError with the reason why there is none.

        `Exact` calls it, and `Auto` before it tries anything else.
        """


@runtime_checkable
class HasMarginal(Protocol):
    """A model that can integrate some of its latents out."""

    def marginal(self, *data) -> Marginal | None:
        """The model that is left, and the way back; None where nothing can be integrated out.

        Every method but those that take the model as it is written (`Method.takes_marginal`) calls
        it once, and runs on what it returns.
        """


@runtime_checkable
class HasMode(Protocol):
    """A model with a solver of its own for its mode, such as the lasso's."""

    def mode(self, *data, jacobian: bool) -> dict | None:
        """The values of all latent sites at the mode; None where the usual search is as good.

        `MAP` calls it. jacobian: whether the mode is that of the unconstrained parameters.
        """


@runtime_checkable
class ChoosesForm(Protocol):
    """A model that has several forms of one posterior, each best for other methods."""

    def for_method(self, name: str) -> Callable:
        """The form for the method of that name: a model of the same data.

        It is called before `marginal`, by every method that would run on a marginal.
        """


@runtime_checkable
class HasPredictive(Protocol):
    """A model that knows the distribution of new observations given its latents."""

    def predictive(self, draws: dict, data: tuple, *new_args, seed: int, **kwargs) -> Any:
        """The prediction at new arguments, averaged over draws of all sites, each (S, *site).

        `posterior.predict(*new_args, seed=, **kwargs)` calls it and returns what it returns: a
        `Prediction` or an object with the same methods. data: the arguments that the model was
        fitted to.
        """


@runtime_checkable
class HasLogLikelihood(Protocol):
    """A model that knows the density of each observation given draws of its sites."""

    def pointwise(self, draws: dict, *data) -> Any:
        """log p(y_i | draw): (S, *data), or a dict of such arrays by observed site.

        `posterior.log_likelihood()` calls it, and with it LOO and `to_arviz`. A model that offers
        it says that the observations of its NumPyro model, as it stands, are not those given the
        draws; no replicates of the data are then drawn from it.
        """


@runtime_checkable
class Restorable(Protocol):
    """A model that can be made anew from what a file keeps of it."""

    def restore(
        self, args: tuple, columns: tuple[str, ...] | None, classes: tuple | None
    ) -> tuple[Callable, tuple]:
        """The model, prepared again, and its arguments, from the arguments that a file has kept.

        `bk.load(path, model)` calls it. columns, classes: as the fitted model had them. Raises
        NotKeptError, with the reason, where the file does not keep what predictions need; any other
        error says that the model is not the one that was fitted.
        """


@runtime_checkable
class HasColumns(Protocol):
    """A model that remembers the columns of the data frame it was fitted to."""

    columns: tuple[str, ...] | None


@runtime_checkable
class HasClasses(Protocol):
    """A model that remembers the labels of the classes of its y; None if y has no classes."""

    classes: tuple | None


@runtime_checkable
class HasCoords(Protocol):
    """A model that has labels for the axes of its sites, as ArviZ takes them."""

    coords: Mapping


def columns_of(model) -> tuple[str, ...] | None:
    """The columns of the data frame that a model was fitted to, where it knows them."""
    return model.columns if isinstance(model, HasColumns) else None


def classes_of(model) -> tuple | None:
    """The labels of the classes that a model was fitted to, where it knows them."""
    return model.classes if isinstance(model, HasClasses) else None


def coords_of(model) -> dict:
    """The labels of the axes of a model's sites, where it has some."""
    return dict(model.coords) if isinstance(model, HasCoords) else {}


# -- what the distribution of an observed site may offer -------------------------------------------


class NewValues(Protocol):
    """The distribution of k new values of a site given the old ones, at one draw."""

    def mean(self) -> jax.Array:
        """Their means: (k,)."""

    def moments(self) -> tuple[jax.Array, jax.Array]:
        """Their means and variances: (k,), (k,)."""

    def sample(self, key, n: int) -> jax.Array:
        """Joint draws: (n, k)."""


@runtime_checkable
class ConditionsOnData(Protocol):
    """A joint distribution whose new values depend on the old ones, as a Gaussian process is."""

    def given(self, value, new, rows) -> NewValues:
        """New values, at the rows (k,) of the distribution `new`, given the observed ones (n,).

        `posterior.predict` traces the model at the old and at the new arguments, at every draw, and
        calls it on the old distribution with the new one. It is traced by JAX.
        """


@runtime_checkable
class HasPointwise(Protocol):
    """A joint distribution that has a density for each of its values."""

    def pointwise(self, value) -> tuple[jax.Array, jax.Array]:
        """log p(value_i | all others): (..., n), and which of them count: (n,) bool.

        `posterior.log_likelihood()` calls it in the place of `log_prob`. It is traced by JAX.
        """


@runtime_checkable
class ApproximatesLatent(Protocol):
    """A distribution that integrates a latent out by an approximation q, as Laplace's.

    A verdict on the posterior then looks at q too: together with draws of the parameters, draws of
    the latent and their ratios are weighted draws from the joint posterior.
    """

    def log_ratio(self, value, key, n: int) -> tuple[jax.Array, jax.Array]:
        """n draws of the latent f from q: (n, *f); and log p(value, f) / (q(f) Z) of each: (n,).

        Z is the density that `log_prob` reports.
        """
