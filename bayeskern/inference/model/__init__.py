"""A NumPyro model as the methods see it: a log density over unconstrained coordinates."""
