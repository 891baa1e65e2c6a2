"""Predictive distributions: Gaussian mixtures, closed forms, draws, responses."""
