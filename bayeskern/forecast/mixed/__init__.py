"""Forecasts of totals over periods that also use values at a finer frequency."""
