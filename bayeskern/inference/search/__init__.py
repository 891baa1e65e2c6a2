"""Modes of a log density, and the matrix factors of their curvature."""
