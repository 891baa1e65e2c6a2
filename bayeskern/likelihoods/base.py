"""What every likelihood is: the distribution of y given the linear predictor eta."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.hyperparameters.parametrized import Parametrized
from bayeskern.likelihoods.links import LINKS


class Prepared(NamedTuple):
    """What `Likelihood.prepare` returns: a likelihood that knows its data, and those data.

    Attributes:
        likelihood: The likelihood with its default priors set and its classes known.
        y: The targets, shape (n,), or (n, outputs) for compositions; None if there were none.
        extra: The values that it needs of each row beside y (`exposure`, `trials`), by name, each
            of shape (n,).
    """

    likelihood: Likelihood
    y: jax.Array | None
    extra: dict[str, jax.Array]


class Likelihood(Parametrized):
    """The distribution p(y | eta) of observations, eta being a linear predictor or latent function.

    A link g relates the two: g(E[y]) = eta. Hyperparameters are numbers, NumPyro distributions or
    `Free`, as in kernels; one that is None gets a default prior from the data.

    To write one, subclass it, declare its hyperparameters with `bayeskern.kernels.hyperparameter`,
    and define `distribution`. The other methods have defaults. Those that a subclass most often
    overrides are `in_support` (which values of y are possible), `with_default_priors` (priors on
    the scale of y), `eta_location_scale` (where eta lies, for the default priors of linear models)
    and `vanishing_tails` (whether the data bound eta).

    Args:
        link: The name of the link, one of `links`; the first of them by default.

    Attributes:
        links: The links it knows, by name, the default first.
        needs: The values that it needs of each row beside y, by name, each with the value where
            it is not given, or None if it must be given.
        log_concave: Whether log p(y | eta) is concave in eta whatever the hyperparameters.
        kinked: Whether log p(y | eta) has kinks in eta, so that its curvature says nothing.
        classifies: Whether y is one of several classes. It then has `probabilities(eta)`.
        classes: The labels of these classes, once they are known; None elsewhere.
        is_ordered: Whether these classes have an order.
        takes_intercept: Whether eta takes an intercept; False if the likelihood has one of its
            own, such as the cutpoints of `Ordered`.
        support_description: The values that y may take, in words, for error messages.

    References:
        McCullagh and Nelder (1989), Generalized Linear Models.

    Examples:
        Counts of rare events, whose variance equals their mean:

        >>> import jax.numpy as jnp
        >>> import numpyro.distributions as dist
        >>> from bayeskern.likelihoods import Likelihood
        >>> class Counts(Likelihood):
        ...     links = ("log",)
        ...     support_description = "a whole number of at least 0"
        ...
        ...     def distribution(self, eta):
        ...         return dist.Poisson(self.inverse_link(eta))
        ...
        ...     def in_support(self, y):
        ...         return (y >= 0) & (y == y.round())
        >>> float(Counts().mean(jnp.log(3.0)).round(2))
        3.0
        >>> Counts().prepare([1, 0, -2], n=3)
        Traceback (most recent call last):
        ValueError: y has values outside the support of Counts, the first in row 2: -2.0. \
