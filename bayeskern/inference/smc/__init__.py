"""Sequential Monte Carlo: particles tempered from a start distribution to the posterior."""
