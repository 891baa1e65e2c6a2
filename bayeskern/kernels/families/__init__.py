"""Families of kernels: stationary, periodic, dot-product, trend and others."""
