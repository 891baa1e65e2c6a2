"""Shared utilities: checks of input, batching, formatting, files, figures, timing."""
