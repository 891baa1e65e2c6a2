"""Forecasts that add up over a hierarchy of series or of periods."""
