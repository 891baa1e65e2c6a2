"""Solver for state-space models: the Kalman filter."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bayeskern.core import validation
from bayeskern.core.validation import is_traced
from bayeskern.kernels.base import Kernel
from bayeskern.kernels.components import in_component, part_of, without
from bayeskern.kernels.measured.kernel import Measured
from bayeskern.kernels.state_space.blocks import Weighted
from bayeskern.kernels.state_space.space import MAX_STATE_SIZE, NoStateSpaceError
from bayeskern.kernels.truncation import (
    harmonics_of,
    harmonics_suffice,
    stated_error,
    with_harmonics,
)
from bayeskern.linalg.factor import AnyArray, Factor
from bayeskern.linalg.markov.density import log_density
from bayeskern.linalg.markov.factor import MarkovFactor, ObservedProcess, block_length
from bayeskern.linalg.markov.schedule import Schedule, count_slots
from bayeskern.linalg.markov.smoother import (
    Smoother,
    product,
    semidefinite_root,
    weighted_covariances,
)
from bayeskern.linalg.solver import Cost, Fits, Noise, NoisyGram, Refused, Solver

# Array elements per batch of draws (128 MB).
DRAWS_BATCH_NUMBERS = 2**24


class MarkovSolver(Solver):
    """Kalman filter, for one input and a kernel with a state-space form.

    Rows may be values, derivatives and means over intervals, which may overlap.

    Attributes:
        harmonics: Number of harmonics of each periodic kernel; None until prepared.
        order: Indices that sort the times, shape (n,); None if the times are traced. They are
            precomputed, because sorting inside a program takes longer than the filter, and XLA
            would sort constant times during compilation, which takes minutes.
        schedule: Order of the steps for measured rows, in place of `order`.
    """

    harmonics: tuple[int | None, ...] | None = eqx.field(static=True, default=None)
    order: jax.Array | None = None
    schedule: Schedule | None = None

    name = "markov"

    def applicability(
        self, kernel: Kernel, X, noise: Noise = 0.0, observed: AnyArray | None = None
    ) -> Fits | Refused:
        d = X.shape[1] if kernel.is_of_points else X.shape[2] - 1
        if d != 1:
            return Refused(f"there are {d} inputs, but a state-space form has one, the time")
        if not self._is_prepared_for(kernel, X):
            return Refused("the solver is prepared for other times")
        kernel = self._truncate(kernel)
        slots = 0 if kernel.is_of_points else self._count_slots(X)
        if slots is None:
            return Refused("the order of the intervals is unknown while JAX traces them")
        try:
            space = kernel.state_space()
        except NoStateSpaceError as reason:
            return Refused(str(reason).rstrip("."))
        s, n = space.size + slots, X.shape[0]
        if space.size == 0:
            return Refused("white noise alone has no state")
        if s > MAX_STATE_SIZE:
            overlap = f", for {slots:,} intervals that overlap" if slots > 1 else ""
            return Refused(
                f"its state has {s:,} numbers{overlap}, and the maximum is {MAX_STATE_SIZE}"
            )
        unknown = [is_traced(start) or is_traced(X) for start in space.starts]
        for start, is_unknown in zip(space.starts, unknown, strict=True):
            # NumPy, not JAX: under `jit`, JAX traces a comparison even if its operands are known.
            if not is_unknown and not _first_time(X) >= np.asarray(start):
                if np.isnan(float(start)):
                    return Refused("the start of a trend has no value yet")
                return Refused(f"a trend starts at {float(start):g}, after the first time")
        # Operations: products of s x s matrices with b x b blocks, forward and backward. Memory:
        # the state before each block of times; the states of one block and their derivatives.
        b, length = max(term.b for term in space.terms) + slots, block_length(s)
        blocks = n / length + 3.0 * length
        bytes_of_rows = 8.0 * (8.0 + 6.0 * slots) * n
        operations = 12.0 * n * s**2 * (b + 4.0)
        errors, unverified = [stated_error(kernel)], None
        if any(unknown):
            unverified = "the start of a trend cannot be compared with times that JAX traces"
        if isinstance(kernel, Measured) and slots > 0 and not space.has_closed_integrals:
            # A double integral for each of the two parts of a step.
            nodes = kernel.kinds.nodes
            operations += 50.0 * n * nodes**2 * b**3
            if not kernel.uses_nodes(X):
                # Nodes are chosen for the intervals of the dense solver, which are not shorter than
                # the steps here; this kernel needs none there.
                unverified = "it integrates by quadrature what the dense solver has in closed form"
                errors.append(f"integrated by quadrature with {nodes} nodes, of unknown error")
        cost = Cost(operations, 8.0 * blocks * s * (s + 1) + bytes_of_rows)
        return Fits(cost, "; ".join(filter(None, errors)) or None, unverified)

    def prepare(self, kernel: Kernel, X) -> MarkovSolver:
        if is_traced(X):
            return MarkovSolver(harmonics_of(kernel))
        if not kernel.is_of_points:
            return MarkovSolver(harmonics_of(kernel), schedule=Schedule.of(X))
        order = np.argsort(np.asarray(X)[:, 0], kind="stable")
        return MarkovSolver(harmonics_of(kernel), jnp.asarray(order))

    def factor(self, C: NoisyGram) -> MarkovFactor:
        kernel = self._truncate(C.kernel)
        suffice = harmonics_suffice(kernel)
        if not is_traced(suffice) and not suffice:
            raise ValueError(
                f"{kernel!r} has a lengthscale that needs more harmonics: its covariances are "
                f"{stated_error(kernel)}. Prepare the solver with this kernel, or set a larger "
                "`harmonics` of the kernel."
            )
        factor = MarkovFactor.compute(self._process(C))
        return eqx.tree_at(lambda f: f.sd, factor, jnp.where(suffice, factor.sd, jnp.nan))

    def mean(
        self, C: NoisyGram, part: str | None, factor: Factor | None, r, weights, X_new
    ) -> jax.Array:
        if not C.kernel.is_of_points:
            return super().mean(C, part, factor, r, weights, X_new)
        space = part_of(self._truncate(C.kernel), part).state_space()
        if space.starts:
            # New times may precede the start; there the state-space form does not hold.
            return super().mean(C, part, factor, r, weights, X_new)
        if space.size == 0:
            return jnp.zeros(len(X_new))
        return weighted_covariances(space, C.X[:, 0], weights, X_new[:, 0])

    def variance(self, C: NoisyGram, part: str | None, factor: Factor, X_new) -> jax.Array:
        C = C._replace(kernel=self._truncate(C.kernel))
        if not _has_smoother(C.kernel):
            return super().variance(C, part, factor, X_new)
        smoother, white = _smoother(C, part, X_new)
        return smoother.variances() + white

    def covariance(self, C: NoisyGram, part: str | None, factor: Factor, X_new) -> jax.Array:
        C = C._replace(kernel=self._truncate(C.kernel))
        if not _has_smoother(C.kernel):
            return super().covariance(C, part, factor, X_new)
        validation.joint_points(len(X_new))
        smoother, white = _smoother(C, part, X_new)
        return smoother.covariance() + white * jnp.eye(len(X_new))

    def deviations(
        self, C: NoisyGram, part: str | None, factor: Factor, X_new, key: jax.Array, size: int
    ) -> jax.Array:
        """Draws by Matheron's rule: prior draws minus predictions from simulated data.

        Journel and Huijbregts (1978), "Mining Geostatistics", section VII.A.
        """
        C = C._replace(kernel=self._truncate(C.kernel))
        if not _has_smoother(C.kernel):
            return super().deviations(C, part, factor, X_new, key, size)
        space, part_kernel = C.kernel.state_space(), part_of(C.kernel, part)
        others = None if part is None else without(C.kernel, part)
        n, t = len(C.X), C.X[:, 0]
        times, noise = jnp.concatenate([t, X_new[:, 0]]), C.noise + sum(space.white)
        white = sum(part_kernel.state_space().white)

        def draw(key):
            keys = jax.random.split(key, 4)
            f = _draw_prior(part_kernel, times, keys[0])
            error = jnp.sqrt(noise) * jax.random.normal(keys[1], (n,))
            y = f[:n] + _draw_prior(others, t, keys[2]) + error
            y = y if C.observed is None else jnp.where(C.observed, y, 0.0)
            explained = self.mean(C, part, factor, y, factor.solve(y), X_new)
            # White noise at new times is independent of the data.
            white_noise = jnp.sqrt(white) * jax.random.normal(keys[3], explained.shape)
            return f[n:] - explained + white_noise

        batch = max(1, DRAWS_BATCH_NUMBERS // (len(times) * space.size))
        return jax.lax.map(draw, jax.random.split(key, size), batch_size=min(batch, size))

    def multiply(self, C: NoisyGram, b: AnyArray) -> jax.Array:
        # Without the factor, so that residual checks of its solutions are independent of it.
        process = self._process(C)
        Cb = product(process, b) + process.unsorted(process.noise) * b
        return Cb if C.observed is None else jnp.where(C.observed, Cb, b)

    def log_density(self, C: NoisyGram, R: AnyArray) -> jax.Array:
        process = self._process(C)
        density = jnp.vectorize(lambda r: log_density(process, r), signature="(n)->()")(R)
        return jnp.where(harmonics_suffice(self._truncate(C.kernel)), density, -jnp.inf)

    def numbers_per_point(self, kernel: Kernel, n: int) -> int:
        kernel = self._truncate(kernel)
        # Of a step: products with the state, its gain, and its row of the model.
        return 4 * (kernel.state_space().size + 2) if _has_smoother(kernel) else n

    def _truncate(self, kernel: Kernel) -> Kernel:
        """The kernel, with the solver's numbers of harmonics in its periodic kernels."""
        return with_harmonics(kernel, self.harmonics or harmonics_of(kernel))

    def _process(self, C: NoisyGram) -> ObservedProcess:
        """Observed process of a matrix; white noise of the kernel is added to the noise."""
        kernel = self._truncate(C.kernel)
        space = kernel.state_space()
        noise = C.noise + sum(space.white)
        if isinstance(kernel, Measured):
            schedule = self.schedule or Schedule.of(C.X)
            return schedule.process(space, kernel.kinds, C.X, noise, C.observed)
        return ObservedProcess.of(space, C.X[:, 0], noise, C.observed, self.order)

    def _is_prepared_for(self, kernel: Kernel, X) -> bool:
        """True unless the solver is known to be prepared for other times or rows than X."""
        if self.order is None and self.schedule is None:
            return True
        if kernel.is_of_points:
            return self.order is not None and _is_order(self.order, X)
        return self.schedule is not None and self.schedule.may_be_of(X)

    def _count_slots(self, X) -> int | None:
        """Number of measured rows X whose intervals overlap, at most; None if unknown."""
        if self.schedule is not None:
            return self.schedule.n_slots
        if is_traced(X) or isinstance(X, jax.ShapeDtypeStruct):
            return None
        return count_slots(X)


