"""The machines of the lecture notes, each about as long as a textbook page.

Import the estimators from `bayeskern` or `bayeskern.ridge`, and the conjugate families from
`bayeskern` or `bayeskern.conjugate`. This module imports nothing, because scikit-learn, which the
estimators need and the conjugate families do not, takes long to import.
"""
