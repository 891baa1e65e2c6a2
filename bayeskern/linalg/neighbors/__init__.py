"""Nearest-neighbour (Vecchia) approximation of covariance matrices."""
