"""Priors of processes as NumPy formulas: of any kernel, and of totals with fine steps."""
