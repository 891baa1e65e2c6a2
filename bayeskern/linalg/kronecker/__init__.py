"""Covariance matrices on full grids: Kronecker products."""
