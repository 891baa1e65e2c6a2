"""A NumPyro model as a log density over unconstrained coordinates."""
