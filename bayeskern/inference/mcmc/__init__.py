"""Markov chains: NumPyro's kernel, where chains start, how they run, checkpoints, the evidence."""
