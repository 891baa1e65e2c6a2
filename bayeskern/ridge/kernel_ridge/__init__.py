"""Kernel ridge regression, in dual form and on explicit features."""
