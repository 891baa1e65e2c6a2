"""Several posteriors side by side."""