It must be a whole number of at least 0.
    """

    link: str | None = eqx.field(static=True, default=None, kw_only=True)

    links: ClassVar[tuple[str, ...]] = ("identity",)
    needs: ClassVar[dict[str, float | None]] = {}
    log_concave: ClassVar[bool] = True
    kinked: ClassVar[bool] = False
    classifies: ClassVar[bool] = False
    classes: ClassVar[tuple | None] = None
    is_ordered: ClassVar[bool] = False
    takes_intercept: ClassVar[bool] = True
    support_description: ClassVar[str] = "a number"

    def __check_init__(self):
        if self.link is not None:
            validation.one_of("link", self.link, self.links)

    # -- what every likelihood has to say ---------------------------------------------------------

    @abstractmethod
    def distribution(self, eta, **extra) -> Distribution:
        """The distribution of y given eta.

        Args:
            eta: The linear predictor or latent function, shape (n,), or (n, outputs).
            **extra: The values named in `needs`, each of shape (n,).

        Returns:
            A NumPyro distribution with batch shape (n,).
        """

    # -- what it may say otherwise ----------------------------------------------------------------

    @property
    def outputs(self) -> int | None:
        """The number of linear predictors of each row; None for one, without an axis of its own."""
        return None

    @property
    def noise_variance(self):
        """The variance of Gaussian noise; None where y is not eta with Gaussian noise."""
        return None

    def mean(self, eta, **extra):
        """The mean E[y | eta].

        Args:
            eta: Shape (n,), or (n, outputs).
            **extra: The values named in `needs`, each of shape (n,).

        Returns:
            An array of shape (n,).
        """
        return self.distribution(eta, **extra).mean

    def vanishing_tails(self, y, **extra) -> tuple[np.ndarray, np.ndarray]:
        """Tell in which rows the density of y vanishes as eta grows to infinity, and to -infinity.

        A value at an end of the support, such as a class or a count of 0, leaves eta unbounded on
        one side. Under flat priors this finds data that are separated.

        Args:
            y: The targets as `prepare` returned them, shape (n,).
            **extra: The values named in `needs`, each of shape (n,).

        Returns:
            Two boolean arrays of shape (n,); all True by default.
        """
        return np.ones(len(y), bool), np.ones(len(y), bool)

    def eta_location_scale(self, y, extra: dict) -> tuple[float, float]:
        """Guess from the data where eta lies and how far it varies, for default priors on it.

        Args:
            y: The targets as `prepare` returned them.
            extra: The values named in `needs`, as `prepare` returned them.

        Returns:
            The location and the standard deviation, the same for all outputs; (0, 1) by default.
            The standard deviation is above 0 even where y is constant.
        """
        return 0.0, 1.0

    def read_targets(self, y, n: int):
        """Turn y as a user gives it into an array with one row for each of n points.

        Raises:
            ValueError: If y is not numeric, has NaN or infinite values, or has not n rows.
        """
        return validation.targets(y, n)

    def in_support(self, y: np.ndarray, **extra) -> np.ndarray:
        """Tell which rows of y lie in the support: a boolean array of shape (n,)."""
        return np.ones(y.shape, bool)

    def with_default_priors(self, y: np.ndarray) -> Self:
        """Return a copy whose hyperparameters that are None have default priors on the scale of y.

        `with_hyperparameters` makes such a copy.
        """
        return self

    # -- what it offers its users -----------------------------------------------------------------

    @property
    def link_name(self) -> str:
        """The name of the link that it uses."""
        return self.link or self.links[0]

    def inverse_link(self, eta):
        """E[y] from eta: the inverse of the link."""
        return LINKS[self.link_name](eta)

    def prepare(self, y, n: int, extra: dict | None = None) -> Prepared:
        """Read targets for n points: check them, learn the classes, set default priors.

        Args:
            y: The targets, one for each point; None if there are none.
            n: The number of points.
            extra: The values named in `needs`, each one number or n of them.

        Returns:
            The likelihood that knows these data, the targets and the extra values as arrays.

        Raises:
            ValueError: If a row of y lies outside the support (the first is named), if `extra` has
                a name that is not in `needs`, or if a value that it needs is missing.
        """
        extra = self.read_extra(extra or {}, n)
        if y is None:
            return Prepared(self, None, extra)
        y = self.read_targets(y, n)
        if any(validation.is_traced(value) for value in (y, *extra.values())):
            return Prepared(self, y, extra)
        targets = np.asarray(y)
        self._require_support(targets, **extra)
        return Prepared(self.with_default_priors(targets), y, extra)

    def read_extra(self, extra: dict, n: int) -> dict[str, jax.Array]:
        """Read the values that it needs of each of n rows beside y.

        Args:
            extra: The values by name, each one number or n of them.
            n: The number of rows.

        Returns:
            Every value named in `needs`, each of shape (n,).

        Raises:
            ValueError: If `extra` has a name that is not in `needs`, or if a value is missing or
                not above 0.
        """
        for name in extra:
            if name not in self.needs:
                raise ValueError(
                    f"{type(self).__name__} takes no {name}. It takes "
                    f"{', '.join(self.needs) or 'nothing beside X and y'}."
                )
        return {
            name: self._read_one_extra(name, extra.get(name), default, n)
            for name, default in self.needs.items()
        }

    def sample(self, prefix: str = "likelihood") -> Self:
        """Sample the hyperparameters inside a NumPyro model.

        Args:
            prefix: What the names of the sites begin with, before a dot; "" for nothing.

        Returns:
            A copy whose hyperparameters are these values.
        """
        return hyper.sample(self, prefix)

    def with_hyperparameters(self, **values) -> Self:
        """Return a copy with these hyperparameters: numbers, distributions or `Free`."""
        hyperparameters = [hyper.as_hyperparameter(value) for value in values.values()]
        return hyper.replace(self, [(name,) for name in values], hyperparameters)

    def _require_support(self, y: np.ndarray, **extra) -> None:
        inside = self.in_support(y, **{name: np.asarray(value) for name, value in extra.items()})
        if not np.all(inside):
            row = int(np.argmin(inside))
            row_extra = "".join(f" ({name} {float(value[row]):g})" for name, value in extra.items())
            raise ValueError(
                f"y has values outside the support of {type(self).__name__}, the first in row "
                f"{row}: {y[row]}{row_extra}. It must be {self.support_description}."
            )

    def _read_one_extra(self, name: str, value, default: float | None, n: int):
        value = default if value is None else value
        if value is None:
            raise ValueError(
                f"{type(self).__name__} needs {name}: give it as one number for all rows, or as "
                f"one for each of the {n}."
            )
        value = jnp.full(n, value, float) if np.ndim(value) == 0 else value
        value = validation.targets(value, n, name)
        if not validation.is_traced(value) and not np.all(np.asarray(value) > 0):
            row = int(np.argmin(np.asarray(value) > 0))
            raise ValueError(f"{name} must be above 0; row {row} has {value[row]}.")
        return value

    def _arguments(self) -> list[str]:
        shown = [] if self.link in (None, self.links[0]) else [f"link={self.link!r}"]
        return [*super()._arguments(), *shown]
