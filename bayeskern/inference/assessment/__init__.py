"""Verdicts on the results of inference methods."""
