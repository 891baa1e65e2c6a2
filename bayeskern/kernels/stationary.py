"""Stationary kernels: functions of r^2 = |L^-1 (x - z)|^2, or of x - z.

Rasmussen and Williams (2006), section 4.2.1; Wilson and Adams (2013) for the spectral mixture.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import jax
import jax.numpy as jnp
from numpyro.distributions import constraints

from bayeskern import hyperparameters as hyper
from bayeskern.hyperparameters import hyperparameter
from bayeskern.kernels import feature_maps, metrics, spectral_density
from bayeskern.kernels.base import Kernel


class Stationary(Kernel):
    """variance * f(r^2), with f(0) = 1 and r the distance divided by the lengthscale.

    lengthscale: a number, one per dimension (ARD), or a lower triangular matrix L, in the units
    of the inputs. variance: in the squared units of the output.
    """

    lengthscale: jax.Array = hyperparameter(1.0, constraints.real, scalar=False)
    variance: jax.Array = hyperparameter(1.0)

    @abstractmethod
    def profile(self, u):
        """f as a function of u = r^2."""

    def mixing(self, key, n: int):
        """Draws of g >= 0, shape (n,), with f(u) = E exp(-g u / 2).

        A radial function is positive definite in every dimension exactly if it is such a mixture
        of RBF profiles (Schoenberg 1938, theorem 2).
        """
        return spectral_density.refuse(self)

    def frequencies(self, key, n, d, orthogonal=False):
        for_direction, for_mixing = jax.random.split(key)
        g = self.mixing(for_mixing, n)
        w = jnp.sqrt(g)[:, None] * spectral_density.gaussian(for_direction, n, d, orthogonal)
        # w'L^-1 (x - z) = (L^-T w)'(x - z), and scaling the unit vectors gives L^-T.
        return w @ metrics.scale(jnp.eye(d), self.lengthscale).T

    def own_hyperparameters(self):
        # A scalar or a vector must be positive; of a Cholesky factor only the diagonal must.
        matrix = len(hyper.shape(self.lengthscale)) == 2
        lengthscale = constraints.lower_cholesky if matrix else constraints.positive
        return [
            (name, path, lengthscale if name == "lengthscale" else constraint)
            for name, path, constraint in super().own_hyperparameters()
        ]

    def evaluate(self, X, Z=None):
        X, Z = metrics.centred(X, Z)
        X = metrics.scale(X, self.lengthscale)
        Z = None if Z is None else metrics.scale(Z, self.lengthscale)
        return self.variance * self.profile(metrics.squared_distance(X, Z))

    def evaluate_diag(self, X):
        return jnp.broadcast_to(self.variance, X.shape[:1])


class RBF(Stationary):
    """Squared exponential, v exp(-r^2 / 2)."""

    features_are_a_series: ClassVar[bool] = True

    def profile(self, u):
        return jnp.exp(-0.5 * u)

    def mixing(self, key, n):
        return jnp.ones(n)

    def features(self, X, degree):
        # exp(-|x - z|^2 / 2) = exp(-|x|^2 / 2) exp(-|z|^2 / 2) sum_a x^a z^a / a!
        X = metrics.scale(X, self.lengthscale)
        return feature_maps.gaussian_series(self, X, degree, self.variance)


# The Matern profiles are not smooth functions of u = r^2 at 0. Each has the one below it as its
# derivative, so that all orders are right where they exist; where they do not (the first of
# Matern12, the second of Matern32) they multiply a vanishing du and are set to 0.


@jax.custom_jvp
def matern12(u):
    """exp(-r)."""
    return jnp.exp(-jnp.sqrt(u))


@matern12.defjvp
def _matern12_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    # Points that differ by rounding alone count as one: there du is rounding noise, divided by r.
    apart = u > jnp.finfo(jnp.result_type(u, float)).eps
    r = jnp.sqrt(jnp.where(apart, u, 1.0))
    return matern12(u), jnp.where(apart, -0.5 * matern12(u) / r, 0.0) * du


@jax.custom_jvp
def matern32(u):
    """(1 + s) exp(-s), s = sqrt(3) r."""
    s = jnp.sqrt(3.0 * u)
    return (1.0 + s) * jnp.exp(-s)


@matern32.defjvp
def _matern32_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    return matern32(u), -1.5 * matern12(3.0 * u) * du


@jax.custom_jvp
def matern52(u):
    """(1 + s + s^2 / 3) exp(-s), s = sqrt(5) r."""
    s = jnp.sqrt(5.0 * u)
    return (1.0 + s + s * s / 3.0) * jnp.exp(-s)


@matern52.defjvp
def _matern52_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    return matern52(u), -(5.0 / 6.0) * matern32(5.0 / 3.0 * u) * du


def _student_t(key, nu, n):
    # The spectral density of a Matern kernel is a multivariate Student t with 2 nu degrees of
    # freedom: a Gaussian whose precision has the gamma distribution, of mean 1.
    return nu / jax.random.gamma(key, nu, (n,))


class Matern12(Stationary):
    """Matern 1/2, v exp(-r): the Ornstein-Uhlenbeck process, continuous and nowhere smooth."""

    def profile(self, u):
        return matern12(u)

    def mixing(self, key, n):
        return _student_t(key, 0.5, n)


class Matern32(Stationary):
    """Matern 3/2, v (1 + s) exp(-s) with s = sqrt(3) r: once differentiable."""

    def profile(self, u):
        return matern32(u)

    def mixing(self, key, n):
        return _student_t(key, 1.5, n)


class Matern52(Stationary):
    """Matern 5/2, v (1 + s + s^2/3) exp(-s) with s = sqrt(5) r: twice differentiable."""

    def profile(self, u):
        return matern52(u)

    def mixing(self, key, n):
        return _student_t(key, 2.5, n)


class RationalQuadratic(Stationary):
    """v (1 + r^2 / (2 alpha))^-alpha: a mixture of RBF kernels over lengthscales."""

    alpha: jax.Array = hyperparameter(1.0)

    def profile(self, u):
        return jnp.exp(-self.alpha * jnp.log1p(0.5 * u / self.alpha))

    def mixing(self, key, n):
        return jax.random.gamma(key, self.alpha, (n,)) / self.alpha


class InverseMultiquadric(Stationary):
    """v (1 + r^2)^-1/2."""

    def profile(self, u):
        return 1.0 / jnp.sqrt(1.0 + u)

    def mixing(self, key, n):
        return 2.0 * jax.random.gamma(key, 0.5, (n,))


class Multiquadric(Stationary):
    """v (1 + r^2)^1/2, which is NOT positive definite (its negative is so conditionally).

    For interpolation and kernel ridge only; a Gaussian process refuses it.
    """

    positive_definite: ClassVar[bool] = False

    def profile(self, u):
        return jnp.sqrt(1.0 + u)


class White(Kernel):
    """v on the diagonal of k(X) and 0 elsewhere; k(X, Z) is 0 even when Z equals X."""

    variance: jax.Array = hyperparameter(1.0)

    def evaluate(self, X, Z=None):
        if Z is None:
            return self.variance * jnp.eye(X.shape[0], dtype=X.dtype)
        return jnp.zeros((X.shape[0], Z.shape[0]), X.dtype)

    def evaluate_diag(self, X):
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def features(self, X, degree):
        raise ValueError(
            f"{self!r} has no feature map: white noise is no function of a point. Leave it out, "
            "and give its variance as the noise of the model."
        )


class SpectralMixture(Kernel):
    """sum_q w_q prod_d exp(-2 pi^2 t_d^2 s_qd^2) cos(2 pi t_d m_qd), with t = x - z.

    weights: (Q,); means (frequencies, cycles per unit of the input) and scales (their spread):
    (Q, d), or (Q, 1) for all dimensions alike. Wilson and Adams (2013), equation 12.
    """

    weights: jax.Array = hyperparameter((1.0,), scalar=False)
    means: jax.Array = hyperparameter(((1.0,),), constraints.nonnegative, scalar=False)
    scales: jax.Array = hyperparameter(((1.0,),), scalar=False)

    def evaluate(self, X, Z=None):
        self._check_shapes(X)
        X, Z = metrics.centred(X, Z)
        within, Z = Z is None, X if Z is None else Z
        total = 0.0
        for q in range(self.weights.shape[0]):
            scales = jnp.broadcast_to(self.scales[q], X.shape[1:])
            means = jnp.broadcast_to(self.means[q], X.shape[1:])
            u = metrics.squared_distance(X * scales, None if within else Z * scales)
            term = self.weights[q] * jnp.exp(-2.0 * jnp.pi**2 * u)
            for d in range(X.shape[1]):
                term = term * jnp.cos(2.0 * jnp.pi * means[d] * (X[:, None, d] - Z[None, :, d]))
            total = total + term
        return total

    def evaluate_diag(self, X):
        self._check_shapes(X)
        return jnp.broadcast_to(jnp.sum(self.weights), X.shape[:1])

    def frequencies(self, key, n, d, orthogonal=False):
        self._check_shapes(jnp.zeros((1, d)))
        for_component, for_sign, for_spread = jax.random.split(key, 3)
        q = jax.random.categorical(for_component, jnp.log(self.weights), shape=(n,))
        # A product of cosines, one for each dimension: each has a sign of its own.
        means = jax.random.rademacher(for_sign, (n, d)) * self.means[q]
        spread = self.scales[q] * spectral_density.gaussian(for_spread, n, d, orthogonal)
        return 2.0 * jnp.pi * (means + spread)

    def _check_shapes(self, X):
        # JAX clamps an index that is out of range instead of refusing it.
        weights, d = jnp.shape(self.weights), X.shape[1]
        for name, shape in (("means", jnp.shape(self.means)), ("scales", jnp.shape(self.scales))):
            if len(weights) != 1 or shape not in ((*weights, 1), (*weights, d)):
                raise ValueError(
                    f"weights has shape {weights} and {name} has shape {shape}; for points of {d} "
                    f"dimensions give weights of shape (Q,) and {name} of shape (Q, {d}) or (Q, 1)."
                )
