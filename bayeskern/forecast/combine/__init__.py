"""Averages over fitted models: weights, predictive distributions, updates."""
