"""Forecasts as files."""
