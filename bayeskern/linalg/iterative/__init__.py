"""Iterative solution without the matrix: preconditioned conjugate gradients."""
