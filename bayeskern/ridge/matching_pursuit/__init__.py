"""Orthogonal matching pursuit over a dictionary of kernel functions."""
