"""The search for a minimum from several starts, on functions whose minima are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import rosen_der

from bayeskern.inference.search.lbfgs import evaluate, minimise

TRACES = []


class Quadratic(eqx.Module):
    """(z - centre)' diag(curvature) (z - centre) / 2, infinite where z_0 is below an edge."""

    centre: jax.Array
    curvature: jax.Array
    edge: float = eqx.field(static=True, default=-np.inf)

    def __call__(self, z):
        TRACES.append(self.edge)
        value = 0.5 * jnp.sum(self.curvature * jnp.square(z - self.centre))
        return jnp.where(z[0] < self.edge, jnp.inf, value)


def rosenbrock(z):
    return jnp.sum(100.0 * jnp.square(z[1:] - jnp.square(z[:-1])) + jnp.square(1.0 - z[:-1]))


def test_rosenbrock_from_several_starts():
    starts = np.random.default_rng(0).uniform(-2.0, 2.0, (4, 5))
    z, values, gradients = minimise(rosenbrock, starts, 500)
    assert z.shape == gradients.shape == (4, 5) and values.shape == (4,)
    # It has a second minimum, near (-1, 1, 1, 1, 1).
    lowest = values < 1e-10
    assert lowest.any() and np.all(lowest | (np.abs(values - 3.93) < 0.01))
    np.testing.assert_allclose(z[lowest], 1.0, atol=1e-5)
    np.testing.assert_allclose(gradients, [rosen_der(point) for point in z], atol=1e-9)
    assert np.abs(gradients).max() < 1e-5


def test_scales_ten_orders_apart():
    objective = Quadratic(jnp.array([3.0, -2e5]), jnp.array([1e6, 1e-4]))
    (z,), (value,), _ = minimise(objective, np.zeros((1, 2)), 200)
    np.testing.assert_allclose(z, [3.0, -2e5], rtol=1e-6)
    assert value < 1e-8


def test_infinite_values_end_a_step_and_at_a_start_the_search():
    """The first steps overshoot the edge, where the objective becomes infinite."""
    objective = Quadratic(jnp.array([0.5, 7.0]), jnp.array([1e3, 1.0]), edge=0.4)
    z, values, _ = minimise(objective, np.array([[30.0, -50.0], [0.0, 1.0]]), 200)
    np.testing.assert_allclose(z[0], [0.5, 7.0], atol=1e-5)
    assert values[0] < 1e-10 and values[1] == np.inf
    np.testing.assert_array_equal(z[1], [0.0, 1.0])


def test_steps_are_limited_and_reported():
    reported = []
    starts = np.random.default_rng(1).uniform(-2.0, 2.0, (3, 4))
    minimise(rosenbrock, starts, 40, lambda n, state: reported.append((n, state.value)))
    steps, values = zip(*reported, strict=True)
    assert steps == (25, 40) and all(v.shape == (3,) for v in values)
    assert np.all(values[1] < values[0])


def test_one_step_goes_down_the_gradient():
    objective = Quadratic(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
    (z,), _, _ = minimise(objective, np.zeros((1, 2)), 1)
    np.testing.assert_allclose(z[1], 2.0 * z[0])
    assert 0.0 < z[0] < 2.0


def test_new_values_do_not_compile_again():
    for centre in (1.0, 2.0):
        objective = Quadratic(jnp.array([centre]), jnp.ones(1), edge=-17.0)
        (z,), _, _ = minimise(objective, np.array([[4.0]]), 10)
        np.testing.assert_allclose(z, centre, atol=1e-5)
        if centre == 1.0:
            TRACES.clear()
    assert not TRACES


def test_values_and_gradients_by_the_program_of_the_search():
    bowl = Quadratic(jnp.array([1.0, 2.0]), jnp.array([2.0, 4.0]), edge=-1.5)
    # 2 (3 - 1)^2 / 2 + 4 (1 - 2)^2 / 2, and a point below the edge.
    z = np.array([[3.0, 1.0], [-2.0, 0.0], [np.nan, 0.0]])
    value, gradient = evaluate(bowl, z)
    np.testing.assert_allclose(value, [6.0, np.inf, np.inf])
    np.testing.assert_allclose(gradient[0], [4.0, -4.0])
    assert np.all(np.isnan(gradient[1:]))
    traces = len(TRACES)
    minimise(bowl, z, 50)
    assert len(TRACES) == traces
