"""Gaussian processes in time, in NumPy without compilation: densities, filters, long series."""
