"""Latent Gaussian processes: Laplace's approximation, sampled and sparse models."""
