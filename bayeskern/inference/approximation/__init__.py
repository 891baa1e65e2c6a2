"""Proposals and guides, importance weights, the ELBO and its stopping rule."""
