"""Exchangeable members of latent sites, whose order does not change the density.

Examples are the components of a mixture, the states of a hidden Markov model and the hidden units
of a network. A posterior holds every order of K members: each mode has K! copies.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core.batching import BATCH
from bayeskern.inference.model.evaluation import constrain, log_densities
from bayeskern.inference.model.target import Target

# Largest number of copies of a mode: all orders of four members.
MAX_COPIES = 24


@dataclass(frozen=True, eq=False)
class Exchange:
    """K exchangeable members along axes of latent sites.

    Attributes:
        target: The density.
        size: K, the number of members.
        axes: Axes along which they lie, by the name of each site.
    """

    target: Target
    size: int
    axes: dict[str, tuple[int, ...]]

    def __repr__(self) -> str:
        return f"{self.size} members of {', '.join(self.axes)}"

    def permuted(self, z: np.ndarray, orders: np.ndarray) -> np.ndarray:
        """z (n, d) with the members of each row in the order of `orders`, (n, K) or (1, K)."""
        values = self._values(z)
        for name, axes in self.axes.items():
            for axis in axes:
                shape = np.ones(values[name].ndim, int)
                shape[[0, axis + 1]] = orders.shape
                at = np.reshape(orders, shape)
                values[name] = np.take_along_axis(values[name], at, axis=axis + 1)
        return self._joined(values)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Log density of the constrained values of the exchanged sites: (n,).

        Without a Jacobian, since that of a simplex depends on the order of its components.
        """
        log_p = log_densities(self.target, z)
        if self._is_plain:
            return log_p
        return log_p - jax.device_get(_unconstrained(self.target, self._values(z))[1])

    def holds(self, z: np.ndarray) -> bool:
        """True if the density at z (n, d) does not change in two other orders.

        A swap of two members and a cyclic shift generate all orders.
        """
        orders = np.repeat([self.swap, np.roll(np.arange(self.size), 1)], len(z), axis=0)
        others = self.permuted(np.tile(z, (2, 1)), orders)
        log_p = self.log_density(np.concatenate([z, others]))
        before, after = log_p[: len(z)], log_p[len(z) :].reshape(2, -1)
        # The order of a sum changes a log density by rounding. Written so that NaN does not agree.
        return bool(np.all(np.abs(after - before) <= 1e-6 + 1e-8 * np.abs(before)))

    def sort_keys(self, z: np.ndarray) -> np.ndarray:
        """A number for each member that does not depend on its position: (n, K)."""
        values = self._values(z)
        site = min(self.axes, key=lambda name: (name not in self._plain_sites, values[name].ndim))
        members = np.moveaxis(values[site], self.axes[site][0] + 1, 1)
        # Squares, since the sum of a simplex is one.
        members = members if site in self._plain_sites else np.square(members)
        return np.sum(members.reshape(len(z), self.size, -1), axis=-1)

    def copies(self, z: np.ndarray) -> np.ndarray:
        """Copies of a point z (d,) in all other orders, or in one of many: (m, d)."""
        orders = self.swap[None]
        if math.factorial(self.size) <= MAX_COPIES:
            orders = np.array(list(itertools.permutations(range(self.size)))[1:])
        return self.permuted(np.tile(z, (len(orders), 1)), orders)

    @property
    def swap(self) -> np.ndarray:
        """The order with the first two members exchanged."""
        return np.r_[1, 0, np.arange(2, self.size)]

    @cached_property
    def _plain_sites(self) -> set[str]:
        """Sites with an unconstrained coordinate for each value."""
        return {s.name for s in self.target.latents if s.shape == s.unconstrained_shape}

    @property
    def _is_plain(self) -> bool:
        return set(self.axes) <= self._plain_sites

    def _values(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Latent sites at z (n, d), unconstrained if all exchanged sites are plain."""
        if not self._is_plain:
            values = constrain(self.target, z[None])
            return {s.name: values[s.name][0] for s in self.target.latents}
        ends = np.cumsum([s.size for s in self.target.latents])[:-1]
        parts = np.split(z, ends, axis=1)
        return {
            s.name: part.reshape(-1, *s.unconstrained_shape)
            for s, part in zip(self.target.latents, parts, strict=True)
        }

    def _joined(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """The inverse of `_values`."""
        if not self._is_plain:
            return jax.device_get(_unconstrained(self.target, values)[0])
        parts = [values[s.name].reshape(-1, s.size) for s in self.target.latents]
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Exchanges:
    """All exchanges of a density; most densities have none.

    Attributes:
        exchanges: The exchanges, which are independent of one another.
    """

    exchanges: tuple[Exchange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.exchanges)

    def __repr__(self) -> str:
        return " and the ".join(map(repr, self.exchanges))

    @property
    def log_orders(self) -> float:
        """log of the number of orders, the product of K!."""
        return float(sum(math.lgamma(exchange.size + 1) for exchange in self.exchanges))

    def sorted(self, z: np.ndarray) -> np.ndarray:
        """z (..., d) in a canonical order, the same for all orders of a point."""
        flat = z.reshape(-1, z.shape[-1])
        if not self or not len(flat):
            return z
        flat = flat.copy()
        for exchange in self.exchanges:
            orders = np.argsort(exchange.sort_keys(flat), axis=1, kind="stable")
            # Sorted points are left as they are, to the last digit.
            moved = np.any(orders != np.arange(exchange.size), axis=1)
            if moved.any():
                flat[moved] = exchange.permuted(flat[moved], orders[moved])
        return flat.reshape(z.shape)

    def are_sorted(self, z: np.ndarray) -> np.ndarray:
        """True for each of the points z (n, d) in canonical order: (n,)."""
        in_order = np.ones(len(z), bool)
        for exchange in self.exchanges:
            in_order &= np.all(np.diff(exchange.sort_keys(z), axis=1) >= 0.0, axis=1)
        return in_order

    def shuffled(self, z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """z (n, d), each point in a random order."""
        for exchange in self.exchanges:
            orders = np.tile(np.arange(exchange.size), (len(z), 1))
            z = exchange.permuted(z, rng.permuted(orders, axis=1))
        return z

    def swapped(self, z: np.ndarray) -> list[np.ndarray]:
        """z (..., d) with two members exchanged, for each exchange."""
        flat = z.reshape(-1, z.shape[-1])
        return [e.permuted(flat, e.swap[None]).reshape(z.shape) for e in self.exchanges]

    def copies(self, z: np.ndarray) -> np.ndarray:
        """Copies of a point z (d,) in other orders, at most `MAX_COPIES`: (m, d)."""
        points = z[None]
        for exchange in self.exchanges:
            new = [exchange.copies(point) for point in points]
            points = np.concatenate([points, *new])[: MAX_COPIES + 1]
        return points[1:]


def find_exchanges(target: Target, z: np.ndarray) -> Exchanges:
    """The exchanges of a density.

    Args:
        target: The density.
        z: Random points at which densities are compared, none of them symmetric: (n, d).

    Returns:
        Exchanges that hold at all points, each of as few sites as possible.
    """
    sizes = sorted({n for latent in target.latents for n in latent.shape if n > 1})
    held: list[Exchange] = []
    for size in sizes:
        choices = map(partial(Exchange, target, size), _choices(target, size))
        for choice in sorted(choices, key=lambda c: sum(map(len, c.axes.values()))):
            # A choice with an exchange that holds for a part of its axes is redundant.
            if not any(_within(e, choice) for e in held) and choice.holds(z):
                held.append(choice)
    return Exchanges(tuple(held))


def _choices(target: Target, size: int) -> list[dict[str, tuple[int, ...]]]:
    """Choices of axes of this size, by the names of sites."""
    along = {
        latent.name: tuple(i for i, n in enumerate(latent.shape) if n == size)
        for latent in target.latents
        if size in latent.shape
    }
    # Each axis, all of them, or none.
    several = [
        list(dict.fromkeys([*((axis,) for axis in axes), axes, ()])) for axes in along.values()
    ]
    if math.prod(map(len, several)) > 64:
        # Too many choices: only the first axes of all sites together.
        return [{name: axes[:1] for name, axes in along.items()}]
    named = (dict(zip(along, axes, strict=True)) for axes in itertools.product(*several))
    return [chosen for c in named if (chosen := {name: axes for name, axes in c.items() if axes})]


def _within(part: Exchange, whole: Exchange) -> bool:
    """True if all axes of an exchange are among those of another one."""
    return part.size == whole.size and all(
        set(axes) <= set(whole.axes.get(name, ())) for name, axes in part.axes.items()
    )


@eqx.filter_jit
def _unconstrained(target: Target, values: dict[str, np.ndarray]) -> tuple[jax.Array, jax.Array]:
    """z (n, d) and the log determinants of the Jacobian at values of the latent sites."""
    arrays = {name: jnp.asarray(value) for name, value in values.items()}
    return jax.lax.map(target.unconstrain, arrays, batch_size=BATCH)
