"""Markov chains: NumPyro's kernel, where chains start, how they run, what their draws are worth."""
