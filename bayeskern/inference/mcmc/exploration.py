"""Regions of a posterior, including regions that chains have missed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from bayeskern.core.batching import evenly
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.findings import Findings
from bayeskern.inference.mcmc.bridge_sampling import UNKNOWN, bridge_log_integral
from bayeskern.inference.mcmc.connectivity import (
    Neighbours,
    agree,
    connected,
    groups,
    shrunk_covariance,
)
from bayeskern.inference.mcmc.kernel import Transitions
from bayeskern.inference.mcmc.necks import neck_log_integral
from bayeskern.inference.mcmc.shares import (
    NearestRegion,
    integral_in_ellipsoid,
    log_sum,
    normal_log_integral,
    normal_log_integral_of,
    proportions,
    share_in_ellipsoid,
)
from bayeskern.inference.model.exchangeable import Exchanges
from bayeskern.inference.model.target import Target
from bayeskern.inference.result import MAX_COORDINATE, Explored, Region
from bayeskern.inference.search.curvature import derivatives
from bayeskern.inference.search.factors import (
    ScaledEigen,
    robust_cholesky,
)
from bayeskern.inference.search.modes import RADIUS_SDS, Optimum
from bayeskern.inference.search.objective import NegativeLogDensity

# Effect of a mode, by Laplace's method, below which it is not visited.
MIN_MODE_EFFECT = 0.003
# Allowance for the error of rough log integrals.
ROUGH_NATS = 7.0

# Function of a point (d,) and the number of a visit that runs a chain from the point.
type Visit = Callable[[np.ndarray, int], Transitions]


# Maximum number of visited points.
MAX_VISITS = 6
# Number of visits to points that are alike, all of which return to known regions, after which the
# other points that are alike count as visited. A neck without mass counts as such a visit.
MIN_ALIKE_VISITS = 3
# Number of draws that represent a visit; if most of them are connected to a region, the visit is in
# that region.
VISIT_DRAWS = 20
# Share of draws below which the region around a mode counts as empty, and effect above which a
# spike matters.
MIN_SPIKE_SHARE = 0.02
# Share of the draws of a region that lie nearest to other regions, above which the regions cannot
# be separated.
MAX_OVERLAP = 0.05


class Exploration:
    """Regions of a posterior that chains are in, and regions that they have missed.

    Args:
        target: The density.
        rows: Transitions of the chains.
        visit: Runs a chain from a point.
        exchanges: Exchangeable members; draws are compared with the members sorted into one order.

    Attributes:
        rows: Transitions of the chains in each region; regions of the given chains come first.
        chains: Indices of the given chains in each region; empty if a visit found the region.
        visits: Number of chains that were started.
        unvisited: Number of points that were not visited, because there were too many.
        hold_one_order: True if the given chains do not visit all orders of exchangeable members.
        stuck: Number of points from which a chain did not move.
        empty_necks: Number of points that were not visited because their neck holds no mass.
        exchanges: Exchangeable members.
        findings: Earlier findings, the search, and a point of each region.
        spikes: Modes with much mass around them and few draws.
        regions: The regions with their shares of the posterior, and the spikes, once the shares
            are estimated.
        log_integrals: Log integral of the density over each region, if there are several.
    """

    def __init__(self, target: Target, rows: Transitions, visit: Visit, exchanges: Exchanges):
        self.target, self._visit, self.exchanges = target, visit, exchanges
        self._bounded = bool(np.max(np.abs(rows.z), initial=0.0) < MAX_COORDINATE)
        self.hold_one_order = self._bounded and not all(
            agree(rows.z, other) for other in exchanges.swapped(rows.z)
        )
        rows = rows._replace(z=exchanges.sorted(rows.z))
        z = self._given_z = rows.z
        disagree = self._bounded and len(z) > 1 and not agree(z[:1], z[1:])
        members = groups(z) if disagree else [np.arange(len(z))]
        self.rows = [Transitions(*(x[g] for x in rows)) for g in members]
        self.chains = [tuple(g.tolist()) for g in members]
        self.visits, self.unvisited, self.stuck, self.empty_necks = 0, 0, 0, 0
        # For each point that is like others: true if the visit returned to a known region, or was
        # left out because the point lies in a neck without mass.
        self._alike_returned: list[bool] = []
        self.spikes: list[Region] = []
        self.regions: list[Region] = []
        self.log_integrals: list[Estimate] = []
        self.findings = Findings()
        bounded = self.rows if self._bounded else []
        self._neighbours = [Neighbours(np.concatenate(region.z)) for region in bounded]
        # Rough log integral over the largest region.
        self._normal_log_integral = max(map(normal_log_integral_of, bounded), default=-np.inf)

    @property
    def evidence(self) -> dict[str, int]:
        """Numbers of visits, of visits that did not move, and of empty necks, without zeros."""
        counts = {
            "places_visited": self.visits,
            "visits_stuck": self.stuck,
            "empty_necks": self.empty_necks,
        }
        return {name: count for name, count in counts.items() if count}

    def explored(self, evidence: dict[str, Any]) -> Explored:
        """The result for an assessment, with the evidence on the search."""
        state = (self.regions, self.unvisited, self.exchanges, self.hold_one_order)
        return Explored(*state, evidence)

    def explore(self, optimum: Optimum | None, known: Findings, seed: int) -> None:
        """Visit ends of a search and points of earlier fits that chains have missed.

        If chains diverge to infinity, there are no regions and nothing is visited.

        Args:
            optimum: The modes of a search, if there was one.
            known: Findings of earlier fits.
            seed: Seed of the integrals.
        """
        self.findings = known if optimum is None else known | Findings((optimum,))
        if not self._bounded:
            return
        modes, points = (f(self.target.coordinates) for f in (known.modes, known.points))
        if optimum is not None:
            self._visit_ends(optimum)
            # In the neck of a funnel the density has no bound, and no mode explains a draw.
            if optimum.converged:
                points = np.concatenate([points, optimum.unexplained_places])
        self._visit_points(self._outside_tails(modes))
        self._visit_points(self._outside_tails(points), are_alike=True)
        if optimum is not None:
            self._find_spikes(optimum, seed)
        last_draws = np.stack([rows.z[0, -1] for rows in self.rows])
        self.findings |= Findings.at(self.target.coordinates, last_draws)

    def _visit_ends(self, optimum: Optimum) -> None:
        """Visit the ends of a search that are not connected to any chain, best first.

        Ends that are no modes lie on one ridge, or on plateaus: they are alike.
        """
        finite = np.flatnonzero(np.isfinite(optimum.start_log_densities))
        order = finite[np.argsort(-optimum.start_log_densities[finite], kind="stable")]
        ends = self.exchanges.sorted(optimum.ends)
        order = order[~self._connected_to_chains(ends[order])]
        relevant = [i for i in order if not _is_negligible(optimum, i, self._normal_log_integral)]
        modes = [i for i in relevant if optimum.at(i).converged]
        self._visit_points(ends[modes])
        others = [i for i in relevant if i not in modes]
        self._visit_points(ends[others], are_alike=True)

    def _outside_tails(self, points: np.ndarray) -> np.ndarray:
        """Points (m, d) beyond the tails of the chains, also of tails longer than normal ones."""
        tails = self._connected_to_chains(self.exchanges.sorted(points), as_normal=False)
        return points[~tails]

    def _visit_points(self, points: np.ndarray, are_alike: bool = False) -> None:
        """Visit points (m, d) not connected to any chain, if much mass lies there.

        Points are alike if they come from searches that did not end at a mode, or from one wide
        distribution: in many coordinates each is far from all draws.
        """
        points = self.exchanges.sorted(points)
        points = points[~self._connected_to_chains(points)]
        while len(points) and self.visits < MAX_VISITS:
            if self.empty_necks >= MIN_ALIKE_VISITS and all(self._alike_returned):
                break
            point, points = points[0], points[1:]
            log_integral, tril = self._local_log_integral(point)
            if log_integral > self._min_log_integral:
                is_empty = are_alike and self._is_empty_neck(point)
                self.empty_necks += is_empty
                returned = is_empty or self._visit_point(point)
                if are_alike:
                    self._alike_returned.append(returned)
                points = points[~self._connected_to_chains(points)]
                # The chain may have left for a known region: drop the points near its start too.
                steps = solve_triangular(tril, (points - point).T, lower=True)
                points = points[np.sum(np.square(steps), axis=0) > 1.0]
        enough = len(self._alike_returned) >= MIN_ALIKE_VISITS
        if are_alike and enough and all(self._alike_returned):
            # Chains would return from the other points too.
            return
        self.unvisited += sum(
            self._local_log_integral(point)[0] > self._min_log_integral for point in points
        )

    def _is_empty_neck(self, point: np.ndarray) -> bool:
        """True if the neck from the draws of all chains to a point (d,) has a negligible mass."""
        z = np.concatenate(self._given_z)
        return neck_log_integral(self.target, point, z) < self._min_log_integral

    @property
    def _min_log_integral(self) -> float:
        """Log integral around a point below which the point is not worth a visit.

        `_local_log_integral` is wrong by a few nats, more with more coordinates.
        """
        return self._normal_log_integral - ROUGH_NATS - np.sqrt(self.target.size)

    def _local_log_integral(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Log integral around a point (d,), by the derivatives there, and a root of H^-1.

        It is the integral of exp of the second-order Taylor polynomial of the log density, with its
        curvature H made positive. It is -inf if the log density is not finite, and inf if only its
        derivatives are not finite.
        """
        value, gradient, hessian = map(
            np.asarray, derivatives(NegativeLogDensity(self.target, jacobian=True), point)
        )
        if not (np.all(np.isfinite(gradient)) and np.all(np.isfinite(hessian))):
            return np.inf if np.isfinite(value) else -np.inf, np.eye(len(point))
        tril = ScaledEigen.from_hessian(hessian).inverse_root()
        rise = 0.5 * np.sum(np.square(tril.T @ gradient))
        return normal_log_integral(rise - float(value), tril), tril

    def _find_spikes(self, optimum: Optimum, seed: int) -> None:
        """Find modes with much mass that chains leave at once, without a return.

        The central ellipsoid of a mode holds half of the normal distribution there. The integral
        over it, from draws of that distribution, is compared with the integral over the region of
        the chains.
        """
        if len(self.rows) > 1:
            return
        z = np.concatenate(self.rows[0].z)
        modes = (optimum, *optimum.influential)
        modes = [m for m in modes if self.exchanges.are_sorted(m.z[None])[0]]
        draws_inside = [(mode, share_in_ellipsoid(mode, z)) for mode in modes]
        suspects = [pair for pair in draws_inside if pair[1] < MIN_SPIKE_SHARE]
        if not suspects:
            return
        around_chains = self._log_integral(self.rows[0].z, seed)
        root = robust_cholesky(shrunk_covariance(z))
        for mode, draws_share in suspects:
            inside, around_mode = integral_in_ellipsoid(self.target, mode, seed)
            share = proportions([around_chains, around_mode])[1]
            steps = solve_triangular(root, mode.z - np.mean(z, axis=0), lower=True)
            is_certain = share.error < share.value / 2.0 and draws_share < share.value / 2.0
            # The ellipsoid holds half of the mode.
            if is_certain and _effect(2.0 * share.value, steps) > MIN_SPIKE_SHARE:
                self.spikes.append(Region((), inside[None], share))

    def _connected_to_chains(self, points: np.ndarray, as_normal: bool = True) -> np.ndarray:
        """True for points (m, d) that are connected to some chain, (m,)."""
        if not len(points):
            return np.zeros(0, bool)
        by_region = [connected(self.target, points, n, as_normal) for n in self._neighbours]
        return np.any(by_region, axis=0)

    def _visit_point(self, point: np.ndarray) -> bool:
        """Start a chain at a point; it adds a region unless it reaches a known one.

        Returns:
            True if the chain reached a known region.
        """
        rows = self._sorted_visit(self._visit, point)
        z = rows.z[0]
        if not np.all(np.isfinite(z)) or np.any(np.ptp(z, axis=0) == 0):
            # The point is a spike, from which no chain would return.
            self.stuck += 1
            return False
        self._neighbours.append(Neighbours(z))
        if any(self._is_in(region, rows) for region in self.rows):
            return True
        self.rows.append(rows)
        self.chains.append(())
        self._normal_log_integral = max(self._normal_log_integral, normal_log_integral_of(rows))
        return False

    def _sorted_visit(self, visit: Visit, point: np.ndarray) -> Transitions:
        rows = visit(point, self.visits)
        self.visits += 1
        return rows._replace(z=self.exchanges.sorted(rows.z))

    def _is_in(self, region: Transitions, rows: Transitions) -> bool:
        """True if the chain of a visit is in a region."""
        if agree(region.z, rows.z):
            return True
        points = rows.z[0, evenly(rows.z.shape[1], VISIT_DRAWS)]
        neighbours = Neighbours(np.concatenate(region.z))
        return bool(np.mean(connected(self.target, points, neighbours)) > 0.5)

    @property
    def has_shares(self) -> bool:
        """True if the share of each region could be estimated."""
        return all(np.isfinite(region.share.value) for region in self.regions)

    def keep_influential(self) -> None:
        """Drop regions found only by visits that have a negligible effect."""
        root = robust_cholesky(shrunk_covariance(np.concatenate(self._given_z)))
        centre = np.mean(self._given_z, axis=(0, 1))
        keep = []
        for region in self.regions[: len(self.rows)]:
            steps = solve_triangular(root, np.mean(region.z, axis=(0, 1)) - centre, lower=True)
            share = region.share.value + 2.0 * region.share.error
            keep.append(bool(region.chains) or _effect(share, steps) > MIN_MODE_EFFECT)
        self.rows = [rows for rows, kept in zip(self.rows, keep, strict=True) if kept]
        self.chains = [chains for chains, kept in zip(self.chains, keep, strict=True) if kept]

    def extend_regions(self, count: int, visit: Visit) -> None:
        """Extend each region to at least `count` chains of full length.

        Args:
            count: Number of chains.
            visit: Runs a chain as long as the given chains. New chains start at the last draws of
                the region, and replace the short chain of a visit.
        """
        for k, (rows, given) in enumerate(zip(self.rows, self.chains, strict=True)):
            all_rows = [rows] if given else []
            for i in range(len(given), count):
                all_rows.append(self._sorted_visit(visit, rows.z[0, -1 - i]))
            self.rows[k] = Transitions.joined(all_rows, axis=0)

    def estimate_shares(self, seed: int) -> None:
        """Estimate the share of each region.

        Args:
            seed: Seed of the integrals.
        """
        draws = [rows.z for rows in self.rows]
        shares = [Estimate(1.0, 0.0)]
        if len(draws) > 1:
            nearest = NearestRegion(draws)
            self.log_integrals = [
                self._log_integral_of_region(z, k, nearest, seed) for k, z in enumerate(draws)
            ]
            shares = proportions(self.log_integrals)
        regions = map(Region, self.chains, draws, shares)
        self.regions = [*regions, *self.spikes]

    def log_evidence(self, seed: int) -> Estimate:
        """Log integral over all regions and all orders of exchangeable members."""
        log_integrals = self.log_integrals or [self._log_integral(self.rows[0].z, seed)]
        value, error = log_sum(log_integrals)
        return Estimate(value + self.exchanges.log_orders, error)

    def _log_integral_of_region(
        self, z: np.ndarray, k: int, nearest: NearestRegion, seed: int
    ) -> Estimate:
        """Log integral over the k-th region, in one order of exchangeable members."""
        second_half = z[:, z.shape[1] // 2 :].reshape(-1, z.shape[2])
        if np.mean(nearest(second_half) != k) > MAX_OVERLAP:
            return UNKNOWN
        return self._log_integral(z, seed, lambda points: nearest(points) == k)

    def _log_integral(
        self,
        z: np.ndarray,
        seed: int,
        inside: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> Estimate:
        """Log integral over points inside, in one order of exchangeable members."""
        if not self.exchanges:
            return bridge_log_integral(self.target, z, seed, inside)

        def inside_in_order(points: np.ndarray) -> np.ndarray:
            in_order = self.exchanges.are_sorted(points)
            return in_order if inside is None else in_order & inside(points)

        return bridge_log_integral(self.target, z, seed, inside_in_order)


def _effect(share: float, steps: np.ndarray) -> float:
    """Share of a region times (r / radius_sds)^2, if it is r > radius_sds sds away.

    As in `Optimum.log_effect`.

    Args:
        share: Share of the posterior.
        steps: Step from the mean of the draws to the region, in units of their sds, (d,).
    """
    return share * max(1.0, np.sum(np.square(steps)) / RADIUS_SDS**2)


def _is_negligible(optimum: Optimum, i: int, log_evidence: float) -> bool:
    """True if an end of a search has a negligible share, by Laplace's method.

    Where the density rises without bound, as in the neck of a funnel, there is no mode. The
    curvature at the end of the search, made positive, then gives a rough integral; no chain would
    return from such a spike.

    Args:
        optimum: The best mode of the search.
        i: Index of the end.
        log_evidence: Rough log evidence of the regions of the chains.
    """
    mode = optimum.at(i)
    is_mode = mode.converged and np.isfinite(mode.log_evidence)
    if is_mode and np.isfinite(optimum.log_evidence):
        return bool(optimum.log_effect(mode) < np.log(MIN_MODE_EFFECT))
    tril, _ = mode.inverse_root
    local = normal_log_integral(mode.log_density, tril)
    return not is_mode and local < log_evidence - ROUGH_NATS
