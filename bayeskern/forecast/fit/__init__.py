"""Modes, draws, robust noise, change points and earlier origins of one structure."""
