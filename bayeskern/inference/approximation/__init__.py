"""Proposals and guides, importance weights, the ELBO and when to stop."""
