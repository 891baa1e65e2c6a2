"""Predictive distributions: Gaussian mixtures, draws, responses under a likelihood, Student t."""
