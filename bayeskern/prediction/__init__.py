"""Predictive distributions: Gaussian mixtures, closed forms, draws, responses of a likelihood."""
