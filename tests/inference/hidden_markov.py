"""A chain of two hidden states, as a loop and as a scan, and all of its paths."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan
from numpyro.contrib.funsor import markov

STAY = np.array([[0.9, 0.1], [0.3, 0.7]])
LEVEL = dist.Uniform(1.0, 3.0)


def chain(y):
    level = numpyro.sample("level", LEVEL)
    state = 0
    for t in markov(range(len(y))):
        state = numpyro.sample(f"state_{t}", dist.Categorical(jnp.asarray(STAY)[state]))
        numpyro.sample(f"y_{t}", dist.Normal(level * state, 1.0), obs=y[t])


def scanned(y):
    level = numpyro.sample("level", LEVEL)

    def step(state, y_t):
        state = numpyro.sample("state", dist.Categorical(jnp.asarray(STAY)[state]))
        numpyro.sample("y", dist.Normal(level * state, 1.0), obs=y_t)
        return state, None

    scan(step, 0, y)


def paths(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """All paths, (2^steps, steps), and the probability of each step of them."""
    all_paths = np.array(np.meshgrid(*[[0, 1]] * steps, indexing="ij")).reshape(steps, -1).T
    before = np.column_stack([np.zeros(len(all_paths), int), all_paths[:, :-1]])
    return all_paths, STAY[before, all_paths]
