"""Markov chains: kernel, starts, runs, checkpoints, regions and log evidence."""
