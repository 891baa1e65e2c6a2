"""Means of kernels over pairs of intervals, in closed form or by quadrature."""
