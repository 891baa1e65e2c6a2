"""Draws and guides of other programs, as a posterior with a verdict."""
