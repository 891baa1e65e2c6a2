"""Figures of a report: the style, and the figures of each section."""
