"""Traces of a NumPyro model: arguments, sites and effect handlers."""