def _is_order(order, X) -> bool:
    """True unless `order` is known not to sort the times X (n, 1)."""
    if len(order) != X.shape[0]:
        return False
    if is_traced(X) or is_traced(order):
        return True
    return not np.any(np.diff(np.asarray(X)[np.asarray(order), 0]) < 0.0)


def _first_time(X) -> float:
    """Time of the first point, or first start of a measured row."""
    X = np.asarray(X)
    return X.min() if X.ndim == 2 else X[:, 0, 0].min()


def _draw_prior(kernel: Kernel | None, t: jax.Array, key: jax.Array) -> jax.Array:
    """Draw of the process at t (n,), without white noise."""
    if kernel is None or kernel.state_space().size == 0:
        return jnp.zeros(t.shape)
    # The state from step to step: K itself may be singular, as at equal times.
    process = ObservedProcess.of(kernel.state_space(), t, 0.0)
    key, key_first = jax.random.split(key)

    def body(x, data):
        row, white = data
        roots = Weighted(tuple(map(_root, row.Q.blocks)), tuple(map(jnp.sqrt, row.Q.weights)))
        return row.A @ x + roots.times(white), row.h @ x

    first = _root(process.initial.P) @ jax.random.normal(key_first, (process.size,))
    _, f = process.scan(body, first, jax.random.normal(key, (len(t), process.size)))
    return process.unsorted(f)


