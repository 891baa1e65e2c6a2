"""Few values, moments by quadrature."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import plate, sample

from tests.inference.zoo.moments import Moments, on_grid

STUDIES = np.array([4.0, -2.0, 9.0])
HALF_CAUCHY = dist.HalfCauchy(1.0)
HALF_T = dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 2.5))
CLUSTERS = np.array([-8.0, -7.6, -7.9, 0.0, 8.0, 8.2])


def three_studies(prior: dist.Distribution) -> Callable[[], None]:
    """Three studies with known errors: mean and sd between, non-centred."""

    def model():
        m, tau = sample("m", dist.Normal(0, 10)), sample("tau", prior)
        with plate("study", 3):
            e = sample("e", dist.Normal(0, 1))
            sample("y", dist.Normal(m + tau * e, 1.0), obs=jnp.asarray(STUDIES))

    return model


def three_studies_truth(prior: dist.Distribution) -> dict[str, Moments]:
    """Moments of tau by quadrature: y has variance 1 + tau^2, and a common variance of 100."""
    tau = np.exp(np.linspace(-8.0, 12.0, 20_001))
    v = 1.0 + tau**2
    log_p = np.log(tau) + np.asarray(prior.log_prob(jnp.asarray(tau))) - np.log(v)
    log_p -= 1.5 * np.var(STUDIES) / v + 0.5 * np.log(v + 300.0)
    return on_grid(log_p - 1.5 * np.mean(STUDIES) ** 2 / (v + 300.0), tau=tau)


def three_studies_cauchy(rng: np.random.Generator) -> Callable[[], None]:
    """Three studies, half-Cauchy sd."""
    return three_studies(HALF_CAUCHY)


def three_studies_half_t(rng: np.random.Generator) -> Callable[[], None]:
    """Three studies, half-t sd."""
    return three_studies(HALF_T)


def two_clusters(rng: np.random.Generator) -> Callable[[], None]:
    """Location of six values in two clusters, Student t noise."""

    def model():
        m = sample("m", dist.Normal(0, 20))
        sample("y", dist.StudentT(1.5, m, 0.5).expand([6]).to_event(1), obs=jnp.asarray(CLUSTERS))

    return model


def two_clusters_truth(rng: np.random.Generator) -> dict[str, Moments]:
    """Moments by quadrature."""
    m = np.linspace(-100.0, 100.0, 400_001)
    squares = np.square((CLUSTERS[:, None] - m) / 0.5)
    return on_grid(-0.5 * (m / 20.0) ** 2 - 1.25 * np.sum(np.log1p(squares / 1.5), axis=0), m=m)


MODELS = (
    three_studies_cauchy,
    three_studies_half_t,
    two_clusters,
)
# Exact moments, from the generator of the data, which these data do not need.
EXACT = {
    "three_studies_cauchy": lambda rng: three_studies_truth(HALF_CAUCHY),
    "three_studies_half_t": lambda rng: three_studies_truth(HALF_T),
    "two_clusters": two_clusters_truth,
}
