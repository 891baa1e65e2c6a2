"""Sequential Monte Carlo: the start distribution, tempering, moves, and the sampler."""
