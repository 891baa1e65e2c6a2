"""bayeskern: kernels, Gaussian processes and Bayesian inference on NumPyro, JAX and ArviZ."""

import os as _os

import jax as _jax

# float64 unless the user has decided otherwise.
if "JAX_ENABLE_X64" not in _os.environ:
    _jax.config.update("jax_enable_x64", True)

from bayeskern import kernels
from bayeskern.gp import GaussianProcess, GPRegression
from bayeskern.kernels import Free, from_sd, sample

__version__ = "0.1.0"
__all__ = ["Free", "GPRegression", "GaussianProcess", "from_sd", "kernels", "sample"]
