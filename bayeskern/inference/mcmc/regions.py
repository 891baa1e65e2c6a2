"""Where the mass of a posterior lies: places that a search has found and no chain has, weighed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.special import chdtri, logsumexp

from bayeskern.core.batching import evenly
from bayeskern.core.random import stream
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.findings import Findings
from bayeskern.inference.mcmc.bridge_sampling import bridge_log_evidence
from bayeskern.inference.mcmc.kernel import BLOCK, Transitions, potential_and_gradient
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.model.target import Target
from bayeskern.inference.optimization.curvature import derivatives
from bayeskern.inference.optimization.factors import (
    inverse_hessian_root,
    inverse_root_of,
    robust_cholesky,
)
from bayeskern.inference.optimization.modes import CRITERIA, Optimum
from bayeskern.inference.optimization.objective import NegativeLogDensity
from bayeskern.inference.result import RUN_AWAY, Region

# A place is cut off from draws nearby if on most straight ways to them the log density lies lower
# than that of a normal distribution by more than this, in nats.
BARRIER = 3.0
# The draws nearby are this share of AMONG draws, so that a few that strayed do not speak for a
# place; how many of them are looked at, and how many points on the way.
NEARBY, AMONG, LOOKED_AT, ON_THE_WAY = 0.03, 2000, 5, 7
# How many places are visited at most.
MOST_VISITS = 6
# Chains with a smaller R-hat are in one place.
TOGETHER = 1.1
# Of so many draws of a visit most must be near the chains of a region to be in it.
FEW = 20
# By Laplace's method a mode with a smaller effect than this is not worth a visit.
LEAST_SHARE = 0.003
# An end of a search that is no mode is left if its log evidence is lower by this, in nats: both
# estimates are rough.
ROUGHLY = 7.0
# The share of draws around a mode that is next to nothing.
RARELY = 0.02
# Regions whose draws lie next to those of others more often than this cannot be told apart.
ASTRAY = 0.05


class Neighbours:
    """Draws (n, d), of which the nearest to a point are looked up, in units of their sds."""

    def __init__(self, z):
        self.z = z[evenly(len(z), AMONG)]
        self.to_unit = _to_unit(_covariance(self.z))
        self._tree = KDTree(self.z @ self.to_unit)

    def of(self, points) -> tuple[np.ndarray, np.ndarray]:
        """Some of those nearby each of the points (m, d): draws (m, k, d), distances (m, k)."""
        ranks = 1 + evenly(max(1, int(NEARBY * len(self.z))), LOOKED_AT)
        distance, index = self._tree.query(points @ self.to_unit, ranks)
        return self.z[index], distance


def _covariance(z) -> np.ndarray:
    """The covariance of draws (n, d), by which distances between them are not blown up: (d, d).

    That of as few draws as coordinates makes everything look far away. In units of the sds it is
    shrunk towards the identity: Ledoit and Wolf (2004), "A well-conditioned estimator for
    large-dimensional covariance matrices", as in scikit-learn, whose import takes longer than all
    of this. Coordinates of no spread have that of rounding.
    """
    rounding = 1e-8 * (1.0 + np.max(np.abs(z), axis=0))
    sds = np.hypot(np.std(z, axis=0), rounding)
    white, n = (z - np.mean(z, axis=0)) / sds, len(z)
    S = white.T @ white / n
    error = (np.sum(np.square(np.sum(np.square(white), axis=1))) / n - np.sum(np.square(S))) / n
    S += np.diag(np.square(rounding / sds))
    off = np.sum(np.square(S - np.eye(len(S))))
    shrinkage = np.clip(error / off, 0.0, 1.0) if off > 0.0 else 1.0
    return sds[:, None] * ((1.0 - shrinkage) * S + shrinkage * np.eye(len(S))) * sds


def _to_unit(covariance) -> np.ndarray:
    """M with z M in units of sds: (d, d)."""
    return np.linalg.inv(robust_cholesky(covariance)).T


def connected(target: Target, points, neighbours: Neighbours, as_normal: bool = True) -> np.ndarray:
    """Which of the points (m, d) have straight ways without a barrier to draws nearby: (m,).

    Between two points r sds apart, the log density of a normal distribution lies above the straight
    line between its values there, at the share t of the way by t (1 - t) r^2 / 2. Where the density
    lies below that, there is a barrier; or, if not `as_normal`, where it lies below the line.
    """
    ends, distance = neighbours.of(points)
    t = np.linspace(0.0, 1.0, ON_THE_WAY + 2)
    way = points[:, None, None] + t[:, None] * (ends - points[:, None])[:, :, None]
    log_p = -potential_and_gradient(target, way)[0]
    log_p = np.where(np.isnan(log_p), -np.inf, log_p)
    line = (1.0 - t) * log_p[..., :1] + t * log_p[..., -1:]
    if as_normal:
        line += 0.5 * t * (1.0 - t) * np.square(distance)[..., None]
    with np.errstate(invalid="ignore"):
        falls = np.max(line - log_p, axis=-1)
    return np.mean(falls < BARRIER, axis=1) > 0.5


def agree(first, second) -> bool:
    """Whether chains (k, n, d) and (l, m, d) are in one place, by R-hat in every coordinate."""
    from arviz_stats.base import array_stats

    length = min(first.shape[1], second.shape[1])
    z = np.concatenate([x[:, evenly(x.shape[1], length)] for x in (first, second)])
    with np.errstate(invalid="ignore", divide="ignore"):
        rhat = array_stats.rhat(np.moveaxis(z, -1, 0))
    return not np.any(rhat > TOGETHER)


def groups(z) -> list[np.ndarray]:
    """The numbers of the chains (chains, n, d) that are in one place."""
    pairs = [[i == j or agree(z[[i]], z[[j]]) for j in range(len(z))] for i in range(len(z))]
    count, place = connected_components(np.array(pairs))
    return [np.flatnonzero(place == k) for k in range(count)]


class Exploration:
    """The regions of a posterior that chains are in, and those that they have missed.

    Args:
        target: The density.
        rows: Of the chains.
        visit: From a place (d,) and the number of the visit to a chain that starts there.
        exchanges: Members that can change places: everything is looked at in one order of them.

    Attributes:
        rows: Of the chains in each region; regions that the chains were in of themselves come
            first.
        chains: The numbers of the given chains in each region; none where a visit found it.
        visits: How many chains were started.
        left: How many places were not visited, since there were too many.
        hold_one_order: Whether the given chains stay in one order of members that can change
            places, or in some of many.
        stuck: From how many places a chain did not move.
        exchanges: As they were given.
        findings: What was known, the search, and a point of each region.
        spikes: Modes with much around them that the chains have passed by.
        log_integrals: Of the density over each region, once they are weighed, where there are
            several.
    """

    def __init__(self, target: Target, rows: Transitions, visit: Callable, exchanges: Exchanges):
        self.target, self._visit, self.exchanges = target, visit, exchanges
        self._bounded = bool(np.max(np.abs(rows.z), initial=0.0) < RUN_AWAY)
        self.hold_one_order = self._bounded and not all(
            agree(rows.z, other) for other in exchanges.swapped(rows.z)
        )
        rows = rows._replace(z=exchanges.sorted(rows.z))
        z = self._given = rows.z
        apart = self._bounded and len(z) > 1 and not agree(z[:1], z[1:])
        together = groups(z) if apart else [np.arange(len(z))]
        self.rows = [Transitions(*(x[g] for x in rows)) for g in together]
        self.chains = [tuple(g.tolist()) for g in together]
        self.visits, self.left, self.stuck = 0, 0, 0
        self.spikes: list[Region] = []
        self.log_integrals: list[Estimate] = []
        self.findings = Findings()
        self._evidence_by_region: list[float] = []
        self._reached = (
            [Neighbours(np.concatenate(region.z)) for region in self.rows] if self._bounded else []
        )

    @property
    def evidence(self) -> dict:
        """How many places were visited, and how many visits did not move, if there were any."""
        counts = {"places_visited": self.visits, "visits_stuck": self.stuck}
        return {name: count for name, count in counts.items() if count}

    def look_around(self, optimum: Optimum | None, known: Findings, seed: int) -> None:
        """Visit what a search found, where there was one, and what is known from earlier fits.

        Chains that run away have no places, and are left as they are.
        """
        self.findings = known if optimum is None else known | Findings((optimum,))
        if not self._bounded:
            return
        places = known.points(self.target.coordinates)
        if optimum is not None:
            self.look_at(optimum)
            # In the neck of a funnel the density rises without end: there is no mode that could
            # explain a draw.
            if optimum.converged:
                places = np.concatenate([places, optimum.unexplained_places])
        self.look_at_places(self._apart(places))
        if optimum is not None:
            self.weigh_neighbourhoods(optimum, seed)
        points = np.stack([rows.z[0, -1] for rows in self.rows])
        self.findings |= Findings.at(self.target.coordinates, points)

    def look_at(self, optimum: Optimum) -> None:
        """Visit the ends of a search, the best first, where no chain has been near."""
        finite = np.flatnonzero(np.isfinite(optimum.start_log_densities))
        order = finite[np.argsort(-optimum.start_log_densities[finite], kind="stable")]
        ends = self.exchanges.sorted(optimum.ends)
        order = order[~self._near_chains(ends[order])]
        worth = [i for i in order if not _is_negligible(optimum, i, self._normal_evidence)]
        self.look_at_places(ends[worth])

    def look_at_places(self, places) -> None:
        """Visit those of the places (m, d) that no chain has been near, if much lies there."""
        places = self.exchanges.sorted(places)
        places = places[~self._near_chains(places)]
        while len(places) and self.visits < MOST_VISITS:
            place, places = places[0], places[1:]
            around, tril = self._around(place)
            if around > self._least_around:
                self.visit(place)
                places = places[~self._near_chains(places)]
                # The chain may have left, for a place that is known.
                steps = solve_triangular(tril, (places - place).T, lower=True)
                places = places[np.sum(np.square(steps), axis=0) > 1.0]
        self.left += sum(self._around(place)[0] > self._least_around for place in places)

    @property
    def _least_around(self) -> float:
        """The log integral around a place below which it is not worth a visit.

        `_around` is off by a few nats, and by the more the more coordinates there are.
        """
        return self._normal_evidence - ROUGHLY - np.sqrt(self.target.size)

    @property
    def _normal_evidence(self) -> float:
        """The log integral over the largest region, roughly."""
        for rows in self.rows[len(self._evidence_by_region) :]:
            self._evidence_by_region.append(_normal_evidence(rows))
        return max(self._evidence_by_region)

    def _around(self, place) -> tuple[float, np.ndarray]:
        """The log integral around a place (d,), by the derivatives there, and a root of H^-1.

        That of exp of the second-order Taylor polynomial of the log density, its curvature H made
        positive. -inf where there is no density; infinite where its derivatives are unknown.
        """
        value, gradient, hessian = map(
            np.asarray, derivatives(NegativeLogDensity(self.target, jacobian=True), place)
        )
        if not (np.all(np.isfinite(gradient)) and np.all(np.isfinite(hessian))):
            return np.inf if np.isfinite(value) else -np.inf, np.eye(len(place))
        tril = inverse_root_of(hessian)[0]
        rise = 0.5 * np.sum(np.square(tril.T @ gradient))
        return _normal_log_integral(rise - float(value), tril), tril

    def weigh_neighbourhoods(self, optimum: Optimum, seed: int) -> None:
        """Find modes that chains leave at once, and never come to, though much lies around them.

        Half of a normal distribution lies in the ellipsoid in which the density near a mode is
        above a value. What lies there is integrated by draws from that distribution, and set
        against what lies where the chains are.
        """
        if len(self.rows) > 1:
            return
        z = np.concatenate(self.rows[0].z)
        modes = (optimum, *optimum.influential)
        modes = [m for m in modes if self.exchanges.are_sorted(m.z[None])[0]]
        suspects = [(m, share) for m in modes if (share := _share_within(m, z)) < RARELY]
        if not suspects:
            return
        around_chains = self._log_integral(self.rows[0].z, seed)
        root = robust_cholesky(_covariance(z))
        for mode, seen in suspects:
            inside, around_mode = _integral_within(self.target, mode, seed)
            theirs = proportions([around_chains, around_mode])[1]
            steps = solve_triangular(root, mode.z - np.mean(z, axis=0), lower=True)
            effect = _effect(theirs.value, steps)
            known = theirs.error < theirs.value / 2.0 and seen < theirs.value / 2.0
            if effect > RARELY and known:
                self.spikes.append(Region((), inside[None], theirs))

    def _apart(self, places) -> np.ndarray:
        """The places, out of (m, d), from which the density falls on the way to the chains.

        A tail that is longer than that of a normal distribution is no place of its own.
        """
        if not len(places):
            return places
        places = self.exchanges.sorted(places)
        near = [connected(self.target, places, n, as_normal=False) for n in self._reached]
        return places[~np.any(near, axis=0)]

    def _near_chains(self, places) -> np.ndarray:
        if not len(places):
            return np.zeros(0, bool)
        return np.any([connected(self.target, places, near) for near in self._reached], axis=0)

    def visit(self, place) -> None:
        """Start a chain there; it is in a region of its own unless it comes to another one."""
        rows = self._sorted_visit(self._visit, place)
        z = rows.z[0]
        if not np.all(np.isfinite(z)) or np.any(np.ptp(z, axis=0) == 0):
            # A spike, from which no chain would come back.
            self.stuck += 1
            return
        self._reached.append(Neighbours(z))
        if not any(self._is_in(region, rows) for region in self.rows):
            self.rows.append(rows)
            self.chains.append(())

    def _sorted_visit(self, visit: Callable, place) -> Transitions:
        rows = visit(place, self.visits)
        self.visits += 1
        return rows._replace(z=self.exchanges.sorted(rows.z))

    def _is_in(self, region: Transitions, rows: Transitions) -> bool:
        if agree(region.z, rows.z):
            return True
        few = rows.z[0, evenly(rows.z.shape[1], FEW)]
        near = Neighbours(np.concatenate(region.z))
        return np.mean(connected(self.target, few, near)) > 0.5

    def keep_influential(self, regions: list[Region]) -> None:
        """Leave out places that only visits found and in which next to nothing lies.

        regions: as `regions` gave them.
        """
        root = robust_cholesky(_covariance(np.concatenate(self._given)))
        centre = np.mean(self._given, axis=(0, 1))
        keep = []
        for region in regions[: len(self.rows)]:
            steps = solve_triangular(root, np.mean(region.z, axis=(0, 1)) - centre, lower=True)
            share = region.share.value + 2.0 * region.share.error
            keep.append(bool(region.chains) or _effect(share, steps) > LEAST_SHARE)
        self.rows = [rows for rows, kept in zip(self.rows, keep, strict=True) if kept]
        self.chains = [chains for chains, kept in zip(self.chains, keep, strict=True) if kept]

    def at_least(self, chains: int, visit: Callable) -> None:
        """Have at least so many chains in each region, started where the first of them went.

        visit: as it was given, but to a chain as long as the given ones, which take the place of
        visits.
        """
        for k, (rows, given) in enumerate(zip(self.rows, self.chains, strict=True)):
            all_rows = [rows] if given else []
            for i in range(len(given), chains):
                all_rows.append(self._sorted_visit(visit, rows.z[0, -1 - i]))
            self.rows[k] = Transitions(*map(np.concatenate, zip(*all_rows, strict=True)))

    def regions(self, seed: int) -> list[Region]:
        """The regions with their shares of the posterior."""
        draws = [rows.z for rows in self.rows]
        shares = [Estimate(1.0, 0.0)]
        if len(draws) > 1:
            nearest = NearestRegion(draws)
            self.log_integrals = [
                self._log_integral_of_region(z, k, nearest, seed) for k, z in enumerate(draws)
            ]
            shares = proportions(self.log_integrals)
        regions = zip(self.chains, draws, shares, strict=True)
        return [*(Region(*region) for region in regions), *self.spikes]

    def log_evidence(self, seed: int) -> Estimate:
        """The log of the integral of the density over all regions and all orders."""
        log_integrals = self.log_integrals or [self._log_integral(self.rows[0].z, seed)]
        value, error = log_sum(log_integrals)
        return Estimate(value + self.exchanges.log_orders, error)

    def _log_integral_of_region(self, z, k, nearest, seed) -> Estimate:
        """The log of the integral over the k-th region, in one order of exchangeable members."""
        second_half = z[:, z.shape[1] // 2 :].reshape(-1, z.shape[2])
        if np.mean(nearest(second_half) != k) > ASTRAY:
            return Estimate(np.nan, np.nan)
        return self._log_integral(z, seed, lambda points: nearest(points) == k)

    def _log_integral(self, z, seed, inside: Callable | None = None) -> Estimate:
        """The log of the integral over the points that are inside, and in one order."""
        if not self.exchanges:
            return bridge_log_evidence(self.target, z, seed, inside)

        def inside_in_order(points):
            in_order = self.exchanges.are_sorted(points)
            return in_order if inside is None else in_order & inside(points)

        return bridge_log_evidence(self.target, z, seed, inside_in_order)


class NearestRegion:
    """Which region (chains, n, d) the nearest draw of a point is in, by the draws' first halves."""

    def __init__(self, regions):
        halves = [z[:, : z.shape[1] // 2].reshape(-1, z.shape[2]) for z in regions]
        halves = [z[evenly(len(z), AMONG)] for z in halves]
        self._to_unit = _to_unit(np.mean([_covariance(z) for z in halves], axis=0))
        self._number = np.concatenate([np.full(len(z), k) for k, z in enumerate(halves)])
        self._tree = KDTree(np.concatenate(halves) @ self._to_unit)

    def __call__(self, points) -> np.ndarray:
        finite = np.all(np.isfinite(points), axis=1)
        points = np.where(finite[:, None], points, 0.0)
        index = self._tree.query(points @ self._to_unit)[1]
        return np.where(finite, self._number[index], -1)


def _share_within(mode: Optimum, z) -> float:
    """The share of draws z (n, d) in the ellipsoid around a mode; 1 where it has no curvature."""
    tril, repaired = inverse_hessian_root(mode)
    if repaired:
        return 1.0
    squared = np.sum(np.square(solve_triangular(tril, (z - mode.z).T, lower=True)), axis=0)
    return float(np.mean(squared < chdtri(len(mode.z), 0.5)))


def _integral_within(target, mode: Optimum, seed: int) -> tuple[np.ndarray, Estimate]:
    """Draws in the ellipsoid around a mode, (n, d), and the log of the integral over it."""
    tril, _ = inverse_hessian_root(mode)
    d = len(mode.z)
    white = stream(seed, "within").standard_normal((2 * BLOCK, d))
    white = white[np.sum(np.square(white), axis=1) < chdtri(d, 0.5)]
    z = mode.z + white @ tril.T
    log_p = -potential_and_gradient(target, z)[0]
    log_q = -0.5 * np.sum(np.square(white), axis=1) - 0.5 * d * np.log(2.0 * np.pi)
    log_q -= np.sum(np.log(np.diag(tril)))
    ratios = np.where(np.isnan(log_p), -np.inf, log_p - log_q)
    # Half of the draws lie inside.
    value = float(logsumexp(ratios) - np.log(len(ratios)) - np.log(2.0))
    w = np.exp(ratios - logsumexp(ratios))
    # About their mean: where the mode is a normal density, nothing but rounding is left.
    return z, Estimate(value, float(np.linalg.norm(w - 1.0 / len(w))))


def log_sum(log_integrals: list[Estimate]) -> Estimate:
    """log sum_k exp(a_k), with its error to first order."""
    values, errors = np.array(log_integrals).T
    shares = np.array([share.value for share in proportions(log_integrals)])
    return Estimate(float(logsumexp(values)), float(np.sqrt(np.sum(np.square(shares * errors)))))


def proportions(log_integrals: list[Estimate]) -> list[Estimate]:
    """The shares exp(a_k) / sum_j exp(a_j) with their errors, to first order; NaN if one is."""
    values, errors = np.array(log_integrals).T
    if not np.all(np.isfinite(values)):
        return [Estimate(np.nan, np.nan)] * len(values)
    shares = np.exp(values - logsumexp(values))
    # d log share_k / d a_j, by the other shares: 1 - share_k may be nothing but rounding.
    others = 1.0 - np.eye(len(shares))
    slopes = np.diag(others @ shares) - others * shares
    variance = np.square(shares) * (np.square(slopes) @ np.square(errors))
    return [Estimate(float(s), float(e)) for s, e in zip(shares, np.sqrt(variance), strict=True)]


def _effect(share: float, steps) -> float:
    """Share of a place times (r / radius_sds)^2 at r sds outside of it, as `Optimum.log_effect`.

    steps: from the draws' mean to the place in units of their sds, (d,).
    """
    return share * max(1.0, np.sum(np.square(steps)) / CRITERIA.radius_sds**2)


def _is_negligible(optimum: Optimum, i: int, chains: float) -> bool:
    """Whether the i-th end of the search has next to none of the evidence, by Laplace's method.

    chains: about the log evidence of what the chains have seen. Where the density rises without
    bound, as in the neck of a funnel, there is no mode: the curvature where the search ended, made
    positive, says roughly how much lies there, and from such a spike no chain would come back.
    """
    mode = optimum.at(i)
    sound = mode.converged and np.isfinite(mode.log_evidence)
    if sound and np.isfinite(optimum.log_evidence):
        return bool(optimum.log_effect(mode) < np.log(LEAST_SHARE))
    tril, _ = inverse_hessian_root(mode)
    around = _normal_log_integral(mode.log_density, tril)
    return not sound and around < chains - ROUGHLY


def _normal_evidence(rows: Transitions) -> float:
    """The log integral of a density if draws of it were those of a normal distribution."""
    z = np.concatenate(rows.z)
    tril = robust_cholesky(_covariance(z))
    # The mean of its log density lies d / 2 below the highest.
    return _normal_log_integral(0.5 * z.shape[1] - np.mean(rows.potential), tril)


def _normal_log_integral(highest: float, tril) -> float:
    """log of exp(highest) sqrt(det(2 pi L L'))."""
    return highest + 0.5 * len(tril) * np.log(2.0 * np.pi) + np.sum(np.log(np.diag(tril)))
