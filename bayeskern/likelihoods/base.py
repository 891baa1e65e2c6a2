"""What every likelihood is: the distribution of y given the linear predictor eta."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import numpy as np
from numpyro.distributions import Distribution

from bayeskern import checks
from bayeskern.kernels import hyperparameters as hyper
from bayeskern.kernels.parametrised import Parametrised
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
    #: what it needs of each row beside y, with the value where it is not given
    needs: ClassVar[dict[str, float]] = {}
    #: whether log p(y | eta) is concave in eta whatever the hyperparameters
    log_concave: ClassVar[bool] = True
    #: whether log p(y | eta) has kinks in eta, so that it has no curvature to speak of
    kinked: ClassVar[bool] = False
    #: whether y is one of several classes
    classifies: ClassVar[bool] = False

    def __check_init__(self):
        if self.link is not None:
            checks.one_of("link", self.link, self.links)

    def inverse_link(self, eta):
        """E[y], or what else the link speaks of, from eta."""
        return LINKS[self.link or self.links[0]](eta)

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
        found = self._read_extra(extra or {}, n)
        y = None if y is None else self._read(y, n, found)
        likelihood = self if y is None else self._with_defaults(np.asarray(y))
        return Prepared(likelihood, y, found)

    def mean(self, eta, **extra):
        """E[y | eta]: (n,)."""
        return self.distribution(eta, **extra).mean

    # -- for those who write one ------------------------------------------------------------------

    def _read(self, y, n: int, extra: dict):
        """y as an array, checked."""
        y = checks.targets(y, n)
        self._in_support(np.asarray(y), self._fits(np.asarray(y), **extra))
        return y

    def _fits(self, y, **extra) -> np.ndarray:
        """Which values lie in the support: (n,) bool."""
        return np.ones(y.shape, bool)

    #: the support in words
    wanted: ClassVar[str] = "a number"

    def _in_support(self, y, fits) -> None:
        if not np.all(fits):
            row = int(np.argmin(fits))
            raise ValueError(
                f"y has values outside the support of {type(self).__name__}, the first in row "
                f"{row}: {y[row]}. It must be {self.wanted}."
            )

    def _with_defaults(self, y) -> Self:
        """A copy whose hyperparameters that are None have default priors on the scale of y."""
        return self

    def _read_extra(self, extra: dict, n: int) -> dict:
        for name in extra:
            if name not in self.needs:
                raise ValueError(
                    f"{type(self).__name__} takes no {name}. It takes "
                    f"{', '.join(self.needs) or 'nothing beside X and y'}."
                )
        found = {}
        for name, default in self.needs.items():
            value = extra.get(name)
            value = np.full(n, default) if value is None else value
            if np.ndim(value) == 0 and not checks.is_traced(value):
                value = np.full(n, value)
            found[name] = checks.targets(value, n, name)
            if not checks.is_traced(found[name]) and not np.all(np.asarray(found[name]) > 0):
                row = int(np.argmin(np.asarray(found[name]) > 0))
                raise ValueError(f"{name} must be above 0; row {row} has {found[name][row]}.")
        return found

    def sample(self, prefix: str = "likelihood") -> Self:
        """Values for the hyperparameters, inside a NumPyro model: sites `likelihood.<name>`."""
        return hyper.sample(self, prefix)

    def _arguments(self) -> list[str]:
        shown = [] if self.link in (None, self.links[0]) else [f"link={self.link!r}"]
        return [*super()._arguments(), *shown]
