"""Gaussian processes in time, computed by NumPy without compilation, for forecasts."""
