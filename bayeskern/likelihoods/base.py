"""Base class of likelihoods: the distribution of y given the linear predictor eta."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution

from bayeskern import hyperparameters as hyper
from bayeskern.core import validation
from bayeskern.hyperparameters.parametrized import Parametrized
from bayeskern.likelihoods.links import LINKS


class Prepared(NamedTuple):
    """Result of `Likelihood.prepare`: a likelihood adapted to data, and the data.

    Attributes:
        likelihood: The likelihood with default priors set and classes known.
        y: Targets, shape (n,), or (n, outputs) for compositions; None if none were given.
        extra: Further values that the likelihood needs of each row (`exposure`, `trials`), by
            name, each of shape (n,).
    """

    likelihood: Likelihood
    y: Array | None
    extra: dict[str, Array]


class Likelihood(Parametrized):
    """Distribution p(y | eta) given a linear predictor or latent function eta.

    A link g relates them: g(E[y]) = eta. Hyperparameters are numbers, NumPyro distributions or
    `Free`, as in kernels; a hyperparameter that is None gets a default prior from the data.

    To write a likelihood, subclass `Likelihood`, declare its hyperparameters with
    `bayeskern.kernels.hyperparameter`, and define `distribution`. The other methods have defaults.
    Subclasses most often override `in_support` (possible values of y), `with_default_priors`
    (priors on the scale of y), `eta_location_scale` (location of eta, for the default priors of
    linear models) and `vanishing_tails` (whether the data bound eta).

    Args:
        link: Name of the link, one of `links`; the first by default.

    Attributes:
        links: Names of the supported links; the first is the default.
        needs: Further values that the likelihood needs of each row: name -> default, or None if
            the value is required.
        log_concave: Whether log p(y | eta) is concave in eta for all hyperparameters.
        kinked: Whether log p(y | eta) has kinks in eta, so that its curvature is not informative.
        classifies: Whether y is one of several classes; `probabilities(eta)` is then defined.
        classes: Labels of the classes, once known; None if y has no classes.
        is_ordered: Whether the classes have an order.
        multivariate: Whether each row has several linear predictors, also if their number is not
            known before the data are.
        takes_intercept: Whether eta takes an intercept; False if parameters of the likelihood
            replace it, such as the cutpoints of `Ordered`.
        support_description: Possible values of y in words, for error messages.

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
    multivariate: ClassVar[bool] = False
    takes_intercept: ClassVar[bool] = True
    support_description: ClassVar[str] = "a number"

    _classes: ClassVar[list[type[Likelihood]]] = []

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        Likelihood._classes.append(cls)

    @staticmethod
    def registered() -> list[type[Likelihood]]:
        """All likelihoods, with those of your own, in the order of their definition."""
        return [cls for cls in Likelihood._classes if not inspect.isabstract(cls)]

    def __check_init__(self):
        if self.link is not None:
            validation.one_of("link", self.link, self.links)

    # -- required of every likelihood -------------------------------------------------------------

    @abstractmethod
    def distribution(self, eta: Array, **extra: Array) -> Distribution:
        """Distribution of y given eta.

        Args:
            eta: Linear predictor or latent function, shape (n,), or (n, outputs).
            **extra: The values named in `needs`, each of shape (n,).

        Returns:
            A NumPyro distribution with batch shape (n,).
        """

    # -- defaults that subclasses override --------------------------------------------------------

    @property
    def outputs(self) -> int | None:
        """Number of linear predictors of each row; None for one, that is, eta is (n,)."""
        return None

    @property
    def noise_variance(self) -> Array | None:
        """Variance of Gaussian noise around eta; None for any other likelihood."""
        return None

    def mean(self, eta: Array, **extra: Array) -> Array:
        """Mean E[y | eta].

        Args:
            eta: Shape (n,), or (n, outputs).
            **extra: The values named in `needs`, each of shape (n,).

        Returns:
            An array of shape (n,).
        """
        return self.distribution(eta, **extra).mean

    def probabilities(self, eta: Array, **extra: Array) -> Array:
        """Probability of each class given eta, for likelihoods of classes.

        Args:
            eta: Shape (n,), or (n, outputs).
            **extra: The values named in `needs`, each of shape (n,).

        Returns:
            Shape (n, K).

        Raises:
            NotImplementedError: If y is not one of several classes.
        """
        raise NotImplementedError(f"{type(self).__name__} is not a likelihood of classes.")

    def vanishing_tails(self, y: np.ndarray, **extra: Array) -> tuple[np.ndarray, np.ndarray]:
        """Mark rows whose density vanishes as eta goes to infinity, or to -infinity.

        A value at an end of the support, such as a class or a count of 0, bounds eta on one side
        only. Under flat priors this detects separated data.

        Args:
            y: Targets as `prepare` returned them, shape (n,).
            **extra: The values named in `needs`, each of shape (n,).

        Returns:
            Two boolean arrays of shape (n,); all True by default.
        """
        return np.ones(len(y), bool), np.ones(len(y), bool)

    def eta_location_scale(self, y: np.ndarray, extra: Mapping[str, Array]) -> tuple[float, float]:
        """Estimate location and scale of eta from the data, for default priors on eta.

        Args:
            y: Targets as `prepare` returned them.
            extra: Values named in `needs`, as `prepare` returned them.

        Returns:
            The location and the standard deviation, the same for all outputs; (0, 1) by default.
            The standard deviation is above 0 even if y is constant.
        """
        return 0.0, 1.0

    def read_targets(self, y: ArrayLike, n: int) -> Array:
        """Convert y to an array with one row for each of n points.

        Args:
            y: The targets of the user.
            n: Number of points.

        Returns:
            An array of n rows.

        Raises:
            ValueError: If y is not numeric, has NaN or infinite values, or does not have n rows.
        """
        return validation.targets(y, n)

    def in_support(self, y: np.ndarray, **extra: np.ndarray) -> np.ndarray:
        """Mark the rows of y in the support: a boolean array of shape (n,)."""
        return np.ones(y.shape, bool)

    def with_default_priors(self, y: np.ndarray) -> Self:
        """Copy with default priors, on the scale of y, for hyperparameters that are None.

        Subclasses return `self.with_hyperparameters(name=prior)`.
        """
        return self

    # -- exponential families ----------------------------------------------------------------------
    #
    # p(y | eta) = h(y) exp(theta'T(y) - a(theta)). A family defines theta and a, and T and h unless
    # these are y and 1.

    def natural_parameter(self, eta: Array, **extra: Array) -> Array:
        """Natural parameter theta of p(y | eta) = h(y) exp(theta'T(y) - a(theta)).

        Args:
            eta: Shape (n,), or (n, outputs).
            **extra: The values named in `needs`, each of shape (n,).

        Returns:
            Shape (n,) for one statistic T(y), (n, q) for q statistics.

        Raises:
            NotImplementedError: If the likelihood is not an exponential family.

        References:
            McCullagh and Nelder (1989), Generalized Linear Models, section 2.2.2.
        """
        raise self._not_exponential()

    def log_normalizer(self, theta: Array, **extra: Array) -> Array:
        """Log normalizer a(theta): its gradient is E[T(y)], its Hessian cov[T(y)].

        Args:
            theta: Natural parameter, (n,) or (n, q).
            **extra: The values named in `needs`, each of shape (n,).

        Returns:
            Shape (n,).

        Raises:
            NotImplementedError: If the likelihood is not an exponential family.
        """
        raise self._not_exponential()

    def sufficient_statistic(self, y: Array) -> Array:
        """Sufficient statistic T(y), with the shape of the natural parameter; raises likewise."""
        if type(self).log_normalizer is Likelihood.log_normalizer:
            raise self._not_exponential()
        return jnp.asarray(y)

    def base_measure(self, y: Array, **extra: Array) -> Array:
        """Base measure h(y), shape (n,); raises likewise."""
        self.sufficient_statistic(y)
        return jnp.ones(jnp.shape(y))

    def _not_exponential(self) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__} is not an exponential family: its density does not have the "
            "form h(y) exp(theta'T(y) - a(theta)). Use distribution(eta).log_prob(y)."
        )

    # -- for users of a likelihood ----------------------------------------------------------------

    @property
    def link_name(self) -> str:
        """Name of the link in use."""
        return self.link or self.links[0]

    def inverse_link(self, eta: Array) -> Array:
        """E[y] from eta: the inverse of the link."""
        return LINKS[self.link_name](eta)

    def prepare(
        self, y: ArrayLike | None, n: int, extra: Mapping[str, ArrayLike] | None = None
    ) -> Prepared:
        """Read targets for n points: check them, learn the classes, set default priors.

        Args:
            y: Targets, one for each point; None if there are none.
            n: Number of points.
            extra: Values named in `needs`, each a number or n numbers.

        Returns:
            The likelihood adapted to these data, the targets and the extra values as arrays.

        Raises:
            ValueError: If a row of y lies outside the support (the message gives the first), if
                `extra` has a name that is not in `needs`, or if a required value is missing.
        """
        values = self.read_extra(extra or {}, n)
        if y is None:
            return Prepared(self, None, values)
        targets = self.read_targets(y, n)
        if any(validation.is_traced(value) for value in (targets, *values.values())):
            return Prepared(self, targets, values)
        concrete_targets = np.asarray(targets)
        self._require_support(concrete_targets, **values)
        return Prepared(self.with_default_priors(concrete_targets), targets, values)

    def read_extra(self, extra: Mapping[str, ArrayLike], n: int) -> dict[str, Array]:
        """Read the values named in `needs` for n rows.

        Args:
            extra: Values by name, each a number or n numbers.
            n: Number of rows.

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
                    f"{', '.join(self.needs) or 'nothing besides X and y'}."
                )
        return {
            name: self._read_one_extra(name, extra.get(name), default, n)
            for name, default in self.needs.items()
        }

    def sample(self, prefix: str = "likelihood") -> Self:
        """Sample the hyperparameters inside a NumPyro model.

        Args:
            prefix: Prefix of the site names, as in `prefix.name`; "" for no prefix.

        Returns:
            A copy with the sampled hyperparameters.
        """
        return hyper.sample(self, prefix)

    def with_hyperparameters(self, **values: object) -> Self:
        """Copy with these hyperparameters: numbers, distributions or `Free`."""
        hyperparameters = [hyper.as_hyperparameter(value) for value in values.values()]
        return hyper.replace(self, [(name,) for name in values], hyperparameters)

    def _require_support(self, y: np.ndarray, **extra: Array) -> None:
        inside = self.in_support(y, **{name: np.asarray(value) for name, value in extra.items()})
        if not np.all(inside):
            row = int(np.argmin(inside))
            row_extra = "".join(f" ({name} {float(value[row]):g})" for name, value in extra.items())
            raise ValueError(
                f"y has values outside the support of {type(self).__name__}, the first in row "
                f"{row}: {y[row]}{row_extra}. It must be {self.support_description}."
            )

    def _read_one_extra(
        self, name: str, value: ArrayLike | None, default: float | None, n: int
    ) -> Array:
        value = default if value is None else value
        if value is None:
            raise ValueError(
                f"{type(self).__name__} needs {name}: give one number for all rows, or one for "
                f"each of the {n} rows."
            )
        value = jnp.full(n, jnp.asarray(value), float) if np.ndim(value) == 0 else value
        array = validation.targets(value, n, name)
        if not validation.is_traced(array) and not np.all(np.asarray(array) > 0):
            row = int(np.argmin(np.asarray(array) > 0))
            raise ValueError(f"{name} must be above 0; row {row} has {array[row]}.")
        return array

    def _arguments(self) -> list[str]:
        shown = [] if self.link in (None, self.links[0]) else [f"link={self.link!r}"]
        return [*super()._arguments(), *shown]
