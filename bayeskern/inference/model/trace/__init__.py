"""A NumPyro model as it is traced: its arguments, its sites, and effect handlers."""
