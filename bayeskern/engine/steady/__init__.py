"""Structural models on a regular grid, by a filter with a constant gain."""
