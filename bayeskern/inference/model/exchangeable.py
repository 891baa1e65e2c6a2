"""Exchangeable members of latent sites, whose order does not change the density.

Examples are the components of a mixture, the states of a hidden Markov model and the hidden units
of a network. A posterior holds every order of K members: each mode has K! copies.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from bayeskern.inference.model.evaluation import constrain, log_densities, unconstrain
from bayeskern.inference.model.target import Target

# Maximum number of copies of a mode, enough for all orders of four members.
MAX_COPIES = 24


@dataclass(frozen=True, eq=False)
class Exchange:
    """K exchangeable members along axes of latent sites.

    Attributes:
        target: The density.
        size: K, the number of members.
        axes: Site name -> axes along which the members lie.
    """

    target: Target
    size: int
    axes: dict[str, tuple[int, ...]]

    def __repr__(self) -> str:
        return f"{self.size} members of {', '.join(self.axes)}"

    def permuted(self, z: np.ndarray, orders: np.ndarray) -> np.ndarray:
        """z (n, d) with the members of each row reordered by `orders`, (n, K) or (1, K)."""
        values = self._values(z)
        for name, axes in self.axes.items():
            for axis in axes:
                shape = np.ones(values[name].ndim, int)
                shape[[0, axis + 1]] = orders.shape
                indices = np.reshape(orders, shape)
                values[name] = np.take_along_axis(values[name], indices, axis=axis + 1)
        return self._points(values)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Log density at z (n, d), without Jacobians that depend on the order: (n,).

        The Jacobian of a simplex depends on the order of its components. The Jacobian of plain
        sites, which acts on each value separately, stays.
        """
        log_p = log_densities(self.target, z)
        if self._is_plain:
            return log_p
        return log_p - unconstrain(self.target, self._values(z))[1]

    def holds(self, z: np.ndarray) -> bool:
        """True if a swap and a cyclic shift leave the density at z (n, d) unchanged.

        A swap of two members and a cyclic shift generate all orders.
        """
        orders = np.repeat([self.swap, np.roll(np.arange(self.size), 1)], len(z), axis=0)
        # All calls have the same number of points, so that each program is compiled once.
        z = np.tile(z, (2, 1))
        original, permuted = self.log_density(z), self.log_density(self.permuted(z, orders))
        # A sum in another order differs by rounding. NaN is unequal: its comparison is False.
        return bool(np.all(np.abs(permuted - original) <= 1e-6 + 1e-8 * np.abs(original)))

    def sort_keys(self, z: np.ndarray) -> np.ndarray:
        """A number for each member, independent of its position: (n, K)."""
        values = self._values(z)
        # Plain sites first, then sites with fewer axes.
        site = min(self.axes, key=lambda name: (name not in self._plain_sites, values[name].ndim))
        members = np.moveaxis(values[site], self.axes[site][0] + 1, 1)
        # Squares, because a simplex always sums to one.
        members = members if site in self._plain_sites else np.square(members)
        return np.sum(members.reshape(len(z), self.size, -1), axis=-1)

    def copies(self, z: np.ndarray) -> np.ndarray:
        """Copies of z (d,) in all other orders, or in one if there are too many: (m, d)."""
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

    def _points(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """The inverse of `_values`."""
        if not self._is_plain:
            return unconstrain(self.target, values)[0]
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
        """z (..., d) in a canonical order: all reordered copies of a point become equal."""
        flat = z.reshape(-1, z.shape[-1])
        if not self or not len(flat):
            return z
        flat = flat.copy()
        for exchange in self.exchanges:
            orders = np.argsort(exchange.sort_keys(flat), axis=1, kind="stable")
            # Points in canonical order are returned unchanged, to the last digit.
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
        """For each exchange, z (..., d) with the first two members exchanged."""
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
        z: Random points (n, d) at which densities are compared. At a point with equal members,
            a swap would prove nothing.

    Returns:
        Exchanges that hold at all points, each along as few axes as possible.
    """
    sizes = sorted({n for latent in target.latents for n in latent.shape if n > 1})
    exchanges: list[Exchange] = []
    for size in sizes:
        choices = map(partial(Exchange, target, size), _choices(target, size))
        for choice in sorted(choices, key=lambda c: sum(map(len, c.axes.values()))):
            # A choice is redundant if an exchange holds along a subset of its axes.
            if not any(_is_part(e, choice) for e in exchanges) and choice.holds(z):
                exchanges.append(choice)
    return Exchanges(tuple(exchanges))


def _choices(target: Target, size: int) -> list[dict[str, tuple[int, ...]]]:
    """Candidates for `Exchange.axes`: site name -> axes of this size."""
    axes_by_site = {
        latent.name: tuple(i for i, n in enumerate(latent.shape) if n == size)
        for latent in target.latents
        if size in latent.shape
    }
    # For each site: one of its axes, all of them, or none.
    options = [
        list(dict.fromkeys([*((axis,) for axis in axes), axes, ()]))
        for axes in axes_by_site.values()
    ]
    if math.prod(map(len, options)) > 64:
        # Too many choices: only the first axis of every site, all together.
        return [{name: axes[:1] for name, axes in axes_by_site.items()}]
    choices = (
        {name: axes for name, axes in zip(axes_by_site, combination, strict=True) if axes}
        for combination in itertools.product(*options)
    )
    return [choice for choice in choices if choice]


def _is_part(part: Exchange, whole: Exchange) -> bool:
    """True if all axes of the exchange `part` are axes of the exchange `whole`."""
    return part.size == whole.size and all(
        set(axes) <= set(whole.axes.get(name, ())) for name, axes in part.axes.items()
    )
