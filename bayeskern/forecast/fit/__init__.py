"""Fits of one model to a series: modes, draws, Student t noise and change points."""
