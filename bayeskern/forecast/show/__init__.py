"""Figures, summaries, remarks and tables of totals of a forecast."""
