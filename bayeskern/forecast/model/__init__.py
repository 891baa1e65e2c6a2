"""Models of a series: kernels with priors, effects, transformations, marginal likelihood."""
