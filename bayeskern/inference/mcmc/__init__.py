"""Markov chains: the kernel, starts, runs in stretches, checkpoints, regions, the evidence."""
