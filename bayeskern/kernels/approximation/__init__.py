"""Finite feature maps of kernels, as scikit-learn transformers."""
