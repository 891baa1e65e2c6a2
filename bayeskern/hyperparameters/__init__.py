"""Hyperparameters: their values, their dotted names, and sampling them.

A hyperparameter is a number, a NumPyro distribution or `Free(init)`. An object whose
hyperparameters are all numbers is *concrete* and can be evaluated. An object with distributions or
free values is a *specification*; `sample` makes it concrete inside a NumPyro model.
"""

from bayeskern.hyperparameters.parametrized import (
    Parametrized,
    PointEstimate,
    Site,
    get,
    replace,
    sites,
)
from bayeskern.hyperparameters.sampling import at_medians, sample, sample_value
from bayeskern.hyperparameters.values import (
    WRAPPERS,
    DefaultedHyperparameter,
    Free,
    Hyperparameter,
    as_hyperparameter,
    check,
    from_sd,
    hyperparameter,
    innermost,
    is_from_sd,
    is_specified,
    shape,
    show,
)

__all__ = [
    "WRAPPERS",
    "DefaultedHyperparameter",
    "Free",
    "Hyperparameter",
    "Parametrized",
    "PointEstimate",
    "Site",
    "as_hyperparameter",
    "at_medians",
    "check",
    "from_sd",
    "get",
    "hyperparameter",
    "innermost",
    "is_from_sd",
    "is_specified",
    "replace",
    "sample",
    "sample_value",
    "shape",
    "show",
    "sites",
]
