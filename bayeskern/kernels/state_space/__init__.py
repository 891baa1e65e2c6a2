"""Gaussian processes in time as linear state-space models."""
