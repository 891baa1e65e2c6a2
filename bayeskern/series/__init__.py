"""A series, its calendar and its regressors, read from files, frames and arrays."""
