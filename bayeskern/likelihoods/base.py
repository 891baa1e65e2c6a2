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
from bayeskern.hyperparameters.parametrised import Parametrised
from bayeskern.likelihoods.links import LINKS


class Prepared(NamedTuple):
    """A likelihood that knows its data: its default priors are set, its classes are known.

    y: (n,), or (n, outputs) for compositions; None where there is none. extra: what it needs of
    each row beside y, by name (`exposure`, `trials`), each (n,).
    """

    likelihood: Likelihood
    y: jax.Array | None
    extra: dict[str, jax.Array]


class Likelihood(Parametrised):
    """p(y | eta), eta being a linear predictor or a latent function, through a link.

    g(E[y]) = eta with the link g. Hyperparameters are numbers, NumPyro distributions or `Free`, as
    in kernels; one that is None gets a default prior from the data.
    """

    #: the name of the link, None for the default
    link: str | None = eqx.field(static=True, default=None, kw_only=True)

    #: the links it knows, the default first
    links: ClassVar[tuple[str, ...]] = ("identity",)
    #: what it needs of each row beside y, with the value where it is not given; None if it must be
    needs: ClassVar[dict[str, float | None]] = {}
    #: whether log p(y | eta) is concave in eta whatever the hyperparameters
    log_concave: ClassVar[bool] = True
    #: whether log p(y | eta) has kinks in eta, so that it has no curvature to speak of
    kinked: ClassVar[bool] = False
    #: whether y is one of several classes
    classifies: ClassVar[bool] = False
    #: whether those classes have an order
    is_ordered: ClassVar[bool] = False
    #: whether eta wants an intercept; not where the likelihood has one of its own
    takes_intercept: ClassVar[bool] = True
    #: the support in words
    wanted: ClassVar[str] = "a number"

    def __check_init__(self):
        if self.link is not None:
            validation.one_of("link", self.link, self.links)

    @property
    def link_name(self) -> str:
        """The link that it uses, by name."""
        return self.link or self.links[0]

    def inverse_link(self, eta):
        """E[y], or what else the link speaks of, from eta."""
        return LINKS[self.link_name](eta)

    @abstractmethod
    def distribution(self, eta, **extra) -> Distribution:
        """The distribution of y at eta (n,), or (n, outputs); batch shape (n,)."""

    @property
    def outputs(self) -> int | None:
        """How many numbers eta has for each row; None for one, without an axis of its own."""
        return None

    def prepare(self, y, n: int, extra: dict | None = None) -> Prepared:
        """Read targets for n points: check them, learn the classes, set default priors.

        extra: what was given beside y. Raises ValueError naming the first row of y that lies
        outside the support, and on anything in `extra` that it does not take.
        """
        found = self.read_extra(extra or {}, n)
        if y is None:
            return Prepared(self, None, found)
        y = self._read(y, n)
        if any(validation.is_traced(value) for value in (y, *found.values())):
            return Prepared(self, y, found)
        values = np.asarray(y)
        self._in_support(values, **found)
        return Prepared(self._learn(values), y, found)

    def read_extra(self, extra: dict, n: int) -> dict[str, jax.Array]:
        """What it needs of each of n rows beside y, by name, each (n,).

        Raises ValueError on what it does not take, and on what is missing or not above 0.
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

    def mean(self, eta, **extra):
        """E[y | eta]: (n,)."""
        return self.distribution(eta, **extra).mean

    def restrained(self, y, **extra) -> tuple[np.ndarray, np.ndarray]:
        """In which rows the density of y vanishes as eta rises without bound, and as it falls.

        (n,) bool each. y that lies at an end of its range, as a class does, lets eta go.
        """
        return np.ones(len(y), bool), np.ones(len(y), bool)

    def level(self, y, extra: dict) -> tuple[float, float]:
        """About where eta lies, and how far it may vary: (level, sd), for default priors on it.

        y, extra: as `prepare` returned them. The same for all outputs; sd is above 0 even where y
        is constant.
        """
        return 0.0, 1.0

    def sample(self, prefix: str = "likelihood") -> Self:
        """Values for the hyperparameters, inside a NumPyro model: sites `likelihood.<name>`."""
        return hyper.sample(self, prefix)

    # -- for those who write one ------------------------------------------------------------------

    def _read(self, y, n: int):
        """y as an array of finite numbers, one a row."""
        return validation.targets(y, n)

    def _fits(self, y: np.ndarray, **extra) -> np.ndarray:
        """Which rows lie in the support: (n,) bool."""
        return np.ones(y.shape, bool)

    def _learn(self, y: np.ndarray) -> Self:
        """A copy whose hyperparameters that are None have default priors on the scale of y."""
        return self

    def _default(self, **priors) -> Self:
        """A copy with these hyperparameters."""
        values = [hyper.as_hyperparameter(prior) for prior in priors.values()]
        return hyper.replace(self, [(name,) for name in priors], values)

    def _in_support(self, y: np.ndarray, **extra) -> None:
        fits = self._fits(y, **{name: np.asarray(value) for name, value in extra.items()})
        if not np.all(fits):
            row = int(np.argmin(fits))
            beside = "".join(f" ({name} {float(value[row]):g})" for name, value in extra.items())
            raise ValueError(
                f"y has values outside the support of {type(self).__name__}, the first in row "
                f"{row}: {y[row]}{beside}. It must be {self.wanted}."
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
