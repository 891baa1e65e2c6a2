"""Markov chains: kernel, starts, runs, checkpoints, regions and the evidence."""
