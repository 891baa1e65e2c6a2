"""Covariances of linear functionals of a process: means, integrals and derivatives."""
