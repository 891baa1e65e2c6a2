"""Posteriors: predictions, summaries, conversion to ArviZ, files."""
