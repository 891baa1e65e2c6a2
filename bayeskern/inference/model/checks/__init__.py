"""Checks of a model and its data beyond single sites."""
