"""Gaussian processes in time for forecasts, in NumPy without compilation."""