def _root(P: jax.Array) -> jax.Array:
    """Matrix R with R R' = P, up to rounding; a number of variance 0 stays 0."""
    return jnp.where(jnp.diag(P)[:, None] > 0.0, semidefinite_root(P), 0.0)


def _has_smoother(kernel: Kernel) -> bool:
    """True if the state-space form holds at all points; new times may precede a start."""
    return kernel.is_of_points and not kernel.state_space().starts


def _smoother(C: NoisyGram, part: str | None, X_new) -> tuple[Smoother, jax.Array]:
    """Smoother of f, or a component, at X_new, and the variance of its white noise.

    White noise at new times is independent of the data.
    """
    space = C.kernel.state_space()
    mask = np.ones(space.size) if part is None else _state_mask(C.kernel, part)
    noise, t_new = C.noise + sum(space.white), X_new[:, 0]
    smoother = Smoother.of(space, mask, C.X[:, 0], noise, C.observed, t_new)
    return smoother, sum(part_of(C.kernel, part).state_space().white, start=jnp.zeros(()))


def _state_mask(kernel: Kernel, name: str) -> np.ndarray:
    """Mask of the state variables of a component, 1.0 or 0.0: (s,)."""
    sizes = [term.state_space().size for _, term in kernel.terms_of_sum()]
    return np.repeat(np.array(in_component(kernel, name), float), sizes)
