"""Kernel machines: a convex loss and the squared norm of the function."""
