"""Kernels of values and slopes for smolgp and tinygp, which have none of their own."""

import jax
import jax.numpy as jnp
import smolgp
import tinygp


class TinySlopes(tinygp.kernels.quasisep.Matern32):
    """Values and slopes for tinygp's state-space solver, X = (t, 1 for slopes)."""

    def coord_to_sortable(self, X):
        return X[0]

    def transition_matrix(self, X1, X2):
        return super().transition_matrix(X1[0], X2[0])

    def observation_model(self, X):
        # Its transition matrix is the transposed one, in which the slope has the other sign.
        return self.sigma * jnp.stack([1.0 - X[1], -X[1]])


class SmolSlopes(smolgp.kernels.Matern32):
    """Values and slopes for smolgp, X = (t, 1 for slopes)."""

    def observation_matrix(self, X):
        return jnp.stack([1.0 - X[1], X[1]])[None]

    def transition_matrix(self, X1, X2):
        return super().transition_matrix(*map(self.coord_to_sortable, (X1, X2)))

    def process_noise(self, X1, X2):
        return super().process_noise(*map(self.coord_to_sortable, (X1, X2)))


class DenseSlopes(tinygp.kernels.Kernel):
    """Values and slopes from derivatives of a kernel of tinygp, as in its documentation."""

    kernel: tinygp.kernels.Kernel

    def evaluate(self, X1, X2):
        (s, s_slope), (t, t_slope) = X1, X2
        k = self.kernel.evaluate
        by_s, by_t = jax.grad(k, argnums=0), jax.grad(k, argnums=1)
        of_value = jnp.where(t_slope > 0, by_t(s, t), k(s, t))
        of_slope = jnp.where(t_slope > 0, jax.grad(by_s, argnums=1)(s, t), by_s(s, t))
        return jnp.where(s_slope > 0, of_slope, of_value)
