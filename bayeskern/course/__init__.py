"""Estimators and conjugate families of the lecture notes, each about a page long.

Import the estimators from `bayeskern` or `bayeskern.ridge`, and the conjugate families from
`bayeskern`. This module imports nothing: only the estimators need
scikit-learn, which is slow to import.
"""
