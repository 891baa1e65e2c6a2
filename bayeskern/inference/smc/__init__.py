"""Sequential Monte Carlo: start distribution, tempering, moves and sampler."""
